package ipsec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/encryption/encryptiontest"
	"github.com/nettoll/nettoll/encryption/ipsec"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/ebpf"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/tunnel"
	"github.com/nettoll/nettoll/tunnel/geneve"
	"github.com/nettoll/nettoll/tunnel/gre"
	"github.com/nettoll/nettoll/tunnel/ipip"
	"github.com/nettoll/nettoll/tunnel/vxlan"
)

// on is a tunnel on the encryption.
func on(t *testing.T, one tunnel.Tunnel, params, given map[string]string) stack.Stack {
	t.Helper()
	upper, err := stack.Kinds{tunnel.Kind{one}}.Choose("tunnel", one.Describe().Name, params)
	if err != nil {
		t.Fatal(err)
	}
	return append(stack.Stack{upper}, carriertest.Choose(t, encryption.Kind{ipsec.Encryption{}}, given)...)
}

// id names a stack.
func id(s stack.Stack) string {
	var all []string
	for _, c := range s {
		all = append(all, c.ID())
	}
	return strings.Join(all, "+")
}

// transport is the mode with other parameters.
func transport(more ...string) map[string]string {
	given := map[string]string{"mode": "transport", "impl": "kernel"}
	for _, one := range more {
		key, value, _ := strings.Cut(one, "=")
		given[key] = value
	}
	return given
}

// What a tunnel sends is protected in transport mode, by whatever tunnel, with the overhead that is said.
func TestTransport(t *testing.T) {
	over6 := map[string]string{"outer": "ipv6"}
	for _, tt := range []struct {
		one           tunnel.Tunnel
		params, given map[string]string
	}{
		{gre.Tunnel{}, nil, transport()},
		{ipip.Tunnel{}, over6, transport("encap=none", "outer=ipv6", "cipher=aes-256-cbc")},
		{vxlan.Tunnel{}, nil, transport("encap=none")},
		{geneve.Tunnel{}, over6, transport("outer=ipv6")},
	} {
		between := on(t, tt.one, tt.params, tt.given)
		t.Run(id(between), func(t *testing.T) {
			err := carriertest.OnWire(t, bridge.Network{}, between, outer(tt.given).Hidden)
			if err == nil {
				err = encryptiontest.Forged(t, bridge.Network{}, between)
			}
			testnet.Skip(t, err)
		})
	}
	between := on(t, gre.Tunnel{}, nil, transport())
	t.Run("gre", func(t *testing.T) {
		networktest.CheckCarried(t, bridge.Network{}, between, "packets, 2 hosts, 1 pairs", "path, 2 hosts", "pure",
			"round trip", "packets, 2 hosts, 3 pairs", "undo, 2 hosts", "undo from data, 2 hosts")
		for _, n := range []network.Network{routed.Network{}, ebpf.Network{}} {
			networktest.CheckCarried(t, n, between, "packets, 2 hosts, 1 pairs", "path, 2 hosts")
		}
	})
}

// A tunnel by eBPF stands on the link of tunnel mode, and is refused where it would go past transport mode.
func TestTunnelByEBPF(t *testing.T) {
	ebpf := map[string]string{"impl": "ebpf"}
	for _, one := range []tunnel.Tunnel{ipip.Tunnel{}, gre.Tunnel{}} {
		for _, outer := range []string{"ipv4", "ipv6"} {
			t.Run(one.Describe().Name+", "+outer, func(t *testing.T) {
				networktest.CheckCarried(t, bridge.Network{}, on(t, one, map[string]string{"impl": "ebpf", "outer": outer},
					map[string]string{"impl": "kernel"}), "packets, 2 hosts, 1 pairs", "undo, 2 hosts")
			})
		}
		_, err := network.Compose(networktest.Lab(2, 1), on(t, one, ebpf, transport()))
		if err == nil || !strings.Contains(err.Error(), "with impl=ebpf sends packets past the kernel's IP") {
			t.Errorf("%s by eBPF in transport mode: %v", one.Describe().Name, err)
		}
	}
}

// What does not go together with transport mode is refused with its reason.
func TestTransportRefused(t *testing.T) {
	lab := networktest.Lab(2, 1)
	alone := carriertest.Choose(t, encryption.Kind{ipsec.Encryption{}}, transport())
	for want, s := range map[string]stack.Stack{
		"ipsec in transport mode protects what hosts send each other, but packets of containers have other": alone,
		"tunnel gre sends packets of IPv4, but ipsec protects those of IPv6": on(t, gre.Tunnel{}, nil,
			transport("outer=ipv6")),
		"impl=strongswan encrypts in tunnel mode only": on(t, gre.Tunnel{}, nil, transport("impl=strongswan")),
	} {
		if _, err := network.Compose(lab, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", id(s), err, want)
		}
	}
	n, err := stack.Kinds{network.Kind{bridge.Network{}}}.Choose("network", "bridge", nil)
	if err != nil {
		t.Fatal(err)
	}
	kind := encryption.Kind{}
	for want, s := range map[string]stack.Stack{
		"":                                 alone,
		"packets of containers have other": append(stack.Stack{n}, alone...),
		"gre sends packets of IPv4, but ipsec protects those of IPv6": append(stack.Stack{n},
			on(t, gre.Tunnel{}, nil, transport("outer=ipv6"))...),
		"gre with impl=ebpf sends packets past": append(stack.Stack{n},
			on(t, gre.Tunnel{}, map[string]string{"impl": "ebpf"}, transport())...),
		" ": append(stack.Stack{n}, on(t, gre.Tunnel{}, nil, transport())...),
	} {
		if got := kind.Refuse(s, 2); (got == "") != (strings.TrimSpace(want) == "") || !strings.Contains(got, strings.TrimSpace(want)) {
			t.Errorf("%s: refused with %q, want %q", id(s), got, want)
		}
	}
}

// In transport mode a packet has no header of IP besides, and only what follows its own is padded.
func TestTransportOverhead(t *testing.T) {
	for _, tt := range []struct {
		given           map[string]string
		mtu, small, big int // small and big are what 100 bytes and the MTU become on the wire
	}{
		{transport(), 1458, 144, 1500},
		{transport("encap=none"), 1466, 136, 1500},
		{transport("encap=none", "outer=ipv6"), 1466, 136, 1500},
		{transport("encap=none", "cipher=aes-256-cbc"), 1458, 152, 1496},
		{transport("encap=none", "cipher=aes-256-cbc", "outer=ipv6"), 1462, 140, 1500},
	} {
		params := map[string]string{}
		if tt.given["outer"] != "" {
			params["outer"] = tt.given["outer"]
		}
		lab := networktest.Lab(2, 1)
		lab.MTU = 1500
		lab, err := network.Compose(lab, on(t, gre.Tunnel{}, params, tt.given))
		if err != nil {
			t.Fatal(err)
		}
		s := lab.Spans[1]
		if small, big := s.Overhead.On(100, s.MTU), s.Overhead.On(s.MTU, s.MTU); s.MTU != tt.mtu || small != tt.small ||
			big != tt.big {
			t.Errorf("%v: MTU %d, 100 bytes become %d, the largest packet %d; want %d, %d, %d", tt.given, s.MTU, small, big,
				tt.mtu, tt.small, tt.big)
		}
	}
}

// raiseTransport builds GRE in transport mode.
func raiseTransport(t *testing.T, given map[string]string) *networktest.Bed {
	t.Helper()
	lab, err := network.Compose(networktest.Lab(2, 1), on(t, gre.Tunnel{}, nil, given))
	if err != nil {
		t.Fatal(err)
	}
	return encryptiontest.Raise(t, lab)
}

// Verify notices what somebody changes, and without policy or association no packet passes in plain.
func TestTamperingTransport(t *testing.T) {
	for want, change := range map[string]func() error{
		"security association 0x10004 to 198.18.0.2: want present, got absent": func() error {
			return eachState(func(s netlink.XfrmState) error {
				if s.Spi != 0x10004 {
					return nil
				}
				return netlink.XfrmStateDel(&s)
			})
		},
		"key of security association 0x10004 to 198.18.0.2: want that of the lab, got another": func() error {
			return eachState(func(s netlink.XfrmState) error {
				if s.Spi != 0x10004 {
					return nil
				}
				if err := netlink.XfrmStateDel(&s); err != nil {
					return err
				}
				s.Aead.Key[7] ^= 1
				return netlink.XfrmStateAdd(&s)
			})
		},
		"policy (dir out) from 198.18.0.1/32 to 198.18.0.2/32: want allow, priority 0, esp transport": func() error {
			policies, err := netlink.XfrmPolicyList(netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			for _, p := range policies {
				if p.Dir == netlink.XFRM_DIR_OUT && p.Dst.String() == "198.18.0.2/32" {
					return netlink.XfrmPolicyDel(&p)
				}
			}
			return errors.New("no such policy")
		},
	} {
		t.Run(want, func(t *testing.T) {
			b := raiseTransport(t, transport())
			if err := b.Exchange("ipv4", 28); err != nil {
				t.Fatal(err)
			}
			if err := b.Hosts[0].Do(change); err != nil {
				t.Fatal(err)
			}
			drifted(t, b, want)
			if !strings.HasPrefix(want, "policy") { // a packet that is lost takes its time
				return
			}
			if err := b.Exchange("ipv4", 28); err == nil {
				t.Error("packets pass all the same")
			}
		})
	}
}

// GRE that nobody encrypted is not delivered, though it comes from the address of the other host.
func TestPlainTunnel(t *testing.T) {
	for _, given := range []map[string]string{transport("encap=none"), nil} { // as a control without encryption
		between := on(t, gre.Tunnel{}, nil, transport())[:1]
		if given != nil {
			between = on(t, gre.Tunnel{}, nil, given)
		}
		t.Run(id(between), func(t *testing.T) {
			lab, err := network.Compose(networktest.Lab(2, 1), between)
			if err != nil {
				t.Fatal(err)
			}
			b := encryptiontest.Raise(t, lab)
			if err := b.Exchange("ipv4", 28); err != nil {
				t.Fatal(err)
			}
			sink := b.Ends[1][0]
			at := netip.AddrPortFrom(sink.Bind("ipv4"), 20001)
			var in *net.UDPConn
			if err := b.Hosts[1].Kernel.Do(sink.Namespace, func() (err error) {
				in, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			tap, err := carriertest.Listen(b, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer tap.Close()
			if _, err := tap.Write(plainGRE(t, b, netip.AddrPortFrom(sink.Public("ipv4"), 20001))); err != nil {
				t.Fatal(err)
			}
			if err := in.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			n, err := in.Read(make([]byte, 100))
			if given != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d bytes of a plain packet are delivered: %v", n, err)
			}
			if given == nil && err != nil {
				t.Errorf("without encryption it is not delivered: %v (the test shows nothing)", err)
			}
		})
	}
}

// plainGRE is a frame for host 2 with a datagram in GRE, as host 1 would send it.
func plainGRE(t *testing.T, b *networktest.Bed, to netip.AddrPort) []byte {
	t.Helper()
	packet := func(protocol byte, from, to netip.Addr, payload []byte) []byte {
		p := make([]byte, 20, 20+len(payload))
		p[0], p[8], p[9] = 0x45, 64, protocol
		binary.BigEndian.PutUint16(p[2:], uint16(20+len(payload)))
		copy(p[12:], from.AsSlice())
		copy(p[16:], to.AsSlice())
		sum := uint32(0)
		for i := 0; i < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16))
		return append(p, payload...)
	}
	datagram := binary.BigEndian.AppendUint16(nil, 20001)
	datagram = binary.BigEndian.AppendUint16(datagram, to.Port())
	datagram = binary.BigEndian.AppendUint16(datagram, 8+5)
	datagram = append(append(datagram, 0, 0), "hello"...)
	inner := packet(17, b.Ends[0][0].Public("ipv4"), to.Addr(), datagram)
	under := b.Lab.Spans[0].Reach[0]
	whole := packet(47, under[0].IPv4, under[1].IPv4, append([]byte{0, 0, 8, 0}, inner...))
	var frame bytes.Buffer
	for _, r := range []network.Reach{under[1], under[0]} {
		mac, err := net.ParseMAC(r.MAC)
		if err != nil {
			t.Fatal(fmt.Errorf("the underlay: %w", err))
		}
		frame.Write(mac)
	}
	frame.Write([]byte{8, 0})
	frame.Write(whole)
	return frame.Bytes()
}

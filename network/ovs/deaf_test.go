package ovs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/network/ovs"
)

// The host's own stack takes nothing from the ports of a userspace datapath: it answers no ARP request with the MAC
// address of a port, and forwards nothing that a container sends there, in either family. Without the rules that keep
// it out it does both, and Verify reports that they are gone.
func TestDeaf(t *testing.T) {
	testnet.NotInGuest(t, "its ports are those of the kernel's datapath there")
	for _, flows := range []string{"normal", "explicit"} {
		t.Run(flows, func(t *testing.T) {
			lab := networktest.Lab(2, 2)
			lab.Params = map[string]string{"datapath": "userspace", "flows": flows}
			b, err := networktest.MakeBed(t, ovs.Network{}, lab)
			if err != nil {
				testnet.Skip(t, err)
			}
			t.Cleanup(func() {
				if err := b.Undo(); err != nil {
					t.Error(err)
				}
			})
			if err := b.Apply(t); err != nil {
				testnet.Skip(t, err)
			}
			if err := b.Verify(t); err != nil {
				t.Fatal(err)
			}
			k := b.Hosts[0].Kernel
			bridge, port := mac(t, k, network.Bridge), mac(t, k, "vsrc0")
			if got := answers(t, k, lab.Hosts[0]); !slices.Equal(got, []string{bridge}) {
				t.Errorf("%q answer for the gateway, want %s alone, that of the switch", got, bridge)
			}
			for _, family := range []string{"ipv4", "ipv6"} {
				if crosses(t, b, family, port, 300*time.Millisecond) {
					t.Errorf("%s: what src0 sends to the MAC address of its port arrives on the other host", family)
				}
			}

			if err := k.Do("", func() error {
				return errors.Join(ruleset.Delete("netdev", "nettoll-ports"), sysctl.Write("net.ipv6.conf.vsrc0.disable_ipv6", "0"))
			}); err != nil {
				t.Fatal(err)
			}
			err = b.Verify(t)
			for _, want := range []string{"table nettoll-ports: want present, got absent", "disable_ipv6: want 1, got 0"} {
				if _, drift := errors.AsType[*host.DriftError](err); !drift || !strings.Contains(err.Error(), want) {
					t.Errorf("without the rules Verify = %v, want a drift with %q", err, want)
				}
			}
			if got := answers(t, k, lab.Hosts[0]); !slices.Contains(got, port) {
				t.Errorf("without the rules %q answer for the gateway: the test shows nothing unless %s is among them", got, port)
			}
			if _, counted, err := b.Carry(t, ovs.Network{}); err == nil &&
				(counted == nil || !strings.Contains(counted.Error(), "received from port vsrc0")) {
				t.Errorf("without the rules counted: %v, want what the switch alone received from the port", counted)
			}
			for _, family := range []string{"ipv4", "ipv6"} {
				if !crosses(t, b, family, port, 10*time.Second) {
					t.Errorf("%s: without the rules what src0 sends to the MAC address of its port does not arrive: the test shows "+
						"nothing", family)
				}
			}
		})
	}
}

// mac returns the MAC address of a link of the host.
func mac(t *testing.T, k *host.Kernel, name string) string {
	t.Helper()
	h, err := k.Links("")
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l.MAC.String()
}

// answers returns who answers an ARP request of src0 for its gateway, sorted. It waits for the first answer, and then a
// fifth of a second for others.
func answers(t *testing.T, k *host.Kernel, h network.Host) []string {
	t.Helper()
	inside, err := k.Links("src0")
	if err != nil {
		t.Fatal(err)
	}
	own, err := inside.ByName(network.Inner)
	if err != nil {
		t.Fatal(err)
	}
	var f *os.File
	if err := k.Do("src0", func() (err error) { f, err = sock.Frames(own.Index); return err }); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	from, _ := network.ContainerAddr(h.Index, 0)
	gateway, _ := network.Gateway(h.Index)
	if _, err := f.Write(request(own.MAC, from.Addr(), gateway.Addr())); err != nil {
		t.Fatal(err)
	}
	wait := func(d time.Duration) {
		t.Helper()
		if err := f.SetReadDeadline(time.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	wait(10 * time.Second)
	var macs []string
	frame := make([]byte, 1<<11)
	for {
		n, err := f.Read(frame)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			slices.Sort(macs)
			return slices.Compact(macs)
		}
		if err != nil {
			t.Fatal(err)
		}
		// RFC 826: an answer (operation 2) whose sender's protocol address is the gateway's.
		if n >= 42 && binary.BigEndian.Uint16(frame[12:]) == 0x0806 && frame[21] == 2 &&
			bytes.Equal(frame[28:32], gateway.Addr().AsSlice()) {
			macs = append(macs, net.HardwareAddr(bytes.Clone(frame[22:28])).String())
			if len(macs) == 1 {
				wait(200 * time.Millisecond)
			}
		}
	}
}

// request is an ARP request, RFC 826.
func request(mac net.HardwareAddr, from, target netip.Addr) []byte {
	b := slices.Concat(bytes.Repeat([]byte{0xff}, 6), mac, []byte{0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1}, mac,
		from.AsSlice(), make([]byte, 6), target.AsSlice())
	return append(b, make([]byte, 60-len(b))...)
}

// crosses says whether snk0, on the other host, receives within this time what src0 sends there by a gateway at that
// MAC address.
func crosses(t *testing.T, b *networktest.Bed, family, gateway string, within time.Duration) bool {
	t.Helper()
	source, sink, other := b.Ends[0][0], b.Ends[1][0], b.Hosts[1].Kernel
	k := b.Hosts[0].Kernel
	via4, via6 := network.Gateway(1)
	elsewhere := host.Neighbour{
		NS: source.Namespace, Dev: source.Inner, Addresses: []string{via4.Addr().String(), via6.Addr().String()}, At: gateway,
	}
	if err := elsewhere.Apply(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := elsewhere.Remove(t.Context(), k); err != nil {
			t.Error(err)
		}
	}()
	open := func(k *host.Kernel, e network.Endpoint) (c *net.UDPConn) {
		if err := k.Do(e.Namespace, func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.Bind(family), 20000)))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return c
	}
	in, out := open(other, sink), open(k, source)
	defer in.Close()
	defer out.Close()
	for i := range 3 {
		if _, err := out.WriteToUDPAddrPort([]byte{byte(i)}, netip.AddrPortFrom(sink.Bind(family), 20000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	_, _, err := in.ReadFromUDPAddrPort(make([]byte, 16))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

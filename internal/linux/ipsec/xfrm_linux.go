package ipsec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

const (
	// linked joins the link with its policies and associations: a network namespace has one such link.
	linked = 1
	// window is how far behind the newest packet a packet may arrive, in packets (RFC 4303, section 3.4.3): the same as
	// in charon (strongSwan 5.9.8, src/libipsec/esp_context.c).
	window = 128
)

// ifid joins policies and associations with the link. In transport mode there is no link, and the number is 0.
func (c Config) ifid() int {
	if c.Transport {
		return 0
	}
	return linked
}

// families returns the number of families of inner packets: an association is for one of them, as its selector says. In
// transport mode it is for the family of the hosts' own addresses.
func (c Config) families() int {
	if c.Transport {
		return 1
	}
	return Families
}

// InKernel returns nil if the kernel can encrypt with this cipher, and otherwise what is missing. It tries in a network
// namespace of its own.
func InKernel(c Cipher) error {
	const what = "encrypt by IPsec of the kernel"
	hint := "load the kernel modules xfrm_interface, esp4 and esp6, or use impl=strongswan"
	if err := link.CheckKind("xfrm", hint); err != nil {
		return err
	}
	var tried error
	ns, err := netns.New(func() error {
		for _, at := range []string{"192.0.2.1", "2001:db8::1"} {
			a := netip.MustParseAddr(at)
			p := Peer{Host: 2, At: a.Next(), In: Key{make([]byte, Families*c.KeyLength())}}
			s := Config{Cipher: c, Host: 1, At: a}.state(p, 0, true)
			if tried = netlink.XfrmStateAdd(&s); tried != nil {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil // without the privilege to try, building will report it
		}
		return err
	}
	if err := ns.Close(); err != nil {
		return err
	}
	switch {
	case errors.Is(tried, unix.EPROTONOSUPPORT):
		return &linux.UnsupportedError{What: what, Missing: "ESP of the kernel", Hint: hint, Err: tried}
	case errors.Is(tried, unix.ENOSYS), errors.Is(tried, unix.ENOENT):
		return &linux.UnsupportedError{
			What: what, Missing: "algorithms of the kernel for " + c.Name,
			Hint: "load the kernel modules gcm, cbc, seqiv, echainiv, authenc and crypto_null, or use impl=strongswan",
			Err:  tried,
		}
	case tried != nil:
		return fmt.Errorf("%s: %w", what, tried)
	}
	return nil
}

// state returns the association with a peer for inner packets of a family: 0 is IPv4, 1 is IPv6.
func (c Config) state(p Peer, family int, in bool) netlink.XfrmState {
	from, to, src, dst, key := c.Host, p.Host, c.At, p.At, p.Out.bytes
	if in {
		from, to, src, dst, key = p.Host, c.Host, p.At, c.At, p.In.bytes
	}
	n := c.Cipher.KeyLength()
	key = key[family*n : (family+1)*n]
	all := everything()[family]
	s := netlink.XfrmState{
		Src: src.AsSlice(), Dst: dst.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: c.mode(),
		Spi: c.Epoch%Epochs<<24 | from<<16 | to<<1 | family, Reqid: reqid(p, family), Ifid: c.ifid(), ESN: true,
		ReplayWindow: window, Selector: &netlink.XfrmPolicy{Src: all, Dst: all},
	}
	if c.Transport { // it applies to its own addresses anyway
		s.Selector = nil
	}
	switch cipher, auth := key[:c.Cipher.key], key[c.Cipher.key:]; {
	case c.Cipher.aead != "":
		s.Aead = &netlink.XfrmStateAlgo{Name: c.Cipher.aead, Key: cipher, ICVLen: 8 * c.Cipher.ICV}
	default:
		s.Crypt = &netlink.XfrmStateAlgo{Name: c.Cipher.crypt, Key: cipher}
		s.Auth = &netlink.XfrmStateAlgo{Name: c.Cipher.auth, Key: auth, TruncateLen: 8 * c.Cipher.ICV}
	}
	if c.Encapsulated {
		s.Encap = &netlink.XfrmStateEncap{Type: netlink.XFRM_ENCAP_ESPINUDP, SrcPort: Port, DstPort: Port}
	}
	return s
}

func (c Config) mode() netlink.Mode {
	if c.Transport {
		return netlink.XFRM_MODE_TRANSPORT
	}
	return netlink.XFRM_MODE_TUNNEL
}

func reqid(p Peer, family int) int { return p.Host<<1 | family }

// everything returns all IPv4 addresses and all IPv6 addresses.
func everything() []*net.IPNet {
	return []*net.IPNet{
		{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
	}
}

// policies returns the policies of a peer: packets to its addresses are encrypted, and only encrypted packets are
// accepted from them.
func (c Config) policies(p Peer) []netlink.XfrmPolicy {
	var list []netlink.XfrmPolicy
	ranges := p.Ranges
	if c.Transport {
		ranges = []netip.Prefix{netip.PrefixFrom(p.At, p.At.BitLen())}
	}
	for _, r := range ranges {
		family := 0
		if r.Addr().Is6() && !c.Transport {
			family = 1
		}
		theirs := network(r)
		all := everything()[family]
		dirs := []netlink.Dir{netlink.XFRM_DIR_OUT, netlink.XFRM_DIR_IN, netlink.XFRM_DIR_FWD}
		if c.Transport {
			all, dirs = network(netip.PrefixFrom(c.At, c.At.BitLen())), dirs[:2]
		}
		for _, d := range dirs {
			one := netlink.XfrmPolicy{Src: theirs, Dst: all, Dir: d, Ifid: c.ifid()}
			t := netlink.XfrmPolicyTmpl{
				Src: p.At.AsSlice(), Dst: c.At.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: c.mode(), Reqid: reqid(p, family),
			}
			if d == netlink.XFRM_DIR_OUT {
				one.Src, one.Dst, t.Src, t.Dst = all, theirs, t.Dst, t.Src
			}
			one.Tmpls = []netlink.XfrmPolicyTmpl{t}
			list = append(list, one)
		}
	}
	return list
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// AddKernel makes the link, which is down, in the calling thread's network namespace, with policies and associations,
// and returns its index. In transport mode there is no link, and the index is 0.
func AddKernel(name string, c Config) (index int, err error) {
	l := &netlink.Xfrmi{LinkAttrs: netlink.LinkAttrs{Name: name}, Ifid: uint32(c.ifid())}
	if !c.Transport {
		if err := netlink.LinkAdd(l); err != nil {
			return 0, fmt.Errorf("make device %q of type \"xfrm\": %w", name, err)
		}
	}
	for _, p := range c.Peers {
		for family := range c.families() {
			for _, in := range []bool{true, false} {
				s := c.state(p, family, in)
				if err := netlink.XfrmStateAdd(&s); err != nil {
					return l.Index, fmt.Errorf("add the security association with host %d: %w", p.Host, err)
				}
			}
		}
		for _, one := range c.policies(p) {
			if err := netlink.XfrmPolicyAdd(&one); err != nil {
				return l.Index, fmt.Errorf("add the policy for %s of host %d: %w", one.Dst, p.Host, err)
			}
		}
	}
	return l.Index, nil
}

// RekeyKernel replaces associations in the calling thread's network namespace. In stage 0, both ends add the new ones
// for decryption. Only after that do both ends start to encrypt with them, in stage 1, and after that remove the old
// ones, in stage 2. So no packet arrives that cannot be decrypted.
func RekeyKernel(old, now Config, stage int) error {
	for i := range now.Peers {
		for family := range now.families() {
			add, remove := now.state(now.Peers[i], family, stage == 0), old.state(old.Peers[i], family, stage == 2)
			if stage < 2 {
				if err := netlink.XfrmStateAdd(&add); err != nil {
					return fmt.Errorf("add the security association with host %d: %w", now.Peers[i].Host, err)
				}
			}
			if stage > 0 {
				if err := netlink.XfrmStateDel(&remove); err != nil {
					return fmt.Errorf("remove the security association with host %d: %w", now.Peers[i].Host, err)
				}
			}
		}
	}
	return nil
}

// inNamespace returns the associations and policies of the link, or those without a link, in the calling thread's
// network namespace.
func (c Config) inNamespace() (states []netlink.XfrmState, policies []netlink.XfrmPolicy, err error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		some, err := netlink.XfrmStateList(family)
		if err != nil {
			return nil, nil, fmt.Errorf("list security associations: %w", err)
		}
		states = append(states, some...)
		more, err := netlink.XfrmPolicyList(family)
		if err != nil {
			return nil, nil, fmt.Errorf("list policies: %w", err)
		}
		policies = append(policies, more...)
	}
	return slices.DeleteFunc(states, func(s netlink.XfrmState) bool { return s.Ifid != c.ifid() }),
		slices.DeleteFunc(policies, func(p netlink.XfrmPolicy) bool { return p.Ifid != c.ifid() || ofSocket(p) }), nil
}

// ofSocket reports whether a policy belongs to a socket and does not apply to all packets.
func ofSocket(p netlink.XfrmPolicy) bool { return p.Dir > netlink.XFRM_DIR_FWD }

// RemoveKernel removes policies and associations from the calling thread's network namespace. There may be none.
func RemoveKernel(c Config) error {
	states, policies, err := c.inNamespace()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil // so there are none
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range policies {
		errs = append(errs, netlink.XfrmPolicyDel(&p))
	}
	for _, s := range states {
		errs = append(errs, netlink.XfrmStateDel(&s))
	}
	return errors.Join(errs...)
}

// CompareKernel lists the differences between the kernel and the configuration, in the calling thread's network
// namespace. It shows no key.
func CompareKernel(name string, c Config) (list []linux.Difference, err error) {
	differ := func(what, want, got string) {
		if want != got {
			list = append(list, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	if !c.Transport {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("find link %q: %w", name, err)
		}
		if x, ok := l.(*netlink.Xfrmi); !ok || x.Ifid != uint32(c.ifid()) {
			differ("number that joins "+name+" with its policies", fmt.Sprint(c.ifid()), "another")
		}
	}
	states, policies, err := c.inNamespace()
	if err != nil {
		return nil, err
	}
	found := map[string]netlink.XfrmState{}
	for _, s := range states {
		found[called(s)] = s
	}
	left := map[string]string{}
	for _, p := range policies {
		left[selects(p)] = does(p)
	}
	for _, p := range c.Peers {
		for family := range c.families() {
			for _, in := range []bool{true, false} {
				want := c.state(p, family, in)
				what := called(want)
				got, ok := found[what]
				delete(found, what)
				if !ok {
					differ(what, linux.Present, linux.Absent)
					continue
				}
				differ("ends of "+what, ends(want), ends(got))
				differ("cipher of "+what, algorithms(want), algorithms(got))
				if !bytes.Equal(secrets(want), secrets(got)) {
					differ("key of "+what, "that of the lab", "another")
				}
			}
		}
		for _, one := range c.policies(p) {
			got, ok := left[selects(one)]
			delete(left, selects(one))
			if !ok {
				got = linux.Absent
			}
			differ(selects(one), does(one), got)
		}
	}
	for what := range found {
		differ(what, linux.Absent, linux.Present)
	}
	for what := range left {
		differ(what, linux.Absent, linux.Present)
	}
	slices.SortFunc(list, func(a, b linux.Difference) int { return strings.Compare(a.What, b.What) })
	return list, nil
}

// The descriptions of associations and policies. The texts of the library would show keys.

func called(s netlink.XfrmState) string {
	return fmt.Sprintf("security association %#x to %s", s.Spi, s.Dst)
}

func ends(s netlink.XfrmState) string {
	text := fmt.Sprintf("%s %s from %s for policies %d", s.Proto, s.Mode, s.Src, s.Reqid)
	if s.Encap != nil {
		text += fmt.Sprintf(" in %s %d to %d", s.Encap.Type, s.Encap.SrcPort, s.Encap.DstPort)
	}
	return text
}

func algorithms(s netlink.XfrmState) string {
	var all []string
	for _, a := range []*netlink.XfrmStateAlgo{s.Aead, s.Crypt, s.Auth} {
		if a != nil {
			all = append(all, fmt.Sprintf("%s, key %d, value %d bits", a.Name, 8*len(a.Key), a.ICVLen+a.TruncateLen))
		}
	}
	return strings.Join(all, "; ")
}

func secrets(s netlink.XfrmState) []byte {
	var all []byte
	for _, a := range []*netlink.XfrmStateAlgo{s.Aead, s.Crypt, s.Auth} {
		if a != nil {
			all = append(all, a.Key...)
		}
	}
	return all
}

func selects(p netlink.XfrmPolicy) string {
	return fmt.Sprintf("policy (%s) from %s to %s", p.Dir, p.Src, p.Dst)
}

func does(p netlink.XfrmPolicy) string {
	all := []string{p.Action.String(), fmt.Sprintf("priority %d", p.Priority)}
	for _, t := range p.Tmpls {
		text := fmt.Sprintf("%s %s from %s to %s by %d", t.Proto, t.Mode, t.Src, t.Dst, t.Reqid)
		if t.Optional != 0 {
			text += " (optional)"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// sockets are the sockets at which the kernel decapsulates ESP from UDP.
type sockets []int

// Close closes them.
func (s sockets) Close() error {
	var errs []error
	for _, fd := range s {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// Decapsulate makes the kernel decapsulate ESP from UDP in the calling thread's network namespace (udp(7), UDP_ENCAP),
// in both families, until the result is closed. In transport mode, ESP packets have the same addresses as the packets
// that they protect, so policies would otherwise encrypt them a second time.
func Decapsulate(c Config) (held io.Closer, err error) {
	var list sockets
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			list = append(list, fd)
			var at unix.Sockaddr = &unix.SockaddrInet4{Port: Port}
			if family == unix.AF_INET6 {
				at = &unix.SockaddrInet6{Port: Port}
				err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
			}
			if err == nil {
				err = unix.Bind(fd, at)
			}
			if err == nil && c.Transport {
				err = bypass(fd, family)
			}
			if err == nil {
				err = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_ESPINUDP)
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("take ESP out of UDP at port %d: %w", Port, err), list.Close())
		}
	}
	return list, nil
}

// bypass exempts a socket's packets from all other policies with policies of its own (IP_XFRM_POLICY,
// include/uapi/linux/in.h).
func bypass(fd, family int) error {
	level, option := unix.IPPROTO_IP, unix.IP_XFRM_POLICY
	if family == unix.AF_INET6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_XFRM_POLICY
	}
	for _, d := range []netlink.Dir{netlink.XFRM_DIR_IN, netlink.XFRM_DIR_OUT} {
		p := nl.XfrmUserpolicyInfo{Dir: uint8(d), Action: uint8(netlink.XFRM_POLICY_ALLOW)}
		p.Sel.Family = uint16(family)
		if err := unix.SetsockoptString(fd, level, option, string(p.Serialize())); err != nil {
			return fmt.Errorf("let packets of a socket pass: %w", err)
		}
	}
	return nil
}

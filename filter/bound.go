package filter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/part"
)

// Bound is the step that enforces bindings for filters at hooks of the kernel: a table of nftables at the ingress and
// the egress of the host's links to containers (family netdev), before a bridge learns an address and after it has
// chosen, or flooded, a link. Each family has one hash of link, MAC and IP address for both ways, so a packet takes
// equally long however many containers there are.
//
//	ingress-LINK  goto bound
//	bound         a bound source of IPv4 or IPv6 goes on below; ARP and duplicate address detection about bound addresses
//	              pass
//	from-ipv4     redirects, routers and DHCP servers are refused, all else passes
//	from-ipv6     likewise, and neighbour discovery passes only about bound addresses
//	egress-LINK   goto toward
//	toward        IPv4 and IPv6 pass to bound destinations and to groups, and all that is none of them passes
//	refused       counts and drops everything else
type Bound struct {
	Bindings []Binding `json:"bindings"`
}

var _ Counting = Bound{}

// Bound returns the step that binds addresses to links if the parameters of the site ask for it. Filters have its kind
// among their steps.
func (s Site) Bound() ([]host.Step, error) {
	list, err := s.Bindings()
	if list == nil || err != nil {
		return nil, err
	}
	return []host.Step{Bound{Bindings: list}}, nil
}

// CheckNftables returns an error if the kernel has no nftables. Without privileges in its namespace it cannot tell and
// returns nil: the namespaces of hosts are different.
func CheckNftables() error {
	_, err := nft.List()
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// CheckBound returns an error if the parameters ask for bound addresses and the kernel has no nftables.
func CheckBound(p part.Params) error {
	if !p.On(Antispoof) {
		return nil
	}
	return CheckNftables()
}

// Kind returns "bound".
func (Bound) Kind() string { return "bound" }

// String says the step as a person would.
func (b Bound) String() string {
	return fmt.Sprintf("nftables at the ingress and egress of %d links to containers: drop packets from and for a MAC or "+
		"IP address that is not the container's", len(b.Bindings))
}

// Names of the table and its chains.
const (
	boundTable = "nettoll-antispoof"
	boundChain = "bound"
	toward     = "toward"
	refused    = "refused"
)

// boundPriority is before all other filters there, which have 0.
const boundPriority = -300

// Offsets of the MAC addresses in a frame (IEEE 802.3), of the sender in ARP (RFC 826), of the length and the next
// header in IPv6 (RFC 8200, section 3), and of the target and the option in neighbour discovery (RFC 4861, sections 4.3
// and 4.4).
const (
	sinkMAC     = 0
	sourceMAC   = 6
	arpMAC      = 8
	arpAddress  = 14
	lengthNext  = 4
	ndTarget    = 8
	ndOption    = 24
	ndOptionMAC = 26
	ndLength    = 24 // without an option
	ndWith      = 32 // with one that holds a MAC address
)

// Numbers of protocols, of messages and of options (IANA), and the ports of DHCP servers (RFC 2131, section 4.1; RFC
// 8415, section 7.2).
const (
	protocolICMP   = 1
	protocolUDP    = 17
	protocolICMPv6 = 58
	fragmentHeader = 44
	redirect4      = 5
	router4        = 9
	solicitation   = 135
	advertisement  = 136
	optionSource   = 1
	optionTarget   = 2
	optionNonce    = 14 // of duplicate address detection, RFC 7527
	serverDHCP     = 67
	serverDHCPv6   = 547
)

// A version is what differs between families: the type of frames, where the addresses are (RFC 791, section 3.1; RFC
// 8200, section 3), and the first byte of addresses of groups, under a mask (RFC 5771; RFC 4291, section 2.7).
type version struct {
	name                 string
	ether                [2]byte
	source, sink, length uint32
	group, mask          byte
	field                ruleset.Field
}

func versions() (v4, v6 version) {
	return version{"ipv4", [2]byte{0x08, 0x00}, 12, 16, 4, 0xe0, 0xf0, ruleset.IPv4}, version{
		"ipv6", [2]byte{0x86, 0xdd}, 8, 24, 16, 0xff, 0xff, ruleset.IPv6,
	}
}

// A field is where a packet holds an address.
type field struct {
	base   ruleset.Base
	offset uint32
}

// bound asks whether the link that a packet comes from has the two addresses that it holds.
func (v version) bound(r ruleset.Rule, mac, ip field) ruleset.Rule {
	return v.at(ruleset.InName, r, mac, ip)
}

// at asks whether a link has the two addresses that a packet holds.
func (v version) at(link ruleset.Meta, r ruleset.Rule, mac, ip field) ruleset.Rule {
	key := ruleset.Word(0)
	return r.LoadMeta(key, link).Load(ruleset.Word(4), mac.base, mac.offset, 6).Load(ruleset.Word(6), ip.base,
		ip.offset, v.length).In(v.name, key)
}

// set holds the addresses of a family.
func (b Bound) set(v version) ruleset.Set {
	s := ruleset.Set{Name: v.name, Fields: []ruleset.Field{ruleset.Name, ruleset.MAC, v.field}, Size: 2 * len(b.Bindings)}
	s.Elements = func(yield func(ruleset.Element) bool) {
		for _, l := range b.Bindings {
			mac, _ := l.Hardware() // checked by Bindings
			addresses := []netip.Addr{l.IPv4}
			if v.length == 16 {
				addresses = []netip.Addr{l.IPv6, LinkLocal(mac)}
			}
			for _, a := range addresses {
				key := make([]byte, 24, 40)
				copy(key, l.Link)
				copy(key[16:], mac[:])
				if !yield(ruleset.Element{Key: append(key, a.AsSlice()...)}) {
					return
				}
			}
		}
	}
	return s
}

// toward are the rules for what leaves by a link to a container: the frame and the packet are for its addresses. What
// is for a group is for nobody alone. Filters refuse what is not needed of that, and of ARP, where it comes in.
func (b Bound) toward() ruleset.Chain {
	v4, v6 := versions()
	w := ruleset.Word(0)
	var rules []ruleset.Rule
	for _, v := range []version{v4, v6} {
		rules = append(rules, v.at(ruleset.OutName, frame(v.ether), field{ruleset.LinkHeader, sinkMAC},
			field{ruleset.NetworkHeader, v.sink}).Accept())
	}
	for _, v := range []version{v4, v6} {
		rules = append(rules,
			frame(v.ether).Load(w, ruleset.NetworkHeader, v.sink, 1).Mask(w, v.mask).Equal(w, v.group).Accept())
	}
	return ruleset.Chain{Name: toward, Rules: ruleset.All(append(rules,
		// broadcasts to all on a link: RFC 919, section 7
		frame(v4.ether).Load(w, ruleset.NetworkHeader, v4.sink, v4.length).Equal(w, 0xff, 0xff, 0xff, 0xff).Accept(),
		frame(v4.ether).Goto(refused), frame(v6.ether).Goto(refused), ruleset.Rule(nil).Accept(),
	)...)}
}

// frame begins a rule for frames of a type.
func frame(kind [2]byte) ruleset.Rule {
	w := ruleset.Word(0)
	return ruleset.Rule(nil).LoadMeta(w, ruleset.EtherType).Equal(w, kind[:]...)
}

// from asks for UDP from a port.
func from(port uint16) ruleset.Rule {
	w := ruleset.Word(0)
	return ruleset.Rule(nil).LoadMeta(w, ruleset.Protocol).Equal(w, protocolUDP).Load(w, ruleset.TransportHeader, 0,
		2).Between(w, port, port)
}

// messages asks for those of ICMP from one type to another.
func messages(protocol byte, first, last uint16) ruleset.Rule {
	w := ruleset.Word(0)
	return ruleset.Rule(nil).LoadMeta(w, ruleset.Protocol).Equal(w, protocol).Load(w, ruleset.TransportHeader, 0,
		2).Between(w, first<<8, last<<8|0xff)
}

// discovery asks for a message of neighbour discovery that is the whole packet, without an option or with one of a type
// that holds a MAC address. Receivers take an option wherever it stands, so no other may come before it.
func discovery(r ruleset.Rule, kind, option byte) ruleset.Rule {
	w := ruleset.Word(0)
	length := byte(ndLength)
	if option != 0 {
		length = ndWith
	}
	r = r.Load(w, ruleset.NetworkHeader, lengthNext, 3).Equal(w, 0, length, protocolICMPv6).Load(w,
		ruleset.TransportHeader, 0, 1).Equal(w, kind)
	if option != 0 {
		r = r.Load(w, ruleset.TransportHeader, ndOption, 2).Equal(w, option, 1)
	}
	return r
}

// table is what stands.
func (b Bound) table() ruleset.Table {
	v4, v6 := versions()
	w := ruleset.Word(0)
	link, sender := field{ruleset.LinkHeader, sourceMAC}, field{ruleset.NetworkHeader, arpMAC}
	source4, source6, spoken := field{ruleset.NetworkHeader, v4.source}, field{ruleset.NetworkHeader, v6.source},
		field{ruleset.NetworkHeader, arpAddress}
	target, optional := field{ruleset.TransportHeader, ndTarget}, field{ruleset.TransportHeader, ndOptionMAC}
	// of Ethernet and IPv4
	arp := frame([2]byte{0x08, 0x06}).Load(w, ruleset.NetworkHeader, 0, 6).Equal(w, 0, 1, 8, 0, 6, 4)
	duplicates := func() ruleset.Rule {
		return frame(v6.ether).Load(w, ruleset.NetworkHeader, v6.source, v6.length).Equal(w, make([]byte, v6.length)...)
	}
	chains := []ruleset.Chain{
		{Name: refused, Rules: ruleset.All(ruleset.Rule(nil).Count().Drop())},
		{Name: boundChain, Rules: ruleset.All(
			v4.bound(frame(v4.ether), link, source4).Goto("from-"+v4.name),
			v6.bound(frame(v6.ether), link, source6).Goto("from-"+v6.name),
			v4.bound(v4.bound(arp, link, spoken), sender, spoken).Accept(),
			v6.bound(discovery(duplicates(), solicitation, 0), link, target).Accept(),
			v6.bound(discovery(duplicates(), solicitation, optionNonce), link, target).Accept(),
			ruleset.Rule(nil).Goto(refused),
		)},
		{Name: "from-" + v4.name, Rules: ruleset.All(
			from(serverDHCP).Goto(refused),
			messages(protocolICMP, redirect4, redirect4).Goto(refused),
			messages(protocolICMP, router4, router4).Goto(refused),
			ruleset.Rule(nil).Accept(),
		)},
		{Name: "from-" + v6.name, Rules: ruleset.All(
			from(serverDHCPv6).Goto(refused),
			ruleset.Rule(nil).LoadMeta(w, ruleset.Protocol).Differ(w, protocolICMPv6).Accept(),
			// not the first fragment of its packet (RFC 8200, section 4.5)
			ruleset.Rule(nil).LoadExtension(w, fragmentHeader, 2, 2).Mask(w, 0xff, 0xf8).Differ(w, 0, 0).Accept(),
			// errors (RFC 4443)
			messages(protocolICMPv6, 1, 4).Accept(),
			messages(protocolICMPv6, 128, 129).Accept(), // echoes
			// members of groups (RFC 2710)
			messages(protocolICMPv6, 131, 132).Accept(),
			// likewise (RFC 3810)
			messages(protocolICMPv6, 143, 143).Accept(),
			discovery(nil, solicitation, 0).Accept(),
			v6.bound(discovery(nil, solicitation, optionSource), optional, source6).Accept(),
			v6.bound(discovery(nil, advertisement, 0), link, target).Accept(),
			v6.bound(discovery(nil, advertisement, optionTarget), optional, target).Accept(),
			ruleset.Rule(nil).Goto(refused),
		)},
	}
	chains = append(chains, b.toward())
	for _, l := range b.Bindings {
		for _, to := range []struct{ hook, chain string }{{"ingress", boundChain}, {"egress", toward}} {
			chains = append(chains, ruleset.Chain{
				Name: to.hook + "-" + l.Link, Hook: &ruleset.Hook{Name: to.hook, Priority: boundPriority, Link: l.Link},
				Rules: ruleset.All(ruleset.Rule(nil).Goto(to.chain)),
			})
		}
	}
	return ruleset.Table{Family: "netdev", Name: boundTable, Sets: []ruleset.Set{b.set(v4), b.set(v6)}, Chains: chains}
}

// Apply makes the table.
func (b Bound) Apply(_ context.Context, k *host.Kernel) error {
	return k.Load("rules", func() error { return k.Do("", func() error { return ruleset.Add(b.table()) }) })
}

// Remove deletes the table.
func (b Bound) Remove(_ context.Context, k *host.Kernel) error {
	return deleted(k.Do("", func() error { return ruleset.Delete("netdev", boundTable) }))
}

// Verify reads the table back.
func (b Bound) Verify(k *host.Kernel) error { return verified(k, b.String(), b.table()) }

// Counters returns how many packets were refused.
func (b Bound) Counters(k *host.Kernel) (c Counters, err error) {
	err = k.Do("", func() error {
		rules, err := ruleset.Read("netdev", boundTable, refused)
		for _, r := range rules {
			c.Refused += r.Packets
		}
		return err
	})
	return c, err
}

// deleted makes nothing of a table that is gone already.
func deleted(err error) error {
	if errors.Is(err, nft.ErrNotFound) {
		return nil
	}
	return err
}

// verified compares a table of the host and makes what differs a [host.DriftError] of the step.
func verified(k *host.Kernel, step string, t ruleset.Table) error {
	return Verify(k, step, []ruleset.Table{t}, func(ruleset.Table) string {
		return ""
	}, func(t ruleset.Table, add func(what, want, got string)) error {
		list, err := ruleset.Compare(t)
		for _, d := range list {
			add(d.What, d.Want, d.Got)
		}
		return err
	})
}

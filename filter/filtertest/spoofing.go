package filtertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/packet"
)

// spoofing has another container of its host use the addresses of the first pair's source, and take them over. With
// antispoof=true nothing of that arrives, no neighbour and no bridge learns anything, all of it is counted, and allowed
// traffic goes on. Without, what the documents say that nothing protects against has to succeed, or the checks would
// show nothing.
func (c *trial) spoofing(t testing.TB) error {
	if c.where.Point == network.InContainer {
		return nil // its root sends what it likes
	}
	for _, n := range []int{pairs, pairs + 1} {
		of := *c
		of.pairs = n
		if err := of.spoof(t); err != nil {
			return fmt.Errorf("%d pairs: %w", n, err)
		}
	}
	return nil
}

func (c *trial) spoof(t testing.TB) (err error) {
	families := []string{"ipv4", "ipv6"}
	s, err := c.raise(t, families)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Undo()) }()
	talk := func(when string) error {
		for _, p := range s.pairs {
			for _, family := range families {
				source, sink := s.end(p.Source), s.end(p.Sink)
				if err := datagrams(t, source, sink, family, 28); err != nil {
					return fmt.Errorf("%s, %s from %s to %s: %w", when, family, source.name, sink.name, err)
				}
			}
		}
		return nil
	}
	if err := talk("before anything is spoofed"); err != nil { // everybody knows everybody
		return err
	}
	before, err := s.counters()
	if err != nil {
		return err
	}
	heard := &ears{came: map[string]int{}}
	defer heard.close()
	f := &forger{
		smuggler: smuggler{c: c, s: s, heard: heard, sockets: map[string]*os.File{}},
		victim:   s.end(s.pairs[0].Source), sink: s.end(s.pairs[0].Sink),
	}
	for _, e := range s.ends() {
		if e.spot.Host == f.victim.spot.Host { // its last neighbour
			f.attacker = e
		}
	}
	if err := f.prepare(families); err != nil {
		return err
	}
	on := c.params.On(filter.Antispoof)
	for round := range rounds {
		for _, a := range f.list {
			if round > 0 && (on || !a.want || heard.count(a.key) > 0) {
				continue
			}
			if err := a.try(); err != nil && !refusedAtOnce(err) {
				return fmt.Errorf("%s: %w", a.text, err)
			}
		}
		time.Sleep(settle / 3)
		missed := func(a attempt) bool { return a.want && heard.count(a.key) == 0 }
		if round >= 2 && (on || !slices.ContainsFunc(f.list, missed)) {
			break // what must not arrive was sent once, and has had its time
		}
	}
	learned, err := f.learned()
	if err != nil {
		return err
	}
	var wrong []string
	for _, a := range f.list {
		switch came := heard.count(a.key) > 0; {
		case on && came:
			wrong = append(wrong, a.text+" arrives, and must not")
		case !on && a.want && !came:
			wrong = append(wrong, a.text+" does not arrive, and nothing protects against it")
		}
	}
	taken, err := f.taken()
	if err != nil {
		return err
	}
	taken["mac"] = learned
	for _, what := range []string{"ipv4", "ipv6", "mac"} {
		switch where := taken[what]; {
		case on && where != "":
			wrong = append(wrong, fmt.Sprintf("%s took the address of %s over (%s): %s", f.attacker.name, f.victim.name, what,
				where))
		case !on && f.bridged && where == "" && (what != "mac" || c.where.Point != network.AtOpenFlow):
			// whose table is asked elsewhere
			wrong = append(wrong, fmt.Sprintf("%s did not take the address of %s over (%s), and nothing protects against it",
				f.attacker.name, f.victim.name, what))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	heard.close()
	if !on {
		return nil
	}
	after, err := s.counters()
	if err != nil {
		return err
	}
	if after.Refused < before.Refused+uint64(f.frames) {
		return fmt.Errorf("it has counted %d refused packets, and %d before: want %d more at least", after.Refused,
			before.Refused, f.frames)
	}
	return errors.Join(talk("after much was spoofed"), s.Verify(t))
}

// A forger makes frames with addresses that are not its own.
type forger struct {
	smuggler
	victim, sink, attacker end
	own, theirs            net.HardwareAddr // of the attacker and the victim
	ways                   []net.HardwareAddr
	bridged                bool // containers of a host hear each other's ARP
	frames                 int  // that were made
}

// prepare makes the list of what is tried.
func (f *forger) prepare(families []string) error {
	known := map[string]addresses{}
	for _, e := range f.s.ends() {
		var err error
		if known[e.name], err = f.open(e); err != nil {
			return err
		}
	}
	f.own, f.theirs = known[f.attacker.name].own, known[f.victim.name].own
	f.ways = append([]net.HardwareAddr{known[f.sink.name].own}, known[f.attacker.name].host...)
	f.bridged = len(f.ways) > 2 && (f.c.where.Point != network.AtOpenFlow || f.c.on.Floods)
	for _, family := range families {
		if err := f.heard.listen(f.sink, family, f.sink.ports.First); err != nil {
			return err
		}
		f.sources(family)
	}
	f.arp()
	f.discovery()
	return nil
}

// add adds an attempt: frames to each of those who might take them.
func (f *forger) add(what string, want bool, key string, made ...func(to net.HardwareAddr) []byte) {
	f.list = append(f.list, attempt{
		text: fmt.Sprintf("%s, from %s", what, f.attacker.name), want: want, key: key,
		try: func() error {
			for _, to := range f.ways {
				for _, frame := range made {
					f.frames++
					if _, err := f.sockets[f.attacker.name].Write(frame(to)); err != nil {
						return err
					}
				}
			}
			return nil
		},
	})
}

func (f *forger) key() string {
	f.number++
	return fmt.Sprintf("<<%s %d>>", f.attacker.name, f.number)
}

// sources sends datagrams of a family that only the victim may send, to its sink, and others that are nobody's.
func (f *forger) sources(family string) {
	from, to, own := f.victim.Bind(family), f.sink.Public(family), f.attacker.Bind(family)
	datagram := func(from netip.Addr, port uint16, key string) []byte {
		return packet.Datagram(netip.AddrPortFrom(from, port), netip.AddrPortFrom(to, f.sink.ports.First), key)
	}
	frame := func(mac net.HardwareAddr, p []byte) func(net.HardwareAddr) []byte {
		return func(to net.HardwareAddr) []byte { return packet.Frame(to, mac, packet.TypeOf(from), p) }
	}
	key := f.key()
	f.add("a datagram with the victim's "+family+" address", true, key,
		frame(f.own, packet.IP(from, to, packet.UDP, packet.Hops, datagram(from, f.victim.ports.First, key))))
	key = f.key()
	f.add("a datagram with the victim's MAC and "+family+" address", false, key,
		frame(f.theirs, packet.IP(from, to, packet.UDP, packet.Hops, datagram(from, f.victim.ports.First, key))))
	for _, tags := range [][][2]uint16{
		{{packet.TypeVLAN, 0}},
		{{packet.TypeVLAN, 7}},
		{{packet.TypeService, 0}, {packet.TypeVLAN, 0}},
		{{packet.TypeVLAN, 0}, {packet.TypeVLAN, 0}},
	} {
		key = f.key()
		made := frame(f.own, packet.IP(from, to, packet.UDP, packet.Hops, datagram(from, f.victim.ports.First, key)))
		f.add(fmt.Sprintf("the same over %s behind tags %v", family, tags), false, key, func(to net.HardwareAddr) []byte {
			return packet.Tagged(made(to), tags...)
		})
	}
	server := map[string]uint16{"ipv4": 67, "ipv6": 547}[family]
	key = f.key()
	f.add("a DHCP server's message over "+family, false, key,
		frame(f.own, packet.IP(own, to, packet.UDP, packet.Hops, datagram(own, server, key))))
	if family == "ipv6" {
		for _, headers := range [][]byte{
			{packet.HopByHop}, {packet.Destinations}, {packet.Routing}, slices.Repeat([]byte{packet.Destinations}, 8),
		} {
			key = f.key()
			next, payload := packet.Behind(headers, packet.UDP, datagram(from, f.victim.ports.First, key))
			f.add(fmt.Sprintf("the same over %s behind headers %v", family, headers), false, key,
				frame(f.own, packet.IP(from, to, next, packet.Hops, payload)))
		}
		return
	}
	key = f.key()
	p := packet.IP(from, to, packet.UDP, packet.Hops,
		append([]byte{1, 1, 1, 0}, datagram(from, f.victim.ports.First, key)...))
	p[0], p[10], p[11] = 0x46, 0, 0 // four bytes of options, that pad
	sum := ^packet.Sum(p[:24])
	p[10], p[11] = byte(sum>>8), byte(sum)
	f.add("the same behind options of IPv4", false, key, frame(f.own, p))
}

// arp says that the victim's address is the attacker's, to everybody and to each.
func (f *forger) arp() {
	address, sink := f.victim.IPv4, f.sink.IPv4
	for _, operation := range []uint16{packet.Request, packet.Reply} {
		for _, sender := range []net.HardwareAddr{f.own, f.theirs} {
			gratuitous := packet.ARP(operation, f.own, address, packet.Broadcast(), address)
			reply := packet.ARP(operation, f.own, address, f.ways[0], sink)
			f.add(fmt.Sprintf("ARP %d for the victim's address", operation), false, "", func(net.HardwareAddr) []byte {
				return packet.Frame(packet.Broadcast(), sender, packet.TypeARP, gratuitous)
			},
				func(to net.HardwareAddr) []byte { return packet.Frame(to, sender, packet.TypeARP, reply) },
				func(to net.HardwareAddr) []byte {
					return packet.Tagged(packet.Frame(to, sender, packet.TypeARP, reply), [2]uint16{packet.TypeVLAN, 0})
				})
		}
	}
}

// discovery says the same by neighbour discovery, also where the option that says it stands behind another, and speaks
// as routers do.
func (f *forger) discovery() {
	all := netip.MustParseAddr("ff02::1")
	group := net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	victim, own, sink := f.victim.IPv6, f.attacker.IPv6, f.sink.IPv6
	option := func(kind byte) []byte { return append([]byte{kind, 1}, f.own...) }
	nonce := []byte{14, 1, 1, 2, 3, 4, 5, 6}
	const override = 0x20000000
	for _, c := range []struct {
		what    string
		kind    byte
		from    netip.Addr
		rest    uint32
		target  netip.Addr
		behind  []byte
		headers []byte
	}{
		// The first, for the victim answers it.
		{
			what: "duplicate address detection of the victim's address", kind: 135, from: netip.IPv6Unspecified(),
			target: victim, behind: nonce,
		},
		{
			what: "an advertisement of the victim's address", kind: 136, from: own, rest: override, target: victim,
			behind: option(2),
		},
		{
			what: "an advertisement with the victim's address", kind: 136, from: victim, rest: override, target: victim,
			behind: option(2),
		},
		{what: "an advertisement without an option", kind: 136, from: own, rest: override, target: victim},
		{
			what: "an advertisement of another's MAC address", kind: 136, from: own, rest: override, target: own,
			behind: append([]byte{2, 1}, f.theirs...),
		},
		{
			what: "an advertisement behind options", kind: 136, from: own, rest: override, target: victim, behind: option(2),
			headers: []byte{packet.Destinations},
		},
		{
			what: "an advertisement behind eight headers", kind: 136, from: own, rest: override, target: victim,
			behind: option(2), headers: slices.Repeat([]byte{packet.Destinations}, 8),
		},
		{what: "a solicitation with the victim's address", kind: 135, from: victim, target: sink, behind: option(1)},
		{
			what: "a solicitation whose option is the second", kind: 135, from: victim, target: sink,
			behind: append(slices.Clone(nonce), option(1)...),
		},
		{
			what: "a solicitation of another's MAC address", kind: 135, from: own, target: sink,
			behind: append([]byte{1, 1}, f.theirs...),
		},
		{what: "a redirect", kind: 137, from: own, target: victim, behind: victim.AsSlice()},
	} {
		for _, to := range []netip.Addr{all, sink} {
			body := slices.Concat(c.target.AsSlice(), c.behind)
			next, payload := packet.Behind(c.headers, packet.ICMPv6, packet.Message(c.from, to, c.kind, 0, c.rest, body))
			p := packet.IP(c.from, to, next, packet.NDHops, payload)
			f.add(c.what, false, "", func(mac net.HardwareAddr) []byte {
				if to == all {
					mac = group
				}
				return packet.Frame(mac, f.own, packet.TypeIPv6, p)
			})
		}
	}
	// RFC 4861, section 4.2: a router for half an hour, which tells nothing else.
	router := packet.IP(own, all, packet.ICMPv6, packet.NDHops,
		packet.Message(own, all, 134, 0, 0x40000708, make([]byte, 8)))
	f.add("a router's advertisement", false, "", func(net.HardwareAddr) []byte {
		return packet.Frame(group, f.own, packet.TypeIPv6, router)
	})
}

// learned sends frames from the victim's MAC address, also to a group that no bridge forwards but learns from (IEEE
// 802.1D, section 7.12.6; br_handle_frame, net/bridge/br_input.c), and says what the bridge then knows of it at the
// attacker's port. It forgets that when the victim says something.
func (f *forger) learned() (text string, err error) {
	p := packet.IP(f.attacker.IPv4, f.sink.IPv4, packet.UDP, packet.Hops,
		packet.Datagram(netip.AddrPortFrom(f.attacker.IPv4, nobodys), netip.AddrPortFrom(f.sink.IPv4, nobodys), "frame"))
	arp := packet.ARP(packet.Request, f.theirs, f.attacker.IPv4, make(net.HardwareAddr, 6), f.sink.IPv4)
	for _, to := range []net.HardwareAddr{packet.Broadcast(), {0x01, 0x80, 0xc2, 0, 0, 0x0e}} {
		for _, frame := range [][]byte{
			packet.Frame(to, f.theirs, packet.TypeIPv4, p), packet.Frame(to, f.theirs, packet.TypeARP, arp),
		} {
			f.frames++
			if _, err := f.sockets[f.attacker.name].Write(frame); err != nil {
				return "", err
			}
			if !f.bridged || f.c.where.Point == network.AtOpenFlow {
				continue
			}
			out, err := Run(f.attacker.kernel, "", "bridge", "fdb", "show", "dev", f.attacker.Link)
			if err != nil {
				return "", err
			}
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, f.theirs.String()) {
					text += line
				}
			}
		}
	}
	return text, nil
}

// taken says in which namespaces the victim's addresses are known to be the attacker's, by family.
func (f *forger) taken() (map[string]string, error) {
	list := map[string]string{}
	for h := range f.s.Hosts {
		for _, ns := range f.s.namespaces(h) {
			for family, address := range map[string]netip.Addr{"ipv4": f.victim.IPv4, "ipv6": f.victim.IPv6} {
				out, err := Run(f.s.Hosts[h].Kernel, ns, "ip", "neigh", "show", address.String())
				if err != nil {
					return nil, err
				}
				if strings.Contains(out, f.own.String()) {
					list[family] += fmt.Sprintf("host %d %q: %s", h+1, ns, out)
				}
			}
		}
	}
	return list, nil
}

package attack

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/proof/packet"
)

// A forger is a container that uses addresses of another one of its host.
type forger struct {
	*stand
	victim, sink, attacker *end
}

// spoofed has another container use the addresses of the first pair's source, and take them over. Where addresses are
// bound to links nothing of that arrives, and no neighbour and no bridge learns anything. Where they are not, what the
// documents say that nothing protects against has to succeed, or the tries would show nothing.
func (s *stand) spoofed(ctx context.Context) (Held, error) {
	f := forger{stand: s, victim: s.end(s.Pairs[0].Source), sink: s.end(s.Pairs[0].Sink)}
	for _, e := range s.ends {
		if e.machine == f.victim.machine { // its last neighbour
			f.attacker = e
		}
	}
	var list []probe
	for _, v6 := range families() {
		list = append(list, f.sources(v6)...)
	}
	h, err := s.held(ctx, Spoofed, "no container uses the address of another one, or takes it over, if the filter binds "+
		"addresses to links", list)
	if err != nil {
		return h, err
	}
	claims := slices.Concat(f.arp(), f.discovery())
	for _, frame := range claims {
		if err := f.attacker.send(frame); err != nil {
			return h, err
		}
	}
	h.Frames += len(claims)
	if err := s.wait(2 * settle); err != nil {
		return h, err
	}
	learned, frames, err := f.learned()
	if err != nil {
		return h, err
	}
	h.Frames += frames
	bridged := f.attacker.bridged()
	f.judge(&h, "MAC", false, learned, bridged)
	for _, v6 := range families() {
		where, err := f.taken(v6)
		if err != nil {
			return h, err
		}
		f.judge(&h, "IP", v6, where, bridged || s.Floods)
	}
	return h.done(), nil
}

// judge notes who was found to believe that an address of the victim is the attacker's. Heard says that somebody must
// believe it where nothing protects against it.
func (f forger) judge(h *Held, which string, v6 bool, where []string, heard bool) {
	wrong := ""
	switch {
	case f.Bound && len(where) > 0:
		wrong = fmt.Sprintf("%s took the %s address of %s over: %v", f.attacker.Name, which, f.victim.Name, where)
	case !f.Bound && heard && len(where) == 0:
		wrong = fmt.Sprintf("%s did not take the %s address of %s over, and nothing protects against it", f.attacker.Name,
			which, f.victim.Name)
	}
	h.saw(v6, wrong)
}

// sources sends datagrams of a family that only the victim may send, to its sink, and others that are nobody's.
func (f forger) sources(v6 bool) (list []probe) {
	from, to, own := f.victim.Own(v6), f.sink.Public(v6), f.attacker.Own(v6)
	service := netip.AddrPortFrom(to, f.sink.First)
	datagram := func(from netip.Addr, port uint16, key string) []byte {
		return packet.Datagram(netip.AddrPortFrom(from, port), service, key)
	}
	whole := func(key string) []byte {
		return packet.IP(from, to, packet.UDP, packet.Hops, datagram(from, f.victim.First, key))
	}
	ways := f.ways(f.attacker, f.sink)
	add := func(what string, mac net.HardwareAddr, made func(key string) []byte, tags ...[2]uint16) {
		p := probe{text: told(what, f.attacker, f.sink, v6), v6: v6, from: f.attacker, expect: either}
		if f.Bound {
			p.expect = refused
		}
		p.send = framed(f.attacker, func(key string) (frames [][]byte) {
			for _, way := range ways {
				frames = append(frames, packet.Tagged(packet.Frame(way, mac, packet.TypeOf(from), made(key)), tags...))
			}
			return frames
		})
		list = append(list, p)
	}
	add("a datagram with the victim's address", f.attacker.mac, whole)
	if !f.Bound {
		list[0].expect = passes
	}
	add("a datagram with the victim's MAC and address", f.victim.mac, whole)
	for _, tags := range [][][2]uint16{
		{{packet.TypeVLAN, 0}},
		{{packet.TypeVLAN, 7}},
		{{packet.TypeService, 0}, {packet.TypeVLAN, 0}},
		{{packet.TypeVLAN, 0}, {packet.TypeVLAN, 0}},
	} {
		add(fmt.Sprintf("the same behind tags %v", tags), f.attacker.mac, whole, tags...)
	}
	server := map[bool]uint16{false: serverDHCP, true: serverDHCP6}[v6]
	add("a DHCP server's message", f.attacker.mac, func(key string) []byte {
		return packet.IP(own, to, packet.UDP, packet.Hops, datagram(own, server, key))
	})
	if !v6 {
		add("the same behind options", f.attacker.mac, func(key string) []byte {
			return optional(whole(key), []byte{1, 1, 1, 0})
		})
		return list
	}
	for _, headers := range [][]byte{
		{packet.HopByHop}, {packet.Destinations}, {packet.Routing}, slices.Repeat([]byte{packet.Destinations}, 8),
	} {
		add(fmt.Sprintf("the same behind headers %v", headers), f.attacker.mac, func(key string) []byte {
			next, payload := packet.Behind(headers, packet.UDP, datagram(from, f.victim.First, key))
			return packet.IP(from, to, next, packet.Hops, payload)
		})
	}
	return list
}

// arp says that the victim's address is the attacker's, to everybody and to each.
func (f forger) arp() (frames [][]byte) {
	address := f.victim.IPv4
	for _, operation := range []uint16{packet.Request, packet.Reply} {
		for _, sender := range []net.HardwareAddr{f.attacker.mac, f.victim.mac} {
			gratuitous := packet.ARP(operation, f.attacker.mac, address, f.attacker.mac, address)
			reply := packet.ARP(operation, f.attacker.mac, address, f.sink.mac, f.sink.IPv4)
			for _, to := range f.ways(f.attacker, f.sink) {
				one := packet.Frame(to, sender, packet.TypeARP, reply)
				frames = append(frames, packet.Frame(packet.Broadcast(), sender, packet.TypeARP, gratuitous), one,
					packet.Tagged(one, [2]uint16{packet.TypeVLAN, 0}))
			}
		}
	}
	return frames
}

// discovery says the same by neighbour discovery, also where the option that says it stands behind another, and speaks
// as routers do.
func (f forger) discovery() (frames [][]byte) {
	all, group := netip.IPv6LinkLocalAllNodes(), net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	victim, own, sink := f.victim.IPv6, f.attacker.IPv6, f.sink.IPv6
	option := func(kind byte, mac net.HardwareAddr) []byte { return append([]byte{kind, 1}, mac...) }
	nonce := []byte{14, 1, 1, 2, 3, 4, 5, 6}
	const override = 0x20000000
	many := slices.Repeat([]byte{packet.Destinations}, 8)
	for _, c := range []struct {
		kind    byte
		from    netip.Addr
		rest    uint32
		target  netip.Addr
		behind  []byte
		headers []byte
	}{
		{kind: 135, from: netip.IPv6Unspecified(), target: victim, behind: nonce}, // the first, for the victim answers it
		{kind: 136, from: own, rest: override, target: victim, behind: option(2, f.attacker.mac)},
		{kind: 136, from: victim, rest: override, target: victim, behind: option(2, f.attacker.mac)},
		{kind: 136, from: own, rest: override, target: victim},
		{kind: 136, from: own, rest: override, target: own, behind: option(2, f.victim.mac)},
		{
			kind: 136, from: own, rest: override, target: victim, behind: option(2, f.attacker.mac),
			headers: []byte{packet.Destinations},
		},
		{kind: 136, from: own, rest: override, target: victim, behind: option(2, f.attacker.mac), headers: many},
		{kind: 135, from: victim, target: sink, behind: option(1, f.attacker.mac)},
		{kind: 135, from: victim, target: sink, behind: append(slices.Clone(nonce), option(1, f.attacker.mac)...)},
		{kind: 135, from: own, target: sink, behind: option(1, f.victim.mac)},
		{kind: 137, from: own, target: victim, behind: victim.AsSlice()}, // a redirect
	} {
		for _, to := range []netip.Addr{all, sink} {
			body := slices.Concat(c.target.AsSlice(), c.behind)
			next, payload := packet.Behind(c.headers, packet.ICMPv6, packet.Message(c.from, to, c.kind, 0, c.rest, body))
			p := packet.IP(c.from, to, next, packet.NDHops, payload)
			for _, mac := range f.ways(f.attacker, f.sink) {
				if to == all {
					mac = group
				}
				frames = append(frames, packet.Frame(mac, f.attacker.mac, packet.TypeIPv6, p))
			}
		}
	}
	// RFC 4861, section 4.2: a router for half an hour, which tells nothing else.
	router := packet.IP(own, all, packet.ICMPv6, packet.NDHops,
		packet.Message(own, all, 134, 0, 0x40000708, make([]byte, 8)))
	return append(frames, packet.Frame(group, f.attacker.mac, packet.TypeIPv6, router))
}

// learned sends frames from the victim's MAC address, also to a group that no bridge forwards but learns from (IEEE
// 802.1D, section 7.12.6; br_handle_frame, net/bridge/br_input.c), and says what the bridge then knows of it at the
// attacker's port. It forgets that when the victim says something.
func (f forger) learned() (known []string, frames int, err error) {
	own, sink := f.attacker.IPv4, f.sink.IPv4
	p := udp(netip.AddrPortFrom(own, nobodys), netip.AddrPortFrom(sink, nobodys), "")
	arp := packet.ARP(packet.Request, f.victim.mac, own, make(net.HardwareAddr, 6), sink)
	for _, to := range []net.HardwareAddr{packet.Broadcast(), {0x01, 0x80, 0xc2, 0, 0, 0x0e}} {
		for _, frame := range [][]byte{
			packet.Frame(to, f.victim.mac, packet.TypeIPv4, p), packet.Frame(to, f.victim.mac, packet.TypeARP, arp),
		} {
			frames++
			if err := f.attacker.send(frame); err != nil {
				return nil, frames, err
			}
			if !f.attacker.bridged() {
				continue
			}
			err := within(f.attacker.machine.ns, func(h *link.Handle) error {
				l, err := h.ByName(f.attacker.Link)
				if err != nil {
					return err
				}
				stations, err := h.Stations(l.Index)
				for _, mac := range stations {
					if slices.Equal(mac, f.victim.mac) {
						known = append(known, "the bridge has "+mac.String()+" at "+f.attacker.Link)
					}
				}
				return err
			})
			if err != nil {
				return nil, frames, err
			}
		}
	}
	return known, frames, nil
}

// taken says who believes that the victim's address of a family is where the attacker is.
func (f forger) taken(v6 bool) (list []string, err error) {
	ask := func(name string, h *link.Handle) error {
		known, err := h.Neighbours(f.victim.Own(v6))
		for _, n := range known {
			if slices.Equal(n.MAC, f.attacker.mac) {
				list = append(list, fmt.Sprintf("%s has %s at %s", name, n.Address, n.MAC))
			}
		}
		return err
	}
	for _, m := range f.machines {
		if err := within(m.ns, func(h *link.Handle) error { return ask(m.name, h) }); err != nil {
			return nil, err
		}
	}
	for _, e := range f.ends {
		if err := within(e.ns, func(h *link.Handle) error { return ask(e.Name, h) }); err != nil {
			return nil, err
		}
	}
	return list, nil
}

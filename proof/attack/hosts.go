package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/packet"
)

// of returns the addresses of a host that others could ask for, of a family.
func (m *machine) of(v6 bool) (list []netip.Addr) {
	for _, a := range m.addresses {
		if a.Is6() == v6 && !a.IsLoopback() {
			list = append(list, a)
		}
	}
	return list
}

// A message is what a host would listen to.
type message struct {
	what string
	made func(key string) [][]byte // one packet, or the pieces of one
}

// messages are packets of each protocol that a host would listen to, from a container.
func (s *stand) messages(e *end, to netip.Addr) []message {
	from := e.Own(to.Is6())
	a, b := netip.AddrPortFrom(from, nobodys), netip.AddrPortFrom(to, ssh)
	whole := func(made func(key string) []byte) func(key string) [][]byte {
		return func(key string) [][]byte { return [][]byte{made(key)} }
	}
	request := byte(echoRequest)
	list := []message{
		{"UDP", whole(func(key string) []byte { return udp(a, b, key) })},
		{"UDP from a port of the container", whole(func(key string) []byte {
			return udp(netip.AddrPortFrom(from, e.First), netip.AddrPortFrom(to, nobodys), key)
		})},
		{"TCP that opens a connection", whole(func(key string) []byte { return tcp(a, b, packet.SYN, key) })},
		{"TCP with ACK", whole(func(key string) []byte { return tcp(a, b, packet.ACK, key) })},
		{"a protocol that nobody has", whole(func(key string) []byte {
			return packet.IP(from, to, experimental, packet.Hops, []byte(key))
		})},
		{"UDP in pieces", func(key string) [][]byte {
			s.pieces++
			payload := packet.Datagram(a, b, string(make([]byte, 16))+key)
			return packet.Fragments(from, to, packet.UDP, payload, 16, s.pieces)
		}},
	}
	if to.Is6() {
		request = echoRequest6
		list = append(list, message{"UDP behind options", whole(func(key string) []byte {
			next, payload := packet.Behind([]byte{packet.HopByHop}, packet.UDP, packet.Datagram(a, b, key))
			return packet.IP(from, to, next, packet.Hops, payload)
		})})
	}
	return append(list, message{"an echo request", whole(func(key string) []byte {
		return packet.IP(from, to, packet.ICMPOf(to), packet.Hops, packet.Message(from, to, request, 0, 1, []byte(key)))
	})})
}

// everyone are the addresses that all machines of a link listen to: RFC 919; RFC 1112, section 4; RFC 4291, section
// 2.7.1.
func everyone(v6 bool) []netip.Addr {
	if v6 {
		return []netip.Addr{netip.IPv6LinkLocalAllNodes()}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{255, 255, 255, 255}), netip.AddrFrom4([4]byte{224, 0, 0, 1})}
}

// reached are the addresses of a host that a container could ask for: those for all on a link only of its own host.
func (m *machine) reached(from *end, v6 bool) []netip.Addr {
	if from.machine == m {
		return append(m.of(v6), everyone(v6)...)
	}
	return m.of(v6)
}

// spread puts a message into frames for every link. Its pieces are made anew for each.
func (s *stand) spread(from *end, m message, key string) (frames [][]byte) {
	for _, mac := range s.everywhere(from) {
		for _, p := range m.made(key) {
			frames = append(frames, from.in(p, mac)...)
		}
	}
	return frames
}

// toHost sends to every address of every host, in frames for every link.
func (s *stand) toHost(v6 bool) (list []try) {
	for _, from := range s.ends {
		for _, m := range s.machines {
			for _, a := range m.reached(from, v6) {
				for _, one := range s.messages(from, a) {
					list = append(list, try{
						what: fmt.Sprintf("%s for %s of %s", one.what, a, m.name), from: from, hosts: true,
						made: func(key string, _ uint16) [][]byte { return s.spread(from, one, key) },
					})
				}
			}
		}
	}
	return list
}

// toHosts sends the same, and what any program of a container can send by a socket. Where filters stand inside, only
// the sockets are behind them.
func (s *stand) toHosts(ctx context.Context) (Held, error) {
	var list []probe
	for _, m := range s.machines {
		l, err := listenTCP(m.ns, netip.AddrPortFrom(netip.IPv6Unspecified(), ssh))
		if err != nil {
			return Held{}, err
		}
		defer l.Close()
		go accept(l)
		for _, from := range s.ends {
			for _, v6 := range families() {
				for _, a := range m.reached(from, v6) {
					if s.Filtered || from.near(a) {
						list = append(list, s.forHost(from, m, a)...)
					}
				}
			}
		}
	}
	return s.held(ctx, ToHosts, "no container reaches an address of a host", list)
}

// near says whether a container has a link on which an address of link scope is reached.
func (e *end) near(a netip.Addr) bool {
	if !a.IsLinkLocalUnicast() {
		return true
	}
	for _, l := range e.machine.links {
		local, _ := linkLocal(l.MAC)
		if local == a && (l.Name == e.Link || l.Index == e.master()) {
			return true
		}
	}
	return false
}

// master is the index of the bridge or switch that the host's end of the container's link is a port of, 0 if of none.
func (e *end) master() int {
	for _, l := range e.machine.links {
		if l.Name == e.Link {
			return l.Master
		}
	}
	return 0
}

// forHost are the probes from a container to an address of a host.
func (s *stand) forHost(from *end, m *machine, a netip.Addr) (list []probe) {
	add := func(what string, p probe) {
		there := &end{Container: proof.Container{Name: m.name}}
		p.text = told(fmt.Sprintf("%s for %s of the host", what, a), from, there, a.Is6())
		p.v6, p.from, p.expect = a.Is6(), from, expect(!s.Filtered)
		list = append(list, p)
	}
	if !s.Inside { // where root sends past its own filter
		for _, one := range s.messages(from, a) {
			add(one.what, probe{send: framed(from, func(key string) [][]byte { return s.spread(from, one, key) })})
		}
	}
	if a.IsLinkLocalUnicast() || slices.Contains(everyone(a.Is6()), a) {
		return list
	}
	own, at := from.Own(a.Is6()), netip.AddrPortFrom(a, ssh)
	add("a datagram of a socket", probe{send: func(key string) (int, error) {
		return 1, sendFrom(from.ns, netip.AddrPortFrom(own, 0), at, key)
	}})
	add("a connection", probe{asks: func(within time.Duration) bool { return from.connects(at, within) }})
	add("an echo", probe{asks: func(within time.Duration) bool {
		return echoed(from.ns, own, a, small, within) == nil
	}})
	return list
}

// sendFrom sends a datagram by a socket of its own.
func sendFrom(ns *os.File, from, to netip.AddrPort, text string) error {
	c, err := listenUDP(ns, from)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WriteToUDPAddrPort([]byte(text), to)
	return err
}

// fromHosts sends from each host to its containers, by sockets, which nobody refuses unless the filter stands inside
// the container. An echo is answered where connections are known.
func (s *stand) fromHosts(ctx context.Context) (Held, error) {
	var list []probe
	for _, to := range s.ends {
		if s.Inside {
			break
		}
		m := to.machine
		here := &end{Container: proof.Container{Name: m.name}}
		for _, v6 := range families() {
			anywhere, target := netip.IPv4Unspecified(), to.Own(v6)
			if v6 {
				anywhere = netip.IPv6Unspecified()
			}
			list = append(list,
				probe{
					text: told("a datagram of the host", here, to, v6), v6: v6, own: m, expect: passes,
					send: func(key string) (int, error) {
						return 1, sendFrom(m.ns, netip.AddrPortFrom(anywhere, 0), netip.AddrPortFrom(target, nobodys), key)
					},
				},
				probe{
					text: told("the answer to an echo of the host", to, here, v6), v6: v6, own: m,
					expect: expect(!s.Filtered || s.Stateful && s.ByConnection),
					asks: func(within time.Duration) bool {
						return echoed(m.ns, anywhere, target, small, within) == nil
					},
				})
		}
	}
	return s.held(ctx, FromHosts, "what a host sends to its containers arrives, and is answered where the filter tracks "+
		"what it lets in", list)
}

// stray sends to the addresses of hosts in frames for other containers. Where filters stand inside, the containers take
// the addresses meanwhile: else they would hear nothing of it. So do links of ipvlan, which get only what is for an
// address of theirs (drivers/net/ipvlan/ipvlan_core.c, ipvlan_addr_lookup), with a filter or without.
func (s *stand) stray(o *Outcome, v6 bool) (err error) {
	var addresses []netip.Addr
	for _, m := range s.machines {
		for _, a := range m.of(v6) {
			if !a.IsLinkLocalUnicast() {
				addresses = append(addresses, a)
			}
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	addresses = slices.Compact(addresses)
	if s.Inside || slices.ContainsFunc(s.ends, func(e *end) bool { return e.bare }) {
		taken := s.take(addresses, (*link.Handle).AddAddress)
		if len(s.ends) > 0 && s.ends[0].refused(taken) { // all have the same rights
			o.unsent(len(s.ends), noAddress)
			return nil
		}
		defer func() { err = errors.Join(err, s.take(addresses, (*link.Handle).DeleteAddress)) }()
		if taken != nil {
			return taken
		}
	}
	var list []try
	s.others(func(from, to *end) {
		for _, a := range addresses {
			list = append(list, try{
				what: fmt.Sprintf("packets for %s in frames for %s", a, to.Name), from: from,
				made: func(key string, _ uint16) (frames [][]byte) {
					for _, one := range s.messages(from, a) {
						for _, p := range one.made(key) {
							frames = append(frames, from.in(p, to.mac)...)
						}
					}
					return frames
				},
			})
		}
	})
	return s.try(o, list)
}

// take adds addresses to all containers, or takes them away. Of ipvlan links on one link only the first one can add an
// address (drivers/net/ipvlan/ipvlan_main.c, ipvlan_addr4_validator_event).
func (s *stand) take(addresses []netip.Addr, change func(h *link.Handle, index int, a netip.Prefix) error) error {
	var errs []error
	for _, e := range s.ends {
		errs = append(errs, e.Within(e.ns, func() error {
			h, err := link.Open()
			if err != nil {
				return err
			}
			defer h.Close()
			for _, a := range addresses {
				err := change(h, e.at, netip.PrefixFrom(a, a.BitLen()))
				if err != nil && !errors.Is(err, link.ErrExists) && !errors.Is(err, link.ErrNotFound) &&
					!errors.Is(err, syscall.EADDRINUSE) {
					return err
				}
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

// fromHost sends datagrams from every host to every container, by sockets of the host. One that the host has no route
// for is not sent.
func (s *stand) fromHost(o *Outcome, v6 bool) error {
	network := "udp4"
	if v6 {
		network = "udp6"
	}
	var list []try
	for _, m := range s.machines {
		var c *net.UDPConn
		err := netns.Do(int(m.ns.Fd()), func() (err error) {
			c, err = net.ListenUDP(network, nil)
			return err
		})
		if err != nil {
			return err
		}
		defer c.Close()
		for _, e := range s.ends {
			s.number++
			routed := false
			for range 2 { // an error of the first may come back with the second
				// another error is that nobody gets there: that is what is asked
				_, err := c.WriteToUDPAddrPort([]byte(s.key(s.number, 0)), netip.AddrPortFrom(e.Own(v6), e.First))
				routed = routed || !errors.Is(err, syscall.ENETUNREACH)
			}
			if routed {
				list = append(list, try{
					what: fmt.Sprintf("a datagram of %s for %s", m.name, e.Own(v6)),
					from: &end{Container: proof.Container{Name: m.name}, index: -1}, ports: []uint16{0}, number: s.number,
				})
			}
		}
	}
	if len(list) == 0 {
		o.NotTried = "no host has a route to a container"
		return nil
	}
	if err := s.settle(); err != nil {
		return err
	}
	for _, t := range list {
		s.count(o, t)
	}
	return nil
}

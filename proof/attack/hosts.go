package attack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

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

// messages are packets of each protocol that a host would listen to, from a container.
func (e *end) messages(to netip.Addr, key string) [][]byte {
	from := e.Own(to.Is6())
	a, b := netip.AddrPortFrom(from, nobodys), netip.AddrPortFrom(to, ssh)
	echo := byte(8)
	if to.Is6() {
		echo = 128
	}
	return [][]byte{
		udp(a, b, key), tcp(a, b, packet.SYN, key),
		packet.IP(from, to, packet.ICMPOf(to), packet.Hops, packet.Message(from, to, echo, 0, 1, []byte(key))),
		packet.IP(from, to, experimental, packet.Hops, []byte(key)),
	}
}

// toHost sends to every address of every host, in frames for every link.
func (s *stand) toHost(v6 bool) (list []try) {
	for _, from := range s.ends {
		for _, m := range s.machines {
			for _, a := range m.of(v6) {
				for i, protocol := range []string{"UDP", "TCP", "an echo request", "a protocol that nobody has"} {
					list = append(list, try{
						what: fmt.Sprintf("%s for %s of %s", protocol, a, m.name), from: from, hosts: true,
						made: func(key string, _ uint16) [][]byte {
							return from.in(from.messages(a, key)[i], s.everywhere(from)...)
						},
					})
				}
			}
		}
	}
	return list
}

// stray sends to the addresses of hosts in frames for other containers. Where filters stand inside, the containers take
// the addresses meanwhile: else they would hear nothing of it.
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
	if s.Inside {
		defer func() { err = errors.Join(err, s.take(addresses, (*link.Handle).DeleteAddress)) }()
		if err := s.take(addresses, (*link.Handle).AddAddress); err != nil {
			return err
		}
	}
	var list []try
	s.others(func(from, to *end) {
		for _, a := range addresses {
			list = append(list, try{
				what: fmt.Sprintf("packets for %s in frames for %s", a, to.Name), from: from,
				made: func(key string, _ uint16) (frames [][]byte) {
					for _, p := range from.messages(a, key) {
						frames = append(frames, from.in(p, to.mac)...)
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
		errs = append(errs, within(e.ns, func(h *link.Handle) error {
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

// fromHost sends datagrams from every host to every container, by sockets of the host.
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
			list = append(list, try{
				what: fmt.Sprintf("a datagram of %s for %s", m.name, e.Own(v6)),
				from: &end{Container: proof.Container{Name: m.name}, index: -1}, ports: []uint16{0}, number: s.number,
			})
			for range 2 { // an error of the first may come back with the second
				// nobody gets there: that is what is asked
				_, _ = c.WriteToUDPAddrPort([]byte(s.key(s.number, 0)), netip.AddrPortFrom(e.Own(v6), e.First))
			}
		}
	}
	s.settle()
	for _, t := range list {
		s.count(o, t)
	}
	return nil
}

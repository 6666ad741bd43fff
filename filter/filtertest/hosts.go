package filtertest

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/packet"
)

// A service is a port of hosts at which the suite listens, as what runs on a host does: ssh has it.
const service = 22

// A keeper is a host as an end of packets.
type keeper struct {
	end
	addresses []located
}

// located is an address of a host, and the link that it is on. One of link scope is reached on that link only.
type located struct {
	netip.Addr
	link string
}

// keepers are the hosts of a stand, with sockets that hear whatever reaches their stacks.
func (s *stand) keepers(heard *ears) ([]keeper, error) {
	var list []keeper
	for h := range s.Lab.Hosts {
		k := keeper{end: end{
			name: fmt.Sprintf("host%d", h+1), kernel: s.Hosts[h].Kernel,
			spot: network.Spot{Host: h, Container: -1},
		}}
		k.IPv4, k.IPv6 = netip.IPv4Unspecified(), netip.IPv6Unspecified()
		links, err := k.kernel.Links("")
		if err != nil {
			return nil, err
		}
		all, err := links.List()
		if err != nil {
			return nil, err
		}
		for _, l := range all {
			prefixes, err := links.Addresses(l.Index)
			if err != nil {
				return nil, err
			}
			for _, p := range prefixes {
				if a := p.Addr(); !a.IsLoopback() {
					k.addresses = append(k.addresses, located{a, l.Name})
				}
			}
		}
		if err := heard.host(k); err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// host hears what reaches the stack of a host: packets of UDP, TCP, ICMP and a protocol that nobody has, and
// connections to a service.
func (e *ears) host(k keeper) error {
	if err := e.messages(k.end); err != nil {
		return err
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		in, err := inside(k.end, func() (*net.IPConn, error) { return net.ListenIP(protocolOf(family), nil) })
		if err != nil {
			return err
		}
		e.closers = append(e.closers, in.Close)
		e.group.Go(func() { e.find(k.end, func(b []byte) (int, error) { return first(in.ReadFromIP(b)) }) })
	}
	l, err := inside(k.end, func() (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf("[::]:%d", service)) })
	if err != nil {
		return err
	}
	e.accept(l)
	return nil
}

// groups are addresses that every machine of a link listens to.
func groups(family string) []netip.Addr {
	if family == "ipv6" {
		return []netip.Addr{netip.IPv6LinkLocalAllNodes()}
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{255, 255, 255, 255}), netip.AddrFrom4([4]byte{224, 0, 0, 1})}
}

// toHosts tries to reach each address of each host from a container, over every protocol, by sockets and by frames:
// those go to the host's links and, as nobody binds an address to a link, to the other containers.
func (m *smuggler) toHosts(from end, sender addresses, others []net.HardwareAddr, hosts []keeper) {
	for _, k := range hosts {
		for _, family := range []string{"ipv4", "ipv6"} {
			w := way{
				smuggler: m, from: from, to: k.end, family: family, own: sender.own,
				macs: append(slices.Clone(sender.host), others...),
			}
			own := k.spot.Host == from.spot.Host
			var targets []netip.Addr
			for _, a := range k.addresses {
				near := !a.IsLinkLocalUnicast() || own && (a.link == from.Link || a.link == m.c.bridge)
				if a.Is6() == (family == "ipv6") && near {
					targets = append(targets, a.Addr)
				}
			}
			if own {
				targets = append(targets, groups(family)...)
				w.macs = append(w.macs, packet.Broadcast())
			}
			for _, to := range targets {
				if m.c.where.Point != network.InContainer { // whose root sends past its own filter
					w.framesToHost(to)
				}
				if !to.IsLinkLocalUnicast() && !to.IsMulticast() && to != netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
					w.socketsToHost(to)
				}
			}
		}
	}
}

func (w way) framesToHost(to netip.Addr) {
	from := w.from.Bind(w.family)
	send := func(what string, made func(key string) []byte) {
		key := w.key()
		w.send(fmt.Sprintf("%s for %s of the host", what, to), false, key, made(key))
	}
	at, service := netip.AddrPortFrom(from, nobodys), netip.AddrPortFrom(to, service)
	send("a datagram", func(key string) []byte {
		return packet.IP(from, to, packet.UDP, packet.Hops, packet.Datagram(at, service, key))
	})
	send("a datagram from a port of the container", func(key string) []byte {
		return packet.IP(from, to, packet.UDP, packet.Hops,
			packet.Datagram(netip.AddrPortFrom(from, w.from.ports.First), netip.AddrPortFrom(to, nobodys), key))
	})
	for _, flags := range []byte{packet.SYN, packet.ACK} {
		send(fmt.Sprintf("a segment (flags %#x)", flags), func(key string) []byte {
			return packet.IP(from, to, packet.TCP, packet.Hops, packet.Segment(at, service, flags, key))
		})
	}
	request := byte(8)
	if to.Is6() {
		request = 128
		send("a datagram behind options", func(key string) []byte {
			next, payload := packet.Behind([]byte{packet.HopByHop}, packet.UDP, packet.Datagram(at, service, key))
			return packet.IP(from, to, next, packet.Hops, payload)
		})
	}
	send("an echo request", func(key string) []byte {
		return packet.IP(from, to, packet.ICMPOf(to), packet.Hops, packet.Message(from, to, request, 0, 7<<16|1, []byte(key)))
	})
	send(fmt.Sprintf("protocol %d", experimental), func(key string) []byte {
		return packet.IP(from, to, experimental, packet.Hops, []byte(key))
	})
	key := w.key()
	w.try(fmt.Sprintf("a datagram in fragments for %s of the host", to), false, key,
		func(mac net.HardwareAddr) (list [][]byte) {
			w.number++
			payload := packet.Datagram(at, service, string(bytes.Repeat([]byte{' '}, 16))+key)
			for _, p := range packet.Fragments(from, to, packet.UDP, payload, 16, uint16(w.number)) {
				list = append(list, packet.Frame(mac, w.own, packet.TypeOf(to), p))
			}
			return list
		})
}

// socketsToHost tries what any program of the container can.
func (w way) socketsToHost(to netip.Addr) {
	text := func(what string) string {
		return fmt.Sprintf("%s for %s of the host, %s from %s to %s", what, to, w.family, w.from.name, w.to.name)
	}
	key := w.key()
	w.list = append(w.list, attempt{text: text("a datagram of a socket"), key: key, try: func() error {
		c, err := udp(w.from, netip.AddrPortFrom(w.from.Bind(w.family), 0))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.WriteToUDPAddrPort([]byte(key), netip.AddrPortFrom(to, service))
		return err
	}})
	for what, reach := range map[string]func() bool{
		"a connection": func() bool {
			c, err := dial(w.from, w.family, netip.AddrPortFrom(to, service))
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		},
		"an echo": func() bool {
			ok, err := echo(w.from, to, 56, settle)
			return ok && err == nil
		},
	} {
		key := w.key()
		w.list = append(w.list, attempt{text: text(what), key: key, try: func() error {
			w.dials.Go(func() {
				if reach() {
					w.heard.note(key)
				}
			})
			return nil
		}})
	}
}

// fromHosts adds what a host itself sends to a container, which nobody refuses unless the filter stands inside the
// container. It is answered where connections are known.
func (m *smuggler) fromHosts(to end, hosts []keeper) {
	if m.c.where.Point == network.InContainer {
		return
	}
	from := hosts[to.spot.Host]
	for _, family := range []string{"ipv4", "ipv6"} {
		w := way{smuggler: m, from: from.end, to: to, family: family}
		key, target := w.key(), to.Bind(family)
		w.list = append(w.list, attempt{text: fmt.Sprintf("a datagram of the host, %s from %s to %s", family, from.name,
			to.name), want: true, key: key, try: func() error {
			c, err := udp(from.end, netip.AddrPortFrom(from.Bind(family), 0))
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.WriteToUDPAddrPort([]byte(key), netip.AddrPortFrom(target, nobodys))
			return err
		}})
		echoed := w.key()
		answered := m.c.params.On(filter.Stateful) && m.c.errors == filter.ByConnection
		w.list = append(w.list, attempt{text: fmt.Sprintf("the answer to an echo of the host, %s from %s to %s", family,
			to.name, from.name), want: answered, key: echoed, try: func() error {
			w.dials.Go(func() {
				if ok, err := echo(from.end, target, 56, settle); err == nil && ok {
					w.heard.note(echoed)
				}
			})
			return nil
		}})
	}
}

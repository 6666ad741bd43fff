package attack

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/proof/packet"
)

const (
	// entry is how much memory a tracked connection takes at most, in bytes: sizeof(struct nf_conn) and its extensions,
	// rounded up.
	entry = 512
	// spare is how much memory has to be left when a table is full, in bytes.
	spare = 1 << 30
	// rest is how many connections the containers themselves fill the table with. The entries before them are put
	// there directly: sending a packet for each of them shows the same, and takes a minute on a busy machine.
	rest = 1024
	// filler marks those.
	filler = 0x6e746674
	// staying is how long those stay if nobody removes them.
	staying = 10 * time.Minute
	// assured is how old a flow has to be for its next packet to make it one that the kernel does not drop for another:
	// 2 s (nf_conntrack_proto_udp.c).
	assured = 2100 * time.Millisecond
	// rounds is how often the containers try to fill what is left: packets of theirs may be lost.
	rounds = 4
)

// tracked returns how many connections a host tracks in its kernel; 0 if it tracks none.
func (m *machine) tracked() (n int, err error) {
	err = netns.Do(int(m.ns.Fd()), func() error {
		b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err
	})
	return n, err
}

// tracker returns the host whose table has most connections, nil if none has any, and how many.
func (s *stand) tracker() (most *machine, n int, err error) {
	for _, m := range s.machines {
		has, err := m.tracked()
		if err != nil {
			return nil, 0, fmt.Errorf("connections of %s: %w", m.name, err)
		}
		if has > n {
			most, n = m, has
		}
	}
	return most, n, nil
}

// fill fills the table of connections of a host, the last of it as two containers can that may talk and were both taken
// over: with flows that are answered and go on, which the kernel does not drop for others. It returns the host and its
// number of connections; why is the reason if it cannot, or must not.
func (s *stand) fill(v6 bool) (m *machine, n int, why string, err error) {
	for _, family := range []bool{false, true} { // as long as there is room
		s.pairs(func(source, sink *end) { s.way(source, sink, family) })
	}
	source, sink := s.end(s.Pairs[0].Source), s.end(s.Pairs[0].Sink)
	if _, ok := s.way(source, sink, v6); !ok || !s.listed(v6) {
		return nil, 0, noPair, nil
	}
	if m, n, err = s.tracker(); err != nil {
		return nil, 0, "", err
	}
	room := procfs.ReadLimits()
	need := int64(room.Conntrack)*entry + spare
	switch {
	case m == nil:
		return nil, 0, "no host of the lab tracks connections in its kernel", nil
	case room.Conntrack == 0:
		return nil, 0, "the size of the table of connections is not known", nil
	case room.Memory < need && !s.filled:
		return nil, 0, fmt.Sprintf("to fill a table of %d connections takes %d MiB of free memory, and %d MiB are left",
			room.Conntrack, need>>20, room.Memory>>20), nil
	}
	if most := room.Conntrack - rest; n < most {
		if err := s.beforehand(m, most-n); err != nil {
			return nil, 0, err.Error(), nil
		}
	}
	flows := s.flows(source, sink, v6, room.Conntrack)
	put := 0 // before the containers send
	for i := range rounds {
		if n, err = m.assured(); err != nil || n >= room.Conntrack {
			return m, n, "", err
		}
		if i == 0 {
			put = n
		}
		var next [][2]netip.AddrPort
		for range min(room.Conntrack-n, len(flows)) {
			next = append(next, flows[s.begun%len(flows)])
			s.begun++
		}
		if err := s.occupy(source, sink, v6, next); err != nil {
			return nil, 0, "", fmt.Errorf("fill the table of %s: %w", m.name, err)
		}
	}
	if n, err = m.assured(); err == nil && n < room.Conntrack {
		why = fmt.Sprintf("the table of %s has %d connections that stay, and room for %d", m.name, n, room.Conntrack)
		if n <= put {
			why = m.name + " tracks connections of its own, but none between containers"
		}
		err = s.emptied() // or what comes next finds little room
	}
	return m, n, why, err
}

// assured has a host forget the connections that the kernel would drop for others, now or when it next looks for such
// ones, and returns how many stay.
func (m *machine) assured() (int, error) {
	if err := netns.Do(int(m.ns.Fd()), conntrack.FlushUnassured); err != nil {
		return 0, err
	}
	return m.tracked()
}

// beforehand puts connections between nobody and nobody (TEST-NET-1, RFC 5737) into the table of a host.
func (s *stand) beforehand(m *machine, count int) error {
	here, there := netip.AddrFrom4([4]byte{192, 0, 2, 1}), netip.AddrFrom4([4]byte{192, 0, 2, 2})
	s.filled = true
	return netns.Do(int(m.ns.Fd()), func() error {
		return conntrack.Fill(conntrack.Filling{
			Source: here, Destination: there, Public: here, Count: count, Timeout: staying, Mark: filler,
		})
	})
}

// occupy has a source and its sink begin flows, answer them, and go on.
func (s *stand) occupy(source, sink *end, v6 bool, flows [][2]netip.AddrPort) error {
	ways, back := s.forth(source, sink, v6), s.back(source, sink, v6)
	forth := func(f [2]netip.AddrPort) error {
		return source.send(source.in(udp(f[0], f[1], ""), ways[0])[0])
	}
	answer := func(f [2]netip.AddrPort) error {
		a := netip.AddrPortFrom(sink.Own(v6), f[1].Port())
		b := netip.AddrPortFrom(source.Public(v6), f[0].Port())
		return sink.send(sink.in(udp(a, b, ""), back[0])[0])
	}
	began := time.Now()
	for i, round := range []func(f [2]netip.AddrPort) error{forth, answer, forth} {
		if i == 2 {
			time.Sleep(time.Until(began.Add(assured)))
		}
		for _, f := range flows {
			if err := round(f); err != nil {
				return err
			}
		}
		if i == 0 {
			began = time.Now()
		}
	}
	return nil
}

// flows returns pairs of ports of a source and of its sink between which it may send: all, or that many of them.
func (s *stand) flows(source, sink *end, v6 bool, most int) (list [][2]netip.AddrPort) {
	for from := int(source.First) + 2*flowing; from <= int(source.Last); from++ {
		for to := int(sink.First); to < int(sink.Last) && len(list) < most; to++ {
			list = append(list, [2]netip.AddrPort{
				netip.AddrPortFrom(source.Own(v6), uint16(from)), netip.AddrPortFrom(sink.Public(v6), uint16(to)),
			})
		}
	}
	return list
}

// emptied has hosts forget the connections that were put into their tables. The containers' own end by themselves.
func (s *stand) emptied() error {
	if !s.filled {
		return nil
	}
	s.filled = false
	var errs []error
	for _, m := range s.machines {
		errs = append(errs, netns.Do(int(m.ns.Fd()), func() error { return conntrack.Flush(filler) }))
	}
	return errors.Join(errs...)
}

// tableFull sends what is refused while the table of a host is full: a filter that cannot track a packet has to drop
// it.
func (s *stand) tableFull(o *Outcome, v6 bool) error {
	if len(s.Pairs) == 0 {
		return nil
	}
	if _, _, why, err := s.fill(v6); err != nil || why != "" {
		o.NotTried = why
		return err
	}
	var list []try
	s.others(func(from, to *end) {
		for _, target := range to.Targets(v6) {
			a := netip.AddrPortFrom(from.Own(v6), from.First+1)
			ports := []uint16{to.Last, nobodys}
			if !s.paired(from, to) && !s.paired(to, from) {
				ports = append(ports, to.First)
			}
			list = append(list, try{
				what: fmt.Sprintf("UDP and TCP that opens a connection for %s", target), from: from, to: to, ports: ports,
				made: func(key string, port uint16) (frames [][]byte) {
					b := netip.AddrPortFrom(target, port)
					frames = append(frames, from.in(udp(a, b, key), s.ways(from, to)...)...)
					return append(frames, from.in(tcp(a, b, packet.SYN, key), s.ways(from, to)...)...)
				},
			})
		}
	})
	return s.try(o, list)
}

// starvation has other pairs begin to talk while the table of a host is full. What they send counts if it does not
// arrive.
func (s *stand) starvation(o *Outcome, v6 bool) error {
	if len(s.Pairs) < 2 {
		o.NotTried = "it takes a second pair"
		return nil
	}
	m, n, why, err := s.fill(v6)
	if err != nil || why != "" {
		o.NotTried = why
		return err
	}
	for _, p := range s.Pairs[1:] {
		source, sink := s.end(p.Source), s.end(p.Sink)
		if _, ok := s.way(source, sink, v6); !ok { // it is for another reason that nothing arrives
			o.Missing = append(o.Missing, fmt.Sprintf("a datagram from %s to %s", source.Name, sink.Name))
			continue
		}
		a := netip.AddrPortFrom(source.Own(v6), source.First+flowing+1)
		b := netip.AddrPortFrom(sink.Public(v6), sink.First)
		t := try{
			what: "a new flow", from: source, to: sink,
			counts: func(at int, _ uint16) verdict {
				if at == sink.index {
					return allowed
				}
				return fine
			},
			made: func(key string, _ uint16) [][]byte {
				return source.in(udp(a, b, key), s.forth(source, sink, v6)...)
			},
		}
		var came Outcome
		if err := s.try(&came, []try{t}); err != nil {
			return err
		}
		o.Sent++
		if len(came.Missing) > 0 {
			o.Arrived++
			o.hole(fmt.Sprintf("%s tracks %d connections: a new flow from %s to %s does not arrive", m.name, n, source.Name,
				sink.Name))
		}
	}
	return nil
}

package network

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
)

// Paths holds the ways of the trips of a lab and compares traces of its hosts with them. Hosts are counted from 1; host
// 0 is the underlay, even if the lab has none.
type Paths struct {
	// Large says that trials may send large segments, and Cut that carriers or the underlay may cut them.
	Large, Cut bool
	trips      []traced
	hosts      int // the highest number
}

type traced struct {
	name string
	way  Way
}

// Add adds a trip, whose name is for errors: "src0 to snk0, ipv4". Trips are counted from 0.
func (p *Paths) Add(name string, w Way) {
	p.trips = append(p.trips, traced{name, w})
	for _, h := range w.Hops {
		p.hosts = max(p.hosts, h.Host)
	}
	for _, list := range [][]Count{w.Counters, w.Still, w.Avoided} {
		for _, c := range list {
			p.hosts = max(p.hosts, c.Host)
		}
	}
}

// Len is the number of trips.
func (p *Paths) Len() int { return len(p.trips) }

// question is a hop and whose it is.
type question struct {
	Hop
	trip int
}

// hops returns each hop once, those of a host in the order in which it is asked.
func (p *Paths) hops() [][]question {
	list := make([][]question, p.hosts+1)
	type key struct {
		host int
		host.Hop
	}
	seen := map[key]bool{}
	for i, t := range p.trips {
		for _, h := range t.way.Hops {
			if k := (key{h.Host, h.Hop}); !seen[k] {
				seen[k] = true
				list[h.Host] = append(list[h.Host], question{h, i})
			}
		}
	}
	return list
}

// Questions returns what each host is to be asked; with hops also where packets go on. The neighbour tables have an
// answer when packets have just passed.
func (p *Paths) Questions(hops bool) []host.Question {
	list := make([]host.Question, p.hosts+1)
	seen := map[Count]bool{}
	for _, t := range p.trips {
		for _, c := range t.way.Counters {
			if space := (Count{Host: c.Host, Counter: host.Counter{NS: c.NS}}); c.NS != "" && !seen[space] {
				seen[space] = true
				list[c.Host].Links = append(list[c.Host].Links, c.NS)
			}
		}
	}
	if hops {
		for on, questions := range p.hops() {
			for _, q := range questions {
				list[on].Hops = append(list[on].Hops, q.Hop.Hop)
			}
		}
	}
	return list
}

// findings bounds what an error lists.
const findings = 4

// Next compares where packets go on, as hosts have answered [Paths.Questions] with hops, with the plan. The error names
// the trip, the host, what is planned and what was found.
func (p *Paths) Next(traces []host.Trace) error {
	var errs []error
	for on, questions := range p.hops() {
		for i, q := range questions {
			if len(errs) == findings {
				return errors.Join(errs...)
			}
			name := fmt.Sprintf("%s: on %s%s packets to %s", p.trips[q.trip].name, hostOf(on), inNamespace(q.NS), q.To)
			if on >= len(traces) || i >= len(traces[on].Next) {
				errs = append(errs, fmt.Errorf("%s: the host does not report the next hop", name))
				continue
			}
			got, want := traces[on].Next[i], q.Next
			if want.MAC == "" {
				got.MAC = ""
			}
			if got != want {
				errs = append(errs, fmt.Errorf("%s go to %s, but the plan says %s", name, got, want))
			}
		}
	}
	return errors.Join(errs...)
}

// strays is how many packets a device of a lab may count that nobody sent for a trip: neighbour solicitations, router
// solicitations and group reports, which all containers send and most devices pass on. With 8 pairs and both families
// there were 22 at most (three runs of five generations over six networks, 1, 2 and 8 pairs).
func strays(trips int) int64 { return int64(16 + 4*trips) }

// straysAgain is after how long a device may count as many strays again. In generations of up to 18 s
// with 2 pairs, over ten networks, three tunnels and three encryptions, there were 15 at most.
const straysAgain = 5 * time.Second

// Counted compares what counters have counted from one trace of the hosts to another with the packets that trips are
// known to have carried at least in between, and with those that were sent for them at most; nil: that is not known.
// What is missing and what is too much are two errors. They name the trip, the host, the counter, what it must have
// counted and what it has.
func (p *Paths) Counted(before, after []host.Trace, carried, sent []int64) (missing, excess error) {
	type need struct {
		packets     int64
		most        int64
		trip, trips int // the first that carried some, and how many did
		still       bool
	}
	needs := map[Count]*need{}
	var order []Count
	add := func(c Count, trip int, packets int64, still bool) {
		n := needs[c]
		if n == nil {
			n = &need{trip: trip, still: still}
			needs[c], order = n, append(order, c)
		}
		if packets == 0 {
			return
		}
		if n.trips++; n.trips == 1 {
			n.trip = trip
		}
		n.packets += packets
	}
	for i, t := range p.trips {
		least := carried[i]
		if merged := int64(t.way.Merged); merged > 1 {
			least = (least + merged - 1) / merged
		}
		for _, c := range t.way.Counters {
			add(c, i, least, false)
			if sent != nil {
				needs[c].most += sent[i]
			}
		}
		for _, c := range t.way.Still {
			add(c, i, 0, true)
		}
		for _, c := range t.way.Avoided {
			add(c, i, 0, false)
		}
	}
	var less, more []error
	for _, c := range order {
		if len(less) == findings || len(more) == findings {
			break
		}
		n := needs[c]
		name := p.trips[n.trip].name
		if n.trips > 1 {
			name += fmt.Sprintf(" and %d more", n.trips-1)
		}
		name += ": " + hostOf(c.Host)
		was, known := count(before, c)
		is, there := count(after, c)
		moved := int64(is - was)
		switch {
		case !known || !there:
			less = append(less, fmt.Errorf("%s does not count %s", name, c.Counter))
		case n.still && moved != 0:
			less = append(less, fmt.Errorf("%s counted %d %s, but the plan expects none", name, moved, c.Counter))
		case moved < n.packets:
			less = append(less, fmt.Errorf("%s counted %d %s, but at least %d arrived", name, moved, c.Counter, n.packets))
		case sent != nil && !c.Repeats && moved > n.most+strays(len(p.trips)):
			more = append(more, fmt.Errorf("%s counted %d %s, but no more than %d were sent", name, moved, c.Counter, n.most))
		}
	}
	return errors.Join(less...), errors.Join(more...)
}

// mostPieces is the largest number of packets into which a large segment is cut: UDP_MAX_SEGMENTS,
// include/linux/udp.h. Those of a TCP segment of 64 KiB are no more if each holds 512 bytes.
const mostPieces = 128

// Beyond compares what counters have counted from one trace of the hosts to another, for that long, with what the
// containers themselves have sent: the first counters of all ways through them. It returns those that counted more.
// What the containers were to send need not be known.
func (p *Paths) Beyond(before, after []host.Trace, lasted time.Duration) error {
	sources := map[Count]map[Count]int64{} // by counter: the first ones of its ways, and how many pieces a packet may be
	var order []Count
	for _, t := range p.trips {
		for _, c := range t.way.Counters {
			if sources[c] == nil {
				sources[c], order = map[Count]int64{}, append(order, c)
			}
			first := t.way.Counters[0]
			sources[c][first] = max(sources[c][first], 1)
			if p.Large && t.way.cuts(p.Cut) {
				sources[c][first] = mostPieces
			}
		}
		for _, c := range t.way.Avoided {
			if sources[c] == nil {
				sources[c], order = map[Count]int64{}, append(order, c)
			}
		}
	}
	others := strays(len(p.trips)) * int64(1+lasted/straysAgain)
	var errs []error
	for _, c := range order {
		if c.Repeats || c.Others || len(errs) == findings {
			continue
		}
		var left int64
		for first, pieces := range sources[c] {
			left += pieces * grown(before, after, first)
		}
		if n := grown(before, after, c); n > left+others {
			errs = append(errs, fmt.Errorf("%s counted %d %s, but containers sent no more than %d there", hostOf(c.Host), n,
				c.Counter, left))
		}
	}
	return errors.Join(errs...)
}

// cuts says whether large segments may be cut on the way: between hosts, if something there does, and by switches that
// are programs. Elsewhere the kernel passes them on whole.
func (w Way) cuts(between bool) bool {
	return slices.ContainsFunc(w.Counters, func(c Count) bool {
		return c.Repeats || between && c.Host != w.Counters[0].Host
	})
}

func grown(before, after []host.Trace, c Count) int64 {
	was, _ := count(before, c)
	is, _ := count(after, c)
	return int64(is - was)
}

// Short names the first counter on the way of a trip, in the order in which packets pass, that counted less than were
// sent for it from one trace of the hosts to another. It is "" if all counted as much, or if the first one did not:
// then the source itself did not send them.
func (p *Paths) Short(before, after []host.Trace, trip int, sent int64) string {
	w := p.trips[trip].way
	for i, c := range w.passed() {
		was, known := count(before, c)
		is, there := count(after, c)
		if moved := int64(is - was); known && there && moved < sent/max(1, int64(w.Merged)) {
			if i == 0 {
				return ""
			}
			return fmt.Sprintf("%s: %s counted %d %s, but %d were sent", p.trips[trip].name, hostOf(c.Host), moved, c.Counter,
				sent)
		}
	}
	return ""
}

// passed returns the counters of a way in the order in which packets pass. Those of the last host are in the order of
// spans, from the containers down, and the last one is that of the container's own link: packets pass the others the
// other way round.
func (w Way) passed() []Count {
	if len(w.Counters) == 0 {
		return nil
	}
	last := len(w.Counters) - 1
	from, to := w.Counters[0].Host, w.Counters[last].Host
	if from == to {
		return w.Counters
	}
	var near, between, far []Count
	for _, c := range w.Counters[:last] {
		switch c.Host {
		case from:
			near = append(near, c)
		case to:
			far = append(far, c)
		default:
			between = append(between, c)
		}
	}
	slices.Reverse(far)
	return append(slices.Concat(near, between, far), w.Counters[last])
}

func count(traces []host.Trace, c Count) (uint64, bool) {
	if c.Host >= len(traces) {
		return 0, false
	}
	return traces[c.Host].Count(c.Counter)
}

func hostOf(number int) string {
	if number == 0 {
		return "the underlay"
	}
	return Host{Index: number}.Name()
}

func inNamespace(ns string) string {
	if ns == "" {
		return ""
	}
	return " in " + ns
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/measure"
)

// slower is the most that our figure may be worse than the specialist's.
const slower = 0.05

// comparison is one row: a metric of a workload, and the same as a foreign driver makes it.
type comparison struct {
	what   string
	load   string // as in cell ids, without the last parenthesis
	driver string
	metric string
	less   bool // is better
	text   func(float64) string
}

func (c comparison) ours() string   { return c.load + ")" }
func (c comparison) theirs() string { return c.load + ",driver=" + c.driver + ")" }

// sockperfWarm is how long sockperf's ping-pong leaves out at the beginning (TEST_START_WARMUP_MSEC, src/defs.h); udp-rr's are left out as long.
const sockperfWarm = 400 * time.Millisecond

// warm is what is left out of our own trials. The rate tests of sockperf and iperf3 leave nothing out; of a stream what counts begins where
// its rate is steady, in both.
func (c comparison) warm() time.Duration {
	if c.metric == "latency_p50" {
		return sockperfWarm
	}
	return 0
}

func comparisons() []comparison {
	waiting, spinning := "udp-rr(payload=64,mode=wait", "udp-rr(payload=64,mode=spin"
	flood := "udp-rate(payload=64,mode=single"
	return []comparison{
		{
			what: "udp-rr, both ends sleep: median round trip; other: sockperf",
			load: waiting, driver: "sockperf", metric: "latency_p50", less: true, text: duration,
		},
		{
			what: "udp-rr, both ends spin: median round trip; other: sockperf --nonblocked",
			load: spinning, driver: "sockperf", metric: "latency_p50", less: true, text: duration,
		},
		{
			what: "tcp-stream: delivered rate; other: iperf3",
			load: "tcp-stream(message=131072", driver: "iperf3", metric: "goodput", text: bitrate,
		},
		{
			what: "udp-rate, 64 bytes: delivered rate; other: sockperf throughput",
			load: flood, driver: "sockperf", metric: "packet_rate", text: packets,
		},
		{
			what: "udp-rate, 64 bytes: delivered rate; other: iperf3 -u -b 0 -l 64",
			load: flood, driver: "iperf3", metric: "packet_rate", text: packets,
		},
	}
}

// figures are what the rounds left of one comparison.
type figures struct {
	ours, theirs []float64
	ratios       [][]float64 // logarithms, by group
}

// specialists compares with foreign drivers in one lab: same containers, CPUs, buffers and congestion control, and the same turns.
func (b *bench) specialists(ctx context.Context) error {
	all := slices.DeleteFunc(comparisons(), func(c comparison) bool {
		d, err := b.parts.Parts().Driver(c.driver)
		if err == nil {
			_, err = driver.Find(d)
		}
		spins := strings.Contains(c.load, "spin") && b.sources[0] == b.sinks[0]
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			b.table.add(row{what: c.what, theirs: c.driver + " is not installed"})
		case spins:
			b.table.add(row{what: c.what, theirs: "one CPU cannot hold two that spin"})
		}
		return err != nil || spins
	})
	if len(all) == 0 {
		return &linux.UnsupportedError{What: "compare with specialists", Missing: "sockperf and iperf3", Hint: "install one of them"}
	}
	var cells []cell
	for _, c := range all {
		for _, id := range []string{c.ours(), c.theirs()} {
			if find(cells, id) >= 0 {
				continue
			}
			one, err := newCell(b.parts, id, c.warm(), b.visit)
			if err != nil {
				return err
			}
			cells = append(cells, one)
		}
	}
	found := make([]figures, len(all))
	for group := range b.groups {
		if err := b.compareGroup(ctx, group, cells, all, found); err != nil {
			return err
		}
	}
	for i, c := range all {
		f := found[i]
		limit := 1 + slower
		if !c.less {
			limit = 1 - slower
		}
		r := row{what: c.what, ours: c.text(measure.Median(f.ours)), theirs: c.text(measure.Median(f.theirs))}
		r.ratio, r.met = compared(f.ratios, limit, c.less)
		r.goal = "at most 5 % longer"
		if !c.less {
			r.goal = "at most 5 % less"
		}
		b.table.add(r)
	}
	b.table.note("specialists: %d groups of %d rounds, each group on a lab of its own (network %s, one pair); visits of %v in random order, sources on CPUs %v, sinks on CPUs %v. "+
		"sockperf and iperf3 run as nettoll's drivers, in the same containers and turns. sockperf's half round trip is doubled; it and udp-rr leave out their first %v. "+
		"Of a stream counts what its receiver got from where the rate is steady. "+
		"A delivered rate is the receiver's own count. All three send and receive one datagram a call; udp-rate's sink asks for some 20 µs before it sleeps, sockperf's and iperf3's sleep at once. "+
		"A ratio is of figures of the same round, the columns beside it are medians of all rounds.",
		b.groups, b.rounds, networkName, b.visit, b.sources, b.sinks, sockperfWarm)
	return nil
}

// find returns the place of a cell, -1 where there is none.
func find(cells []cell, id string) int {
	return slices.IndexFunc(cells, func(known cell) bool { return known.id == id })
}

// tries is how often a visit is made that fails: on a busy machine a program may not end in time.
const tries = 3

// compareGroup builds a lab and makes its rounds.
func (b *bench) compareGroup(ctx context.Context, group int, cells []cell, all []comparison, found []figures) error {
	l, err := openLab(ctx, b, cells)
	if err != nil {
		return err
	}
	defer l.close()
	if group == 0 {
		if err := b.granted(ctx, l); err != nil {
			return err
		}
	}
	for i := range found {
		found[i].ratios = append(found[i].ratios, nil)
	}
	for round := range b.rounds {
		b.say("specialists: group %d of %d, round %d of %d", group+1, b.groups, round+1, b.rounds)
		values := make([]map[string]float64, len(cells))
		for _, i := range b.random.Perm(len(cells)) {
			for try := 1; values[i] == nil; try++ {
				time.Sleep(settle)
				if values[i], err = l.visit(ctx, i); err != nil && (try == tries || ctx.Err() != nil) {
					return err
				}
			}
		}
		for i, c := range all {
			ours, theirs := values[find(cells, c.ours())][c.metric], values[find(cells, c.theirs())][c.metric]
			f := &found[i]
			f.ours = append(f.ours, ours)
			f.theirs = append(f.theirs, theirs)
			f.ratios[group] = append(f.ratios[group], measure.LogRatio(ours, theirs))
		}
	}
	return nil
}

// granted notes what our sockets have; sockperf and iperf3 leave theirs as the kernel makes them, too.
func (b *bench) granted(ctx context.Context, l *lab) error {
	facts, err := l.facts(ctx)
	if err != nil {
		return err
	}
	for _, f := range facts {
		if l.cells[f.Cell].driver != nil {
			continue
		}
		text := fmt.Sprintf("send buffer %d, receive buffer %d bytes", f.Facts.SendBuffer, f.Facts.RecvBuffer)
		if f.Facts.Congestion != "" {
			text += ", " + f.Facts.Congestion
		}
		b.table.note("%s of %s: %s", f.Side, l.cells[f.Cell].id, text)
	}
	return nil
}

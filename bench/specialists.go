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

// A comparison is one row: a metric of a workload, and the same metric by a foreign driver.
type comparison struct {
	what    string
	load    string // as in cell ids, without the last parenthesis
	against string // the driver's cell: the same, or its plain form
	driver  string
	metric  string
	less    bool    // less is better
	limit   float64 // of the ratio ours : theirs, upper if less is better, else lower
	text    func(float64) string
}

func (c comparison) ours() string   { return c.load + ")" }
func (c comparison) theirs() string { return c.against + ",driver=" + c.driver + ")" }

// sockperfWarm is how long a warm-up sockperf's ping-pong leaves out (TEST_START_WARMUP_MSEC, src/defs.h). udp-rr
// leaves out the same.
const sockperfWarm = 400 * time.Millisecond

// warm returns the warm-up of nettoll's own trials. The rate tests of sockperf and iperf3 leave nothing out. The
// counted part of a stream begins when its rate is steady, in both.
func (c comparison) warm() time.Duration {
	if c.metric == "latency_p50" {
		return sockperfWarm
	}
	return 0
}

// comparisons returns the rows. Each goal applies to each specialist, and so to the best of them.
func comparisons() []comparison {
	const flood, stream = "udp-rate(payload=64,mode=%s", "tcp-stream(message=131072"
	var all []comparison
	for _, mode := range []struct {
		name  string
		limit float64
	}{{"single", 0.95}, {"batched", 1.3}, {"segmented", 3}} {
		for _, driver := range []string{"sockperf", "netperf", "iperf3"} {
			all = append(all, comparison{
				what: "udp-rate, 64 bytes, " + mode.name + ": delivered rate", load: fmt.Sprintf(flood, mode.name),
				against: fmt.Sprintf(flood, "single"),
				driver:  driver, metric: "packet_rate", limit: mode.limit, text: packets,
			})
		}
	}
	for _, driver := range []string{"iperf3", "netperf", "nuttcp"} {
		all = append(all, comparison{
			what: "tcp-stream, 1 flow: delivered rate", load: stream, against: stream, driver: driver, metric: "goodput",
			limit: 0.97, text: bitrate,
		})
	}
	for _, rr := range []struct{ what, load, driver string }{
		{"udp-rr, both ends sleep", "udp-rr(payload=64,mode=wait", "sockperf"},
		{"udp-rr, both ends sleep", "udp-rr(payload=64,mode=wait", "netperf"},
		{"udp-rr, both ends spin", "udp-rr(payload=64,mode=spin", "sockperf"},
		{"tcp-rr, 1 byte, both ends sleep", "tcp-rr(payload=1,mode=wait", "netperf"},
	} {
		all = append(all, comparison{
			what: rr.what + ": median round trip", load: rr.load, against: rr.load, driver: rr.driver, metric: "latency_p50",
			less: true, limit: 1.03, text: duration,
		})
	}
	for _, rate := range []struct {
		what, load, driver, metric string
		limit                      float64
	}{
		{"tcp-crr, 1 byte: connections a second", "tcp-crr(payload=1", "netperf", "connection_rate", 0.95},
		{
			"kv get, 1 KiB, 50 clients, of redis-server: answers a second", "kv(payload=1024,server=redis", "redis-benchmark",
			"transaction_rate", 0.95,
		},
		{
			"http, 615 bytes, 50 clients, of nginx: answers a second", "http(payload=615,server=nginx", "wrk",
			"transaction_rate", 0.9,
		},
		{
			"dns over UDP, 64 in flight: answers a second", "dns(transport=udp,in-flight=64", "dnsperf", "transaction_rate",
			0.9,
		},
	} {
		all = append(all, comparison{
			what: rate.what, load: rate.load, against: rate.load, driver: rate.driver, metric: rate.metric, limit: rate.limit,
			text: perSecond,
		})
	}
	return all
}

// figures are the results of the rounds of one comparison.
type figures struct {
	ours, theirs []float64
	ratios       [][]float64 // logarithms, by group
}

// specialists compares with foreign drivers in one lab, with the same containers, CPUs, buffers, congestion control and
// turns.
func (b *bench) specialists(ctx context.Context) error {
	all := slices.DeleteFunc(comparisons(), func(c comparison) bool {
		d, err := b.parts.Parts().Driver(c.driver)
		if err == nil {
			_, err = driver.Find(d)
		}
		spins := strings.Contains(c.load, "spin") && b.sources[0] == b.sinks[0]
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			b.table.add(row{what: c.what + "; other: " + c.driver, theirs: c.driver + " is not installed"})
		case spins:
			b.table.add(row{what: c.what, theirs: "one CPU cannot hold two that spin"})
		}
		return err != nil || spins
	})
	if len(all) == 0 {
		return &linux.UnsupportedError{
			What: "compare with specialists", Missing: "sockperf, iperf3, netperf and nuttcp", Hint: "install one of them",
		}
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
		r := row{
			what: c.what + "; other: " + c.driver, ours: c.text(measure.Median(f.ours)),
			theirs: c.text(measure.Median(f.theirs)),
		}
		r.ratio, r.met = compared(f.ratios, c.limit, c.less)
		r.goal = fmt.Sprintf("at least %.2f", c.limit)
		if c.less {
			r.goal = fmt.Sprintf("at most %.2f", c.limit)
		}
		b.table.add(r)
	}
	b.table.note("specialists: %d groups of %d rounds, each group on a lab of its own (network %s, one pair); visits of "+
		"%v in random order, sources on CPUs %v, sinks on CPUs %v. "+
		"The others run as nettoll's drivers, in the same containers and turns. sockperf's half round trip is doubled; our "+
		"round trips leave out their first %v as it does. "+
		"Of a stream counts what its receiver got from where the rate is steady. "+
		"A delivered rate is the receiver's own count. The others send and receive one datagram a call, udp-rate in mode "+
		"single too; its sink asks for some 20 µs before it sleeps, theirs sleep at once. "+
		"A ratio is of figures of the same round, the columns beside it are medians of all rounds.",
		b.groups, b.rounds, networkName, b.visit, b.sources, b.sinks, sockperfWarm)
	return nil
}

// find returns the index of a cell, -1 if it is not in the list.
func find(cells []cell, asked string) int {
	return slices.IndexFunc(cells, func(known cell) bool { return known.asked == asked })
}

// tries is how many times a visit is made if it fails: on a busy machine a program may not end in time.
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

// granted records the socket options of nettoll's sockets. sockperf and iperf3 leave theirs at the kernel's defaults,
// too.
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

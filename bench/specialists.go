package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/measure"
)

// slower is the most that our figure may be worse than the specialist's.
const slower = 0.05

// specialist is a program that measures one thing.
type specialist struct {
	name           string // of the program
	protocol       string // "udp" or "tcp": of the socket its server listens on
	server, client func(at netip.AddrPort) []string
	parse          func(stdout []byte) (float64, error) // the figure, in base units
}

// comparison is one row: a metric of a cell, and the specialist's figure for the same.
type comparison struct {
	what   string
	cell   string
	metric string
	less   bool // is better
	text   func(float64) string
	with   specialist
}

const (
	// sockperfWarm is how long sockperf leaves out at the beginning (TEST_START_WARMUP_MSEC, src/defs.h); ours are left out as long.
	sockperfWarm = 400 * time.Millisecond
	// streamWarm is where what counts of an iperf3 stream begins. Its own option for it takes whole seconds.
	streamWarm = 300 * time.Millisecond
)

func comparisons(length time.Duration) []comparison {
	seconds := strconv.Itoa(max(1, int(length/time.Second)))
	waiting, spinning := "udp-rr(payload=64,mode=wait)", "udp-rr(payload=64,mode=spin)"
	return []comparison{
		{
			what: "udp-rr, both ends sleep: median round trip; other: sockperf", cell: waiting, metric: "latency_p50", less: true, text: duration,
			with: sockperf(seconds),
		},
		{
			what: "udp-rr, both ends spin: median round trip; other: sockperf --nonblocked", cell: spinning, metric: "latency_p50", less: true, text: duration,
			with: sockperf(seconds, "--nonblocked"),
		},
		{
			what: "udp-rr, both ends sleep: transaction rate; other: netperf", cell: waiting, metric: "transaction_rate", text: rate,
			with: netperf(seconds),
		},
		{
			what: "tcp-stream: delivered rate; other: iperf3", cell: "tcp-stream(message=131072)", metric: "goodput", text: bitrate,
			with: iperf3(seconds),
		},
	}
}

// sockperf sends 64 bytes to and fro. Both its ends block in recvfrom(2), or with the option --nonblocked ask again and again.
func sockperf(seconds string, options ...string) specialist {
	args := func(mode string, at netip.AddrPort, more ...string) []string {
		args := []string{"sockperf", mode, "-i", at.Addr().String(), "-p", strconv.Itoa(int(at.Port()))}
		return slices.Concat(args, options, more)
	}
	return specialist{
		name: "sockperf", protocol: "udp", parse: parseSockperf,
		server: func(at netip.AddrPort) []string { return args("server", at) },
		client: func(at netip.AddrPort) []string {
			return args("ping-pong", at, "--msg-size", "64", "--mps", "max", "--time", seconds)
		},
	}
}

// parseSockperf returns the median round trip in seconds. What sockperf prints is half of it, in microseconds.
func parseSockperf(stdout []byte) (float64, error) {
	m := regexp.MustCompile(`percentile 50\.000 = +([0-9.]+)`).FindSubmatch(stdout)
	if m == nil {
		return 0, fmt.Errorf("read output of sockperf: no median in %q", stdout)
	}
	half, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("read output of sockperf: %w", err)
	}
	return 2 * half / 1e6, nil
}

// netperf does the same. Its quantiles are whole microseconds, too coarse for a ratio: its rate is compared.
func netperf(seconds string) specialist {
	return specialist{
		name: "netperf", protocol: "tcp", parse: parseNetperf,
		server: func(at netip.AddrPort) []string {
			return []string{"netserver", "-D", "-4", "-L", at.Addr().String(), "-p", strconv.Itoa(int(at.Port()))}
		},
		client: func(at netip.AddrPort) []string {
			return []string{
				"netperf", "-4", "-H", at.Addr().String(), "-p", strconv.Itoa(int(at.Port())), "-t", "UDP_RR", "-l", seconds,
				"--", "-r", "64,64", "-k", "TRANSACTION_RATE",
			}
		},
	}
}

// parseNetperf returns the transactions per second.
func parseNetperf(stdout []byte) (float64, error) {
	for line := range strings.Lines(string(stdout)) {
		if value, ok := strings.CutPrefix(line, "TRANSACTION_RATE="); ok {
			r, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				return 0, fmt.Errorf("read output of netperf: %w", err)
			}
			return r, nil
		}
	}
	return 0, fmt.Errorf("read output of netperf: no transaction rate in %q", stdout)
}

// iperf3 sends messages of 128 KiB; what counts is what its receiver has read.
func iperf3(seconds string) specialist {
	return specialist{
		name: "iperf3", protocol: "tcp", parse: parseIperf3,
		server: func(at netip.AddrPort) []string {
			return []string{"iperf3", "--server", "--bind", at.Addr().String(), "--port", strconv.Itoa(int(at.Port())), "--json", "--interval", "0.1"}
		},
		client: func(at netip.AddrPort) []string {
			return []string{
				"iperf3", "--client", at.Addr().String(), "--port", strconv.Itoa(int(at.Port())), "--json", "--interval", "0.1",
				"--time", seconds, "--length", "128K", "--congestion", congestion, "--get-server-output",
			}
		},
	}
}

// iperf3Output is what matters of what iperf3 prints.
type iperf3Output struct {
	Error string `json:"error"`
	Start struct {
		SendBuffer int `json:"sndbuf_actual"` // bytes
		RecvBuffer int `json:"rcvbuf_actual"`
		Test       struct {
			Duration float64 `json:"duration"` // s
		} `json:"test_start"`
	} `json:"start"`
	Server struct {
		Intervals []struct {
			Sum struct {
				Start float64 `json:"start"` // s
				End   float64 `json:"end"`
				Bytes float64 `json:"bytes"`
			} `json:"sum"`
		} `json:"intervals"`
	} `json:"server_output_json"`
	End struct {
		Congestion string `json:"sender_tcp_congestion"`
	} `json:"end"`
}

func readIperf3(stdout []byte) (iperf3Output, error) {
	var o iperf3Output
	if err := json.Unmarshal(stdout, &o); err != nil {
		return o, fmt.Errorf("read output of iperf3: %w", err)
	}
	if o.Error != "" {
		return o, fmt.Errorf("iperf3: %s", o.Error)
	}
	return o, nil
}

// parseIperf3 returns the bits per second that the receiver read from streamWarm on. The last interval, what was still on its way
// when the time was up, is left out.
func parseIperf3(stdout []byte) (float64, error) {
	o, err := readIperf3(stdout)
	if err != nil {
		return 0, err
	}
	const slack = 0.02 // s
	var bytes, seconds float64
	for _, i := range o.Server.Intervals {
		if i.Sum.Start >= streamWarm.Seconds()-slack && i.Sum.End <= o.Start.Test.Duration+slack && i.Sum.End-i.Sum.Start > slack {
			bytes += i.Sum.Bytes
			seconds += i.Sum.End - i.Sum.Start
		}
	}
	if seconds == 0 {
		return 0, errors.New("read output of iperf3: the receiver tells of no interval")
	}
	return 8 * bytes / seconds, nil
}

// figures are what the rounds left of one comparison.
type figures struct {
	ours, theirs []float64
	ratios       [][]float64 // logarithms, by group
}

// specialists compares with other tools on one lab: same containers, CPUs, buffers and congestion control.
func (b *bench) specialists(ctx context.Context) error {
	all := comparisons(b.visit)
	var missing []string
	all = slices.DeleteFunc(all, func(c comparison) bool {
		_, err := exec.LookPath(c.with.name)
		spins := strings.Contains(c.cell, "spin") && b.sources[0] == b.sinks[0]
		if err != nil {
			b.table.add(row{what: c.what, theirs: c.with.name + " is not installed"})
			missing = append(missing, c.with.name)
		} else if spins {
			b.table.add(row{what: c.what, theirs: "one CPU cannot hold two that spin"})
		}
		return err != nil || spins
	})
	if len(all) == 0 {
		return &linux.UnsupportedError{What: "compare with specialists", Missing: "sockperf, netperf and iperf3", Hint: "install one of them"}
	}
	var cells []cell
	for _, c := range all {
		if slices.ContainsFunc(cells, func(known cell) bool { return known.id == c.cell }) {
			continue
		}
		warm := sockperfWarm
		if c.metric == "goodput" {
			warm = 0 // its window opens where the rate is steady
		}
		one, err := newCell(b.parts, c.cell, warm)
		if err != nil {
			return err
		}
		cells = append(cells, one)
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
		"sockperf's half round trip is doubled; it and udp-rr leave out their first %v. iperf3's receiver counts from %v on, tcp-stream from where its rate is steady. "+
		"A ratio is of figures of the same round, the columns beside it are medians of all rounds.",
		b.groups, b.rounds, networkName, b.visit, b.sources, b.sinks, sockperfWarm, streamWarm)
	return nil
}

// compareGroup builds a lab and makes its rounds.
func (b *bench) compareGroup(ctx context.Context, group int, cells []cell, all []comparison, found []figures) error {
	l, err := openLab(ctx, b, cells, b.visit)
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
		ours := make([]map[string]float64, len(cells))
		theirs := make([]float64, len(all))
		for _, i := range b.random.Perm(len(cells) + len(all)) {
			time.Sleep(settle)
			if i < len(cells) {
				if ours[i], err = l.visit(ctx, i); err != nil {
					return err
				}
				continue
			}
			c := i - len(cells)
			out, err := l.foreign(ctx, all[c].with)
			if err != nil {
				return err
			}
			if theirs[c], err = all[c].with.parse(out); err != nil {
				return err
			}
			if group == 0 && round == 0 && all[c].with.name == "iperf3" {
				if o, err := readIperf3(out); err == nil {
					b.table.note("sockets of iperf3, before they are connected: send buffer %d, receive buffer %d bytes; %s", o.Start.SendBuffer, o.Start.RecvBuffer, o.End.Congestion)
				}
			}
		}
		for i, c := range all {
			at := slices.IndexFunc(cells, func(known cell) bool { return known.id == c.cell })
			f := &found[i]
			f.ours = append(f.ours, ours[at][c.metric])
			f.theirs = append(f.theirs, theirs[i])
			f.ratios[group] = append(f.ratios[group], measure.LogRatio(ours[at][c.metric], theirs[i]))
		}
	}
	return nil
}

// granted notes what our sockets have; the specialists leave theirs as the kernel makes them, too.
func (b *bench) granted(ctx context.Context, l *lab) error {
	facts, err := l.facts(ctx)
	if err != nil {
		return err
	}
	for _, f := range facts {
		text := fmt.Sprintf("send buffer %d, receive buffer %d bytes", f.Facts.SendBuffer, f.Facts.RecvBuffer)
		if f.Facts.Congestion != "" {
			text += ", " + f.Facts.Congestion
		}
		b.table.note("%s of %s: %s", f.Side, l.cells[f.Cell].id, text)
	}
	return nil
}

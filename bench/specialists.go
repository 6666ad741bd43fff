package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	// delivered, where it is not nil, takes the place of parse: it is also told how many datagrams the kernel has handed to the server.
	delivered func(stdout []byte, datagrams float64) (float64, error)
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
	flood := "udp-rate(payload=64,mode=single)"
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
		{
			what: "udp-rate, 64 bytes: delivered rate; other: sockperf throughput", cell: flood, metric: "packet_rate", text: packets,
			with: sockperfRate(seconds),
		},
		{
			what: "udp-rate, 64 bytes: delivered rate; other: iperf3 -u -b 0 -l 64", cell: flood, metric: "packet_rate", text: packets,
			with: iperf3Rate(seconds),
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

// sockperfRate sends 64 bytes as fast as it can, one datagram a call, to a server that blocks in recvfrom(2).
func sockperfRate(seconds string) specialist {
	s := sockperf(seconds)
	s.parse, s.delivered = nil, deliveredSockperf
	s.client = func(at netip.AddrPort) []string {
		return []string{
			"sockperf", "throughput", "-i", at.Addr().String(), "-p", strconv.Itoa(int(at.Port())),
			"--msg-size", "64", "--mps", "max", "--time", seconds,
		}
	}
	return s
}

// deliveredSockperf returns the datagrams per second that reached the server. sockperf says how many it has sent, and at which rate; its
// server says how many came only when it is told to end, which is what the kernel says, too.
func deliveredSockperf(stdout []byte, datagrams float64) (float64, error) {
	total := regexp.MustCompile(`Total of ([0-9]+) messages sent`).FindSubmatch(stdout)
	rate := regexp.MustCompile(`Message Rate is ([0-9]+) `).FindSubmatch(stdout)
	if total == nil || rate == nil {
		return 0, fmt.Errorf("read output of sockperf: no message rate in %q", stdout)
	}
	sent, err1 := strconv.ParseFloat(string(total[1]), 64)
	r, err2 := strconv.ParseFloat(string(rate[1]), 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("read output of sockperf: %w", err)
	}
	if sent == 0 || datagrams > sent {
		return 0, fmt.Errorf("sockperf sent %g datagrams, of which the kernel handed %g to the server", sent, datagrams)
	}
	return r * datagrams / sent, nil
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

// iperf3Rate sends 64 bytes as fast as it can, one datagram a call.
func iperf3Rate(seconds string) specialist {
	s := iperf3(seconds)
	s.parse, s.delivered = nil, deliveredIperf3
	s.client = func(at netip.AddrPort) []string {
		return []string{
			"iperf3", "--client", at.Addr().String(), "--port", strconv.Itoa(int(at.Port())), "--json",
			"--udp", "--bitrate", "0", "--time", seconds, "--length", "64",
		}
	}
	return s
}

// deliveredIperf3 returns the datagrams per second that its receiver counted. The kernel's count has the first one, too, by which the
// server learns of its client.
func deliveredIperf3(stdout []byte, datagrams float64) (float64, error) {
	o, err := readIperf3(stdout)
	if err != nil {
		return 0, err
	}
	in := o.End.Received
	if in.Seconds <= 0 {
		return 0, errors.New("read output of iperf3: its receiver tells of no time")
	}
	came := in.Packets - in.Lost
	const slack = 0.001 // what comes when its time is up
	if math.Abs(datagrams-came) > 2+slack*came {
		return 0, fmt.Errorf("iperf3 received %g datagrams, of which the kernel handed %g to it", came, datagrams)
	}
	return came / in.Seconds, nil
}

// iperf3Output is what matters of what iperf3 prints.
type iperf3Output struct {
	Error string `json:"error"`
	Start struct {
		SendBuffer int `json:"sndbuf_actual"` // bytes
		RecvBuffer int `json:"rcvbuf_actual"`
		Test       struct {
			Protocol string  `json:"protocol"`
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
		Received   struct {
			Seconds float64 `json:"seconds"`
			Packets float64 `json:"packets"` // that should have come
			Lost    float64 `json:"lost_packets"`
		} `json:"sum_received"` // of datagrams: by the receiver
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
		switch c.metric {
		case "goodput":
			warm = 0 // its window opens where the rate is steady
		case "packet_rate":
			warm = 0 // the specialists leave nothing out
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
		"A delivered rate is what the receiver got: udp-rate's and iperf3's sink counts, for sockperf the kernel does (Udp InDatagrams), which iperf3's count agrees with. "+
		"All three send and receive one datagram a call; udp-rate's sink asks for some 20 µs before it sleeps, sockperf's and iperf3's sleep at once. "+
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
			out, figure, err := l.visitForeign(ctx, all[c].with)
			if err != nil {
				return err
			}
			theirs[c] = figure
			if group == 0 && round == 0 && all[c].with.name == "iperf3" {
				if o, err := readIperf3(out); err == nil {
					b.table.note("sockets of iperf3 over %s, before they are connected: send buffer %d, receive buffer %d bytes; %s",
						o.Start.Test.Protocol, o.Start.SendBuffer, o.Start.RecvBuffer, cmp.Or(o.End.Congestion, "no congestion control"))
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

// visitForeign makes one visit to a specialist and returns what it printed, and its figure.
func (l *lab) visitForeign(ctx context.Context, s specialist) (out []byte, figure float64, err error) {
	if s.delivered == nil {
		if out, err = l.foreign(ctx, s); err != nil {
			return nil, 0, err
		}
		figure, err = s.parse(out)
		return out, figure, err
	}
	before, err := l.datagrams(ctx)
	if err != nil {
		return nil, 0, err
	}
	if out, err = l.foreign(ctx, s); err != nil {
		return nil, 0, err
	}
	after, err := l.datagrams(ctx)
	if err != nil {
		return nil, 0, err
	}
	figure, err = s.delivered(out, after-before)
	return out, figure, err
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

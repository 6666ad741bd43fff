package underload

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload under-load.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest = 65507 // bytes: an IPv4 datagram of 65535 minus its headers (RFC 791, RFC 768)

	// byShare is the rate if the share decides, and none is the share if the rate decides.
	byShare, none = "share", "none"

	leastShare, mostShare = 0.01, 1.2
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name: "under-load",
		Summary: "latency of UDP datagrams sent on an open-loop schedule at a share of the path's capacity (sockperf " +
			"under-load)",
		Reproduces: "sockperf under-load (--mps, --reply-every), which prints half the round trip; flent's RRUL in its " +
			"idea only, as the load there is TCP",
		// a p99 needs 10,000 samples, more than a trial has: it comes from groups of blocks
		Primary: func(part.Params) string { return "latency_p50" },
		Why: "the shortest with 200 answers in the window, which a median takes, at a tenth of a capacity of " +
			"100,000 datagrams a second",
		Warm:  0.2,
		Trial: trial,
		Spins: func(part.Params) bool { return true },
		Params: slices.Concat(part.List{
			{
				Name: "payload", Default: "64", Summary: "bytes of a datagram, 24 to 65507; an answer has 24",
				Check: part.SizeBetween(traffic.HeaderSize, largest),
			},
			{Name: "share", Default: "50%", Summary: "share of the capacity found for each stack's own path, so that a faster " +
				"path carries more, 1% to 120%; none: use rate instead", Check: shareOrNone},
			{
				Name: "mode", Default: "wait", Summary: "wait: the sink sleeps until a datagram arrives; spin: it polls",
				Values: []string{"wait", "spin"},
			},
			{
				Name: "answer-every", Default: "10", Quiet: true, Summary: "the sink answers every Nth datagram, 1 to 1000",
				Check: part.CountBetween(1, 1000),
			},
		}, workload.ScheduleParams(byShare,
			"datagrams per second that a pair sends if share is none, such as 10k/s"), workload.SocketParams()),
		Refuse:   refuse,
		Declares: declared(),
		Metrics: slices.Concat(
			[]string{
				"packet_rate", "packet_rate_per_pair", "packet_rate_sent", "packet_rate_offered", "capacity", "loss",
				"duplicates", "reordering", "backlog", "cpu_per_packet",
			},
			workload.DurationMetrics(traffic.Latency, traffic.Service, traffic.Departure), workload.CPUMetrics(),
		),
	}
}

func shareOrNone(s string) (string, error) {
	if s == none {
		return s, nil
	}
	share, err := part.ShareBetween(leastShare, mostShare)(s)
	if err != nil {
		return "", fmt.Errorf("%w, or %s", err, none)
	}
	return share, nil
}

// refuse returns an error unless exactly one parameter sets the load.
func refuse(p part.Params) error {
	absolute := p["rate"] != byShare
	switch {
	case absolute && p["share"] != none:
		return fmt.Errorf("rate=%s and share=%s exclude each other (hint: use share=%s with a "+
			"rate)", p["rate"], p["share"], none)
	case !absolute && p["share"] == none:
		return fmt.Errorf("share=%s needs a rate, such as rate=20k/s", none)
	}
	return nil
}

// trial returns the default length of a trial: with enough answers in the window for a median. For a share, the number
// of datagrams is not known; the assumed capacity, 100,000 a second, is that of a slow veth pair.
func trial(p part.Params) time.Duration {
	const (
		shortest, longest = 300 * time.Millisecond, 10 * time.Second
		samples           = 240 // with a reserve
		capacity          = 100_000
		window            = 0.8 // of the trial
	)
	rate := p.Rate("rate")
	if rate == 0 {
		rate = p.Share("share") * capacity
	}
	seconds := samples * float64(p.Count("answer-every")) / rate / window
	return min(max(shortest, time.Duration(seconds*float64(time.Second)).Round(time.Millisecond)), longest)
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	sk, err := sock.UDP(s.Local, s.Remote)
	if err != nil {
		return nil, err
	}
	e, err := open(s, sk)
	if err != nil {
		sk.Close()
		return nil, err
	}
	return e, nil
}

func open(s workload.Spec, sk sock.Socket) (traffic.Endpoint, error) {
	if err := errors.Join(sk.Set(s.SocketOptions()), sk.SetTimeout(traffic.Patience)); err != nil {
		return nil, err
	}
	e := endpoint{sock: sk, in: traffic.Buffer(largest), spin: s.Params["mode"] == "spin"}
	switch s.Side {
	case workload.Source:
		return newSource(s, e)
	case workload.Sink:
		return &sink{endpoint: e, stall: s.Stall}, nil
	}
	return nil, fmt.Errorf("open under-load: side %q (valid: source or sink)", s.Side)
}

const (
	// lossSome is the loss above which a trial has a warning: only datagrams that were not lost have a latency.
	lossSome = 0.001
)

// Metrics implements [workload.Workload]. Sent is the sources' count, received the sinks'; latencies are the sources'.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	window := t.Window.Seconds()
	var sent, received, repeated, reordered, total, backlog, capacity, blocked, dropped int64
	for _, s := range t.Sources {
		sent += s.Sent
		blocked += s.Counts[countBlocked]
		capacity += s.Counts[countCapacity]
		backlog = max(backlog, s.Counts[traffic.CountBacklog])
	}
	rates := make([]float64, len(t.Sinks))
	for i, s := range t.Sinks {
		received += s.Received
		repeated += s.Counts[traffic.CountRepeated]
		reordered += s.Counts[traffic.CountReordered]
		total += s.Total
		dropped += s.Counts[countDropped]
		rates[i] = float64(s.Received) / window
	}
	offered := t.Params.Rate("rate") * float64(len(t.Sources))
	if capacity > 0 {
		r.Metrics["capacity"] = float64(capacity)
		offered = t.Params.Share("share") * float64(capacity)
	}
	if offered > 0 {
		r.Metrics["packet_rate_offered"] = offered
	}
	r.Metrics["packet_rate_sent"] = float64(sent) / window
	r.Metrics["packet_rate"] = float64(received) / window
	if pairs := float64(len(t.Sinks)); pairs > 1 {
		r.Metrics["packet_rate_per_pair"] = r.Metrics["packet_rate"] / pairs
		r.PerPair["packet_rate"] = rates
	}
	r.Metrics["backlog"] = float64(backlog)
	if sent > 0 {
		r.Metrics["loss"] = float64(sent-received) / float64(sent)
	}
	lossy := r.Metrics["loss"] > lossSome
	late := t.Behind(offered / float64(len(t.Sources)))
	if lossy {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("more than %g %% of the datagrams were lost; latency covers the others: lower the share", 100*lossSome))
	}
	if late {
		r.Warnings = append(r.Warnings, workload.FellBehind)
	}
	// what kept the load from being carried: what dropped datagrams or, if nothing did, what made the source fall
	// behind
	switch {
	case lossy && 2*dropped > sent-received:
		r.Limit = workload.ByReceiver
	case lossy, late && blocked > 0:
		r.Limit = workload.ByPath
	case late:
		r.Limit = workload.BySender
	}
	if received > 0 {
		r.Metrics["duplicates"] = float64(repeated) / float64(received)
		r.Metrics["reordering"] = float64(reordered) / float64(received)
	}
	if seconds := t.PutCPU(r.Metrics); total > 0 {
		r.Metrics["cpu_per_packet"] = seconds / float64(total)
	}
	t.PutDurations(r.Metrics)
	return r
}

// Carried implements [workload.Carrier]. A message is a datagram, and so is the answer to some of them.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	return t.Sinks[i].Received, t.Sources[i].Received
}

package connections

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload connections.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	each    = 500e3 // bit/s of a connection: paper 004, section V.B.4
	all     = 50e6  // largest rate of a pair, in bit/s: 100 of those
	auto    = "auto"
	most    = 10_000  // connections of a pair
	largest = 1 << 20 // bytes of a message

	warm    = 0.1
	settled = 200 * time.Millisecond
	longest = 30 * time.Second
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:    "connections",
		Summary: "many TCP connections at once, each with a little one-way traffic of its own; each message is timed",
		Reproduces: "the 100 TCP connections of SeCoNetBench (paper 004, section V.B.4, figure 5), made with D-ITG there, " +
			"which often crashed across hosts (section V.D.2). Each connection sends evenly, from a time on that is drawn " +
			"for it alone, anew in each trial. One thread at each end serves all of them. TCP_NODELAY is always on: " +
			"otherwise a small message waits until the one before is acknowledged, which the paper does not speak of",
		Primary: func(part.Params) string { return "oneway_latency_p50" },
		Why: "same messages and wake-ups as tcp-rr at a rate, whose ratios have settled by then; with many connections " +
			"each gets two messages",
		Warm:  warm,
		Trial: trial,
		Spins: func(part.Params) bool { return false },
		Params: slices.Concat(part.List{
			{
				Name: "connections", Default: "100", Summary: "concurrent connections of a pair, 1 to 10000",
				Check: part.CountBetween(1, most),
			},
			{
				Name: "rate", Default: auto, Quiet: true, Check: part.BitRateOr(auto),
				Summary: "payload rate of all connections of a pair together; auto: 500 kbit/s each, at most 50 Mbit/s together",
			},
			{
				Name: "payload", Default: "653", Summary: "bytes of a message, 28 to 1MiB",
				Check: part.SizeBetween(flows.StreamHead, largest),
			},
		}, workload.StreamParams()),
		Refuse:   refuse,
		Declares: declared(),
		Metrics:  slices.Concat([]string{"connections", "setup_time", "retransmits"}, workload.MessageMetrics()),
	}
}

// rate returns the number of messages a second of a pair.
func rate(p part.Params) float64 {
	bits := p.BitRate("rate")
	if bits == 0 {
		bits = min(each*float64(p.Count("connections")), all)
	}
	return bits / 8 / float64(p.Size("payload"))
}

// trial returns a length with room for two messages of each connection inside the window, so that each has a jitter.
func trial(p part.Params) time.Duration {
	const messages = 2.1 / (1 - warm)
	return min(max(settled, time.Duration(messages*float64(p.Count("connections"))/rate(p)*1e9).Round(time.Millisecond)),
		longest)
}

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	const fastest = 1e6 // messages a second
	if n := rate(p); n > fastest {
		return fmt.Errorf("rate=%s with messages of %s bytes means %.0f per second (limit %.0f)", p["rate"], p["payload"],
			n, fastest)
	}
	return nil
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	p := s.Params
	place := flows.Place{
		Local: s.Local, Remote: s.Remote, LocalPorts: s.LocalPorts, RemotePorts: s.RemotePorts,
		Options: s.SocketOptions(),
	}
	place.Options.NoDelay = true
	e := &flows.End{
		Longest: p.Size("payload"), OwnClock: s.OwnClock,
		StallEvery: int64(s.Stall.Every), StallFor: int64(s.Stall.For),
	}
	count := p.Count("connections")
	var err error
	switch s.Side {
	case workload.Source:
		var schedule *traffic.Schedule
		if schedule, err = traffic.NewSchedule(traffic.ScheduleSpec{
			Rate: rate(p), Arrivals: "constant", Sizes: "constant", Size: e.Longest, Least: flows.StreamHead, Most: largest,
			Seed: s.Seed, Senders: count,
		}); err != nil {
			return nil, err
		}
		e.Out = []flows.Lane{{Schedule: schedule, Count: count}}
		e.Streams, err = flows.Call(place, count)
	case workload.Sink:
		e.Hears = true
		e.Streams, err = flows.Listen(place, count)
	default:
		return nil, fmt.Errorf("open connections: side %q (valid: source or sink)", s.Side)
	}
	if err != nil {
		return nil, err
	}
	if err := e.Init(); err != nil {
		return nil, err
	}
	return e, nil
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutMessages(&r)
	var carried, resent, setup int64
	for _, s := range t.Sinks {
		carried += s.Counts[flows.CountFlows]
	}
	for _, s := range slices.Concat(t.Sources, t.Sinks) {
		resent += s.Counts[traffic.CountResent]
		setup = max(setup, s.Counts[flows.CountSetup])
	}
	r.Metrics["connections"], r.Metrics["retransmits"] = float64(carried), float64(resent)
	r.Metrics["setup_time"] = float64(setup) / 1e9
	return r
}

// Carried implements [workload.Carrier].
func (Workload) Carried(t workload.Trial, i int) (there, back int64) { return t.CarriedMessages(i) }

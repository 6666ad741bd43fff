package burst

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload burst.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest   = 65507 // bytes: an IPv4 datagram of 65535 minus its headers (RFC 791, RFC 768)
	mostFlows = 8     // each end of a pair has as many ports
	shortest  = time.Millisecond
	longest   = time.Minute
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:    "burst",
		Summary: "bursts of one-way UDP datagrams, each timed; rates cover bursts and pauses",
		Reproduces: "the bursty traffic of SeCoNetBench (paper 004, section V.B.3, figure 5; its figure 8, across hosts " +
			"through tunnels, is in no suite yet), generated with D-ITG there; the length of its pauses is not published",
		Primary: func(part.Params) string { return "oneway_latency_p50" },
		Why:     "a trial is one burst and one pause, so each shows the effects of both; a shorter one would only be a burst",
		Warm:    0, // a burst starts cold
		Trial:   func(p part.Params) time.Duration { return p.Duration("on") + p.Duration("off") },
		Spins:   func(part.Params) bool { return false },
		Params: slices.Concat(part.List{
			{
				Name: "rate", Default: "500kbit/s", Summary: "payload rate of a pair during a burst",
				Check: part.BitRateOr(""),
			},
			{
				Name: "on", Default: "1s", Quiet: true, Summary: "length of a burst, 1ms to 1m",
				Check: part.DurationBetween(shortest, longest),
			},
			{
				Name: "off", Default: "1s", Quiet: true, Summary: "length of the pause after a burst, 0s to 1m",
				Check: part.DurationBetween(0, longest),
			},
			{
				Name: "payload", Default: "653", Summary: "bytes of a datagram, 24 to 65507",
				Check: part.SizeBetween(flows.DatagramHead, largest),
			},
			{
				Name: "flows", Default: "1", Quiet: true,
				Summary: "ports of a pair at each end, 1 to 8, used in turn",
				Check:   part.CountBetween(1, mostFlows),
			},
		}, workload.SocketParams()),
		Refuse:  refuse,
		Metrics: workload.MessageMetrics(),
	}
}

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	const fastest = 1e6 // datagrams a second; udp-rate is for more
	switch n := rate(p); {
	case n > fastest:
		return fmt.Errorf("rate=%s with datagrams of %s bytes means %.0f per second (limit %.0f)", p["rate"], p["payload"],
			n, fastest)
	case n*p.Duration("on").Seconds() < 1:
		return fmt.Errorf("on=%s is too short for one datagram at rate=%s (valid: at least %v)", p["on"], p["rate"],
			time.Duration(1e9/n).Round(time.Microsecond))
	}
	return nil
}

// rate returns the number of datagrams a second during a burst.
func rate(p part.Params) float64 { return p.BitRate("rate") / 8 / float64(p.Size("payload")) }

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	p := s.Params
	e := &flows.End{
		Longest: p.Size("payload"), FirstApart: true, OwnClock: s.OwnClock,
		StallEvery: int64(s.Stall.Every), StallFor: int64(s.Stall.For),
	}
	count := p.Count("flows")
	switch on, off := p.Duration("on"), p.Duration("off"); s.Side {
	case workload.Source:
		schedule, err := traffic.NewSchedule(traffic.ScheduleSpec{
			Rate: rate(p) * float64(on) / float64(on+off), Arrivals: fmt.Sprintf("bursts:%v:%v", on, off), Sizes: "constant",
			Size: e.Longest, Least: flows.DatagramHead, Most: largest, Seed: s.Seed,
		})
		if err != nil {
			return nil, err
		}
		e.Out = []flows.Lane{{Schedule: schedule, Count: count}}
	case workload.Sink:
		e.Hears = true
	default:
		return nil, fmt.Errorf("open burst: side %q (valid: source or sink)", s.Side)
	}
	var err error
	e.Sockets, err = flows.Datagrams(flows.Place{
		Local: s.Local, Remote: s.Remote, LocalPorts: s.LocalPorts, RemotePorts: s.RemotePorts, Options: s.SocketOptions(),
	}, count)
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
	return r
}

// Carried implements [workload.Carrier].
func (Workload) Carried(t workload.Trial, i int) (there, back int64) { return t.CarriedMessages(i) }

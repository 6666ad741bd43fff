package ping

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

// Workload is the workload ping.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest = 65507 // bytes: an IPv4 datagram of 65535 minus its headers (RFC 791, RFC 792)

	// flood is the interval of a source that sends a request after each answer.
	flood = "flood"

	shortestInterval = 20 * time.Microsecond
	longestInterval  = time.Second

	ipHeader = 20 // bytes, without options, before the ICMP header on raw IPv4 sockets
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:    "ping",
		Summary: "ICMP echo requests that the sink's kernel answers, at an interval or as a flood (ping)",
		Reproduces: "Latency Basic of SeCoNetBench (figure 4a; its figure 7a, across hosts through tunnels, is in no suite " +
			"yet); ping -i and ping -f. The round trip holds the path " +
			"both ways and, where the source " +
			"has to wait for the answer, its own wake-up; with an interval, both with cold caches",
		Primary: func(part.Params) string { return "latency_p50" },
		Why:     "a median needs 200 requests; a flood is a closed loop like that of udp-rr",
		Warm:    warm,
		Trial:   trial,
		Spins:   func(part.Params) bool { return false },
		Alone:   true,
		Params: append(part.List{
			{
				Name: "payload", Default: "56", Summary: "bytes of ICMP data, 24 to 65507",
				Check: part.SizeBetween(traffic.HeaderSize, largest),
			},
			{Name: "interval", Default: "1ms", Summary: "time from one request to the next, 20µs to 1s, regardless of " +
				"answers; or flood: one request per answer", Check: interval},
		}, workload.SocketParams()...),
		Metrics: slices.Concat(
			[]string{"transaction_rate", "transaction_rate_per_pair", "loss", "cpu_per_packet", "backlog"},
			workload.DurationMetrics(traffic.Latency, traffic.Service, traffic.Departure),
			workload.CPUMetrics(),
		),
	}
}

func interval(s string) (string, error) {
	if s == flood {
		return s, nil
	}
	v, err := part.DurationBetween(shortestInterval, longestInterval)(s)
	if err != nil {
		return "", fmt.Errorf("%w, or %s", err, flood)
	}
	return v, nil
}

// rate returns the number of requests a second; 0: as many as are answered.
func rate(p part.Params) float64 {
	if d := p.Duration("interval"); d > 0 {
		return float64(time.Second) / float64(d)
	}
	return 0
}

// warm is the share of a trial that passes before its window opens.
const warm = 0.1

// trial returns the default length of a trial: with an interval, long enough for a median.
func trial(p part.Params) time.Duration {
	const least, requests = 100 * time.Millisecond, 230 // 207 of these are in the window
	return max(least, requests*p.Duration("interval"))
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	switch s.Side {
	case workload.Source:
		return openSource(s)
	case workload.Sink:
		return openSink(s)
	}
	return nil, fmt.Errorf("open ping: side %q (valid: source or sink)", s.Side)
}

func openSource(s workload.Spec) (traffic.Endpoint, error) {
	payload, ipv6 := s.Params.Size("payload"), s.Local.Addr().Is6()
	e := &source{Exchange: traffic.Exchange{
		Out: traffic.Payload(traffic.EchoHeader + payload), OutAt: traffic.EchoHeader,
		In: make([]byte, ipHeader+traffic.EchoHeader+largest), InAt: traffic.EchoHeader,
		Echo: traffic.EchoFinished, Unmarked: true,
	}}
	traffic.StartEcho(e.Out, ipv6, s.Local.Port())
	if r := rate(s.Params); r > 0 {
		var err error
		e.Schedule, err = traffic.NewSchedule(traffic.ScheduleSpec{
			Rate: r, Arrivals: "constant", Sizes: "constant", Size: payload, Least: traffic.HeaderSize, Most: largest,
			Seed: s.Seed,
		})
		if err != nil {
			return nil, err
		}
	}
	sk, raw, err := sock.Ping(s.Local, s.Remote)
	if err != nil {
		return nil, err
	}
	if raw && !ipv6 {
		e.Echo, e.InAt = traffic.EchoRaw, ipHeader+traffic.EchoHeader
	}
	e.Flows = []sock.Socket{sk}
	if err := errors.Join(sk.Set(s.SocketOptions()), sk.SetTimeout(traffic.Patience), e.Init()); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// source sends echo requests.
type source struct{ traffic.Exchange }

// Run implements [traffic.Endpoint].
func (s *source) Run(_ uint64, w traffic.Window) { s.Exchange.Run(w) }

// Sample implements [traffic.Endpoint].
func (s *source) Sample() *traffic.Sample { return &s.Exchange.Sample }

// Recorders implements [traffic.Endpoint].
func (s *source) Recorders() traffic.Recorders { return s.Exchange.Recorders }

// Facts implements [traffic.Endpoint].
func (s *source) Facts() (sock.Facts, error) { return s.Flows[0].Facts() }

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutExchange(&r, rate(t.Params))
	return r
}

// Carried implements [workload.Carrier]. An echo request and its reply are a packet each.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	return t.Sources[i].Received, t.Sources[i].Received
}

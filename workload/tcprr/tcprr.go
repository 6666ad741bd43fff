package tcprr

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload tcp-rr.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest   = 1 << 20 // bytes
	mostAhead = 1024    // requests in flight on a connection
	mostFlows = 128     // a listening socket keeps that many until they are accepted (sock.Socket.Listen)
	same      = "same"
	closed    = "closed"

	settled = 40 * time.Millisecond // as for udp-rr
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:    "tcp-rr",
		Summary: "requests and responses on persistent TCP connections, timed one by one (netperf TCP_RR)",
		Reproduces: "netperf TCP_RR, and its bursts with in-flight; the IBM report's latency of 100 bytes out and 200 back " +
			"(payload 100, response 200)",
		Primary: func(p part.Params) string {
			// latency would measure the queue of requests
			if !workload.Scheduled(p) && (p.Count("in-flight") > 1 || p.Count("flows") > 1) {
				return "transaction_rate"
			}
			return "latency_p50"
		},
		Why:   "same packets, wake-ups and length as udp-rr; at a rate, a median needs 200 requests",
		Warm:  workload.TransactionWarm,
		Trial: func(p part.Params) time.Duration { return workload.TransactionTrial(p, settled) },
		Spins: func(p part.Params) bool { return p["mode"] == "spin" },
		Params: slices.Concat(part.List{
			{
				Name: "payload", Default: "1", Summary: "bytes of a request, 1 to 1MiB",
				Check: part.SizeBetween(kindSize, largest),
			},
			{
				Name: "response", Default: same, Quiet: true,
				Summary: "bytes of a response, 1 to 1MiB; same: the size of its request",
				Check:   workload.SameOr(part.SizeBetween(1, largest)),
			},
			{
				Name: "mode", Default: "wait", Summary: "wait: both ends sleep until data arrives; spin: both ends poll",
				Values: []string{"wait", "spin"},
			},
			{
				Name: "in-flight", Default: "1", Quiet: true,
				Summary: "requests in flight on a connection, 1 to 1024",
				Check:   part.CountBetween(1, mostAhead),
			},
			{
				Name: "flows", Default: "1", Quiet: true,
				Summary: "connections of a pair, 1 to 128; one thread at each end serves them all",
				Check:   part.CountBetween(1, mostFlows),
			},
		},
			workload.ScheduleParams(closed, "requests per second of a pair, sent when they are due, regardless of requests in "+
				"flight; closed: each follows a response"),
			workload.StreamParams()),
		Refuse: refuse,
		Metrics: slices.Concat([]string{
			"transaction_rate", "transaction_rate_per_pair", "cpu_per_transaction", "retransmits", "backlog", "planted",
		},
			workload.CPUMetrics(), workload.DurationMetrics(traffic.Latency, traffic.Service, traffic.Departure)),
	}
}

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	switch {
	case workload.Scheduled(p) && p.Count("in-flight") > 1:
		return fmt.Errorf("in-flight=%s has no effect at a rate (valid: rate=closed)", p["in-flight"])
	case workload.Scheduled(p) && workload.Varied(p) && p.Size("payload") < lengthSize:
		return fmt.Errorf("payload=%s: requests of different lengths hold their length in %d bytes (valid: at least that)",
			p["payload"], lengthSize)
	}
	return workload.Unscheduled(p)
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	e, err := open(s)
	if err != nil {
		return nil, err
	}
	switch s.Side {
	case workload.Source:
		src := &source{endpoint: e, inFlight: s.Params.Count("in-flight"), flows: make([]flow, len(e.conns))}
		if err := src.init(); err != nil {
			src.Close()
			return nil, err
		}
		return src, nil
	case workload.Sink:
		snk := &sink{
			endpoint: e, streams: make([]stream, len(e.conns)), listener: sock.Socket{FD: -1},
			plant: traffic.NewDelay(s.Plant),
		}
		if err := snk.init(); err != nil {
			snk.Close()
			return nil, err
		}
		return snk, nil
	}
	e.Close()
	return nil, fmt.Errorf("open tcp-rr: side %q (valid: source or sink)", s.Side)
}

func (s *source) init() error {
	schedule, err := s.spec.Schedule(s.request, s.header, largest)
	if err != nil {
		return err
	}
	s.schedule = schedule
	s.recorders[traffic.Latency] = traffic.NewRecorder()
	longest := s.request
	if schedule != nil {
		s.recorders[traffic.Service], s.recorders[traffic.Departure] = traffic.NewRecorder(), traffic.NewRecorder()
	}
	if workload.Varied(s.spec.Params) {
		longest = largest
	}
	s.out = traffic.Payload(longest)
	for i := range s.flows {
		s.flows[i].asked = make([]request, s.room())
	}
	return s.connect()
}

func (s *sink) init() error {
	longest := max(s.request, s.response)
	if workload.Varied(s.spec.Params) && s.response == 0 {
		longest = largest
	}
	s.out = traffic.Payload(longest)
	var err error
	s.listener, err = s.Listen(s.spec.Local, options(s.spec))
	return err
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	cpu, total := t.PutTransactions(&r, "transaction_rate", t.Params.Rate("rate"))
	if total > 0 {
		r.Metrics["cpu_per_transaction"] = cpu / float64(total)
	}
	var resent int64
	for _, s := range slices.Concat(t.Sources, t.Sinks) {
		resent += s.Counts[traffic.CountResent]
	}
	r.Metrics["retransmits"] = float64(resent)
	return r
}

// Carried implements [workload.Carrier]. On a schedule, requests that are due do not wait for responses.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	together := t.Params.Count("in-flight")
	if workload.Scheduled(t.Params) {
		together = outstanding
	}
	return t.CarriedExchange(i, workload.Exchanging(t.Params, together))
}

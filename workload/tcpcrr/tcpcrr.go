package tcpcrr

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload tcp-crr.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest  = 1 << 20 // bytes
	mostPort = 64      // listening ports of a sink
	same     = "same"
	closed   = "closed"

	settled = 200 * time.Millisecond // twice that of udp-rr
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name: "tcp-crr",
		Summary: "TCP connections opened, used for one request and its response, and closed, one after the other (netperf " +
			"TCP_CRR)",
		Reproduces: "netperf TCP_CRR",
		Primary: func(p part.Params) string {
			if workload.Scheduled(p) { // the rate is given
				return "latency_p50"
			}
			return "connection_rate"
		},
		Why: "twice that of udp-rr, since a transaction takes about five packets each way; no study of its own yet; at a " +
			"rate, a median needs 200 connections",
		Warm:  workload.TransactionWarm,
		Trial: func(p part.Params) time.Duration { return workload.TransactionTrial(p, settled) },
		Spins: func(part.Params) bool { return false },
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
				Name: "closes", Default: string(workload.Sink), Quiet: true, Values: []string{
					string(workload.Source), string(workload.Sink),
				},
				Summary: "side that closes a connection first and keeps it in TIME_WAIT: sink, as with netperf, after sending " +
					"the response; source, after receiving it",
			},
			{
				Name: "ports", Default: "8", Quiet: true,
				Summary: "listening ports of a sink, 1 to 64, used in turn; at most as many as it has",
				Check:   part.CountBetween(1, mostPort),
			},
		},
			workload.ScheduleParams(closed, "connections per second of a pair, started when they are due, or after the "+
				"previous one if it is still open; closed: each follows the previous one"),
			workload.StreamParams()),
		Refuse:   refuse,
		Declares: declared(),
		Metrics: slices.Concat([]string{
			"connection_rate", "connection_rate_per_pair", "cpu_per_transaction", "ports_busy", "backlog", "planted",
		},
			workload.CPUMetrics(), workload.DurationMetrics(traffic.Latency, traffic.Connect, traffic.Service,
				traffic.Departure)),
	}
}

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	if workload.Scheduled(p) && workload.Varied(p) && p.Size("payload") < lengthSize {
		return fmt.Errorf("payload=%s: requests of different lengths hold their length in %d bytes (valid: at least that)",
			p["payload"], lengthSize)
	}
	return workload.Unscheduled(p)
}

// options returns the options of all sockets, including listening ones, from which accepted connections inherit them.
func options(s workload.Spec) sock.Options {
	o := s.SocketOptions()
	o.NoDelay = true // a request that waits for the acknowledgement of its first segment would measure a timer (RFC 896)
	return o
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	switch s.Side {
	case workload.Source:
		home, err := netns.Current()
		if err != nil {
			return nil, err
		}
		src := &source{exchange: newExchange(s), home: home}
		if err := src.init(s); err != nil {
			src.Close()
			return nil, err
		}
		return src, nil
	case workload.Sink:
		snk := &sink{exchange: newExchange(s)}
		if err := snk.init(s); err != nil {
			snk.Close()
			return nil, err
		}
		return snk, nil
	}
	return nil, fmt.Errorf("open tcp-crr: side %q (valid: source or sink)", s.Side)
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	cpu, total := t.PutTransactions(&r, "connection_rate", t.Params.Rate("rate"))
	if total > 0 {
		r.Metrics["cpu_per_transaction"] = cpu / float64(total)
	}
	var busy int64
	for _, s := range t.Sources {
		busy += s.Counts[countBusy]
	}
	r.Metrics["ports_busy"] = float64(busy)
	return r
}

// Carried implements [workload.Carrier].
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	e := workload.Exchanging(t.Params, 1)
	e.Renew = true
	return t.CarriedExchange(i, e)
}

package udprr

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload udp-rr.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest = 65507 // bytes: an IPv4 datagram of 65535 minus its headers (RFC 791, RFC 768)

	// settled is the length of a trial from which the ratio of two paths no longer depends on it.
	settled = 40 * time.Millisecond

	mostInFlight = 1024
	mostFlows    = 1024

	// freshPorts is the number of trials for which a source has ports for new flows. A generation has a few dozen
	// trials of a cell.
	freshPorts = 256

	// looksPerClock is how many times a sink checks the socket before it reads the clock, because a client may never
	// stop.
	looksPerClock = 64
)

// closed is the rate of a source that sends a request after each answer; same is the length of answers that are as long
// as their requests.
const (
	closed = "closed"
	same   = "same"
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	list := part.List{
		{Name: "payload", Default: "64", Summary: "bytes of a request, 1 to 65507", Check: part.SizeBetween(1, largest)},
		{
			Name: "mode", Default: "wait", Summary: "wait: both ends sleep until a datagram arrives; spin: both ends poll",
			Values: []string{"wait", "spin"},
		},
		{
			Name: "response", Default: same, Quiet: true,
			Summary: "bytes of an answer, 1 to 65507; same: the size of its request",
			Check:   workload.SameOr(part.SizeBetween(1, largest)),
		},
		{
			Name: "in-flight", Default: "1", Quiet: true, Summary: "requests in flight, 1 to 1024",
			Check: part.CountBetween(1, mostInFlight),
		},
		{
			Name: "flows", Default: "1", Quiet: true, Summary: "source ports, used in turn, 1 to 1024",
			Check: part.CountBetween(1, mostFlows),
		},
		{Name: "flow", Default: "kept", Quiet: true, Summary: "kept: the same ports in all trials; fresh: a new source " +
			"port in each trial, whose first round trip is reported separately", Values: []string{"kept", "fresh"}},
		{
			Name: "timestamps", Default: "none", Quiet: true,
			Summary: "software: time between the system calls, drivers and kernels of the two ends, by kernel timestamps",
			Values:  []string{"none", "software"},
		},
	}
	list = append(list, workload.ScheduleParams(closed, "request rate of a pair: closed: one per answer; or a number "+
		"per second, such as 10k/s, regardless of requests in flight")...)
	return workload.Description{
		Name:    "udp-rr",
		Summary: "UDP requests and their answers, round trips timed one by one (sockperf ping-pong, netperf UDP_RR)",
		Reproduces: "latency and packets per second of Ji et al. (2019), which are one measurement (docs/ji2019.md); " +
			"sockperf ping-pong; netperf UDP_RR, with 1 and 1 byte or " +
			"with 100 and 200 as in IBM's report; at a rate, sockperf under-load",
		Primary: primary,
		Why: "the ratio of two paths does not change with the length from 10 ms on; mode=wait has 40 ms, for a median of " +
			"200 requests where CPUs sleep; at a rate, a median " +
			"needs 200 requests",
		Warm:   workload.TransactionWarm,
		Trial:  func(p part.Params) time.Duration { return workload.TransactionTrial(p, settled) },
		Spins:  func(p part.Params) bool { return p["mode"] == "spin" },
		Params: append(list, workload.SocketParams()...),
		Refuse: refuse,
		Metrics: slices.Concat(
			[]string{
				"transaction_rate", "transaction_rate_per_pair", "loss", "cpu_per_packet", "first_packet_latency",
				"backlog", "planted",
			},
			workload.DurationMetrics(traffic.Latency, traffic.Service, traffic.Departure, traffic.SenderStack, traffic.Wire,
				traffic.ReceiverStack),
			workload.CPUMetrics(),
		),
	}
}

// answer returns the length of answers in bytes; 0: as long as their requests.
func answer(p part.Params) int { return p.Size("response") }

// shortest returns the length of the shortest datagram in bytes, without a distribution of sizes: with one, no request
// is shorter than a header.
func shortest(p part.Params) int {
	if n := answer(p); n > 0 {
		return min(n, p.Size("payload"))
	}
	return p.Size("payload")
}

func compact(p part.Params) bool { return shortest(p) < traffic.HeaderSize }

// refuse returns an error for parameters that do not fit together.
func refuse(p part.Params) error {
	many, paced, stamped := p.Count("in-flight") > 1, workload.Scheduled(p), p["timestamps"] != "none"
	several, fresh := p.Count("flows") > 1, p["flow"] == "fresh"
	switch {
	case many && paced:
		return fmt.Errorf("in-flight=%s has no effect at a rate (valid: rate=closed)", p["in-flight"])
	case compact(p) && (many || paced || stamped):
		return fmt.Errorf("datagrams of %d bytes have no room for a header of %d, without which there is one in flight, no "+
			"rate and no timestamps", shortest(p), traffic.HeaderSize)
	case several && fresh:
		return fmt.Errorf("flows=%s conflicts with fresh flows, which use one flow per trial", p["flows"])
	case stamped && (many || paced || several || fresh):
		return errors.New("timestamps need one request in flight, one kept flow and no rate")
	case stamped && shortest(p) < traffic.StampsSize:
		return fmt.Errorf("datagrams of %d bytes are too small for timestamps (valid: at least %d)", shortest(p),
			traffic.StampsSize)
	}
	return workload.Unscheduled(p)
}

// primary returns the metric that governs stopping. With many requests in flight, latency would measure their queue.
func primary(p part.Params) string {
	if p.Count("in-flight") > 1 {
		return "transaction_rate"
	}
	return "latency_p50"
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	p := s.Params
	flows, fresh := p.Count("flows"), p["flow"] == "fresh"
	switch s.Side {
	case workload.Source:
		return openSource(s, flows, fresh)
	case workload.Sink:
		return openSink(s, flows > 1 || fresh)
	}
	return nil, fmt.Errorf("open udp-rr: side %q (valid: source or sink)", s.Side)
}

// open opens one socket. Without a remote, it is not connected.
func open(s workload.Spec, local, remote netip.AddrPort) (sock.Socket, error) {
	sk, err := sock.UDP(local, remote)
	if err != nil {
		return sk, err
	}
	err = errors.Join(sk.Set(s.SocketOptions()), sk.SetTimeout(traffic.Patience))
	if err == nil && s.Params["timestamps"] == "software" {
		err = sk.SetStamps()
	}
	if err != nil {
		sk.Close()
	}
	return sk, err
}

func openSource(s workload.Spec, flows int, fresh bool) (traffic.Endpoint, error) {
	p := s.Params
	if fresh {
		flows = min(freshPorts, s.LocalPorts)
	} else if flows > s.LocalPorts {
		return nil, fmt.Errorf("open udp-rr: %d flows, but only %d ports from %s on", flows, s.LocalPorts, s.Local)
	}
	schedule, err := s.Schedule(p.Size("payload"), traffic.HeaderSize, largest)
	if err != nil {
		return nil, err
	}
	e := &source{Exchange: traffic.Exchange{
		Fresh: fresh, Out: traffic.Payload(p.Size("payload")), In: make([]byte, largest),
		Spin: p["mode"] == "spin", Compact: compact(p), Stamped: p["timestamps"] == "software",
		InFlight: p.Count("in-flight"), Schedule: schedule,
	}}
	if workload.Varied(p) {
		e.Out = traffic.Payload(largest)
	}
	for i := range flows {
		sk, err := open(s, netip.AddrPortFrom(s.Local.Addr(), s.Local.Port()+uint16(i)), s.Remote)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.Flows = append(e.Flows, sk)
	}
	if err := e.Init(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func openSink(s workload.Spec, anyone bool) (traffic.Endpoint, error) {
	remote := s.Remote
	if anyone {
		remote = netip.AddrPort{}
	}
	sk, err := open(s, s.Local, remote)
	if err != nil {
		return nil, err
	}
	in := traffic.Buffer(largest)
	copy(in, traffic.Payload(answer(s.Params))) // the part of a longer answer after the request
	spin := s.Params["mode"] == "spin"
	return &sink{
		sock: sk, in: in, answer: answer(s.Params), anyone: anyone, spin: spin,
		alone: spin && s.Params.Count("in-flight") == 1 && !workload.Scheduled(s.Params), compact: compact(s.Params),
		stamps: s.Params["timestamps"] == "software", stall: s.Stall, plant: traffic.NewDelay(s.Plant),
	}, nil
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutExchange(&r, t.Params.Rate("rate"))
	return r
}

// Carried implements [workload.Carrier]. A request and its answer are a datagram each.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	return t.Sources[i].Received, t.Sources[i].Received
}

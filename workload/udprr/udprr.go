package udprr

import (
	"errors"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is udp-rr.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	largest = 65507 // bytes: an IPv4 datagram of 65535 less its headers (RFC 791, RFC 768)
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:       "udp-rr",
		Summary:    "one UDP request in flight, round trips timed one by one (sockperf ping-pong, netperf UDP_RR)",
		Reproduces: "latency and packets per second of SeCoNetBench, which are one measurement (docs/method.md); sockperf ping-pong; netperf UDP_RR",
		Primary:    func(part.Params) string { return "latency_p50" },
		Why:        "waiting, the ratio of two paths has settled at 100 ms; spinning, at 10 ms",
		Warm:       0.1,
		Trial:      trial,
		Spins:      func(p part.Params) bool { return p["mode"] == "spin" },
		Params: append(part.List{
			{Name: "payload", Default: "64", Summary: "bytes of request and response, 24 to 65507", Check: part.SizeBetween(traffic.HeaderSize, largest)},
			{Name: "mode", Default: "wait", Summary: "wait: both ends sleep until a datagram comes; spin: both ends keep asking", Values: []string{"wait", "spin"}},
		}, workload.SocketParams()...),
	}
}

// trial is the default length of a trial; docs/method.md has the study behind it. Spinning, 10 ms would do; waiting, the ratio of two
// paths has settled at 100 ms.
func trial(p part.Params) time.Duration {
	if p["mode"] == "spin" {
		return 10 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	sk, err := sock.UDP(s.Local, s.Remote)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(sk.Set(s.SocketOptions()), sk.SetTimeout(patience)); err != nil {
		sk.Close()
		return nil, err
	}
	e := endpoint{
		sock: sk,
		out:  make([]byte, s.Params.Size("payload")),
		in:   make([]byte, largest),
	}
	spin := s.Params["mode"] == "spin"
	switch s.Side {
	case workload.Source:
		e.recorder = traffic.NewRecorder()
		return &source{endpoint: e, spin: spin}, nil
	case workload.Sink:
		return &sink{endpoint: e, spin: spin, plant: int64(s.Plant), clockCost: clockCost()}, nil
	}
	sk.Close()
	return nil, fmt.Errorf("open udp-rr: side %q (want source or sink)", s.Side)
}

// clockCost measures what one clock read takes, in nanoseconds.
func clockCost() int64 {
	const reads = 1000
	start := clock.Now()
	for range reads {
		clock.Now()
	}
	return (clock.Now() - start) / reads
}

// Metrics implements [workload.Workload]. A transaction is two packets, one each way.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	window := t.Window.Seconds()
	var sent, received, total int64
	rates := make([]float64, len(t.Sources))
	for i, s := range t.Sources {
		sent += s.Sent
		received += s.Received
		total += s.Total
		rates[i] = float64(s.Received) / window
	}
	r.Metrics["transaction_rate"] = float64(received) / window
	if len(t.Sources) > 1 {
		r.Metrics["transaction_rate_per_pair"] = float64(received) / window / float64(len(t.Sources))
		r.PerPair["transaction_rate"] = rates
	}
	if sent > 0 {
		r.Metrics["loss"] = float64(sent-received) / float64(sent)
	}
	if received < sent {
		r.Warnings = append(r.Warnings, "requests or responses were lost")
	}
	seconds := t.PutCPU(r.Metrics)
	if total > 0 {
		r.Metrics["cpu_per_packet"] = seconds / float64(2*total)
	}
	var planted, answered int64
	for _, s := range t.Sinks {
		planted += s.Planted
		answered += s.Total
	}
	if planted > 0 {
		r.Metrics["planted"] = float64(planted) / float64(answered) / 1e9
	}
	t.PutDurations(r.Metrics)
	return r
}

package udprate

import (
	"errors"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is udp-rate.
type Workload struct{}

var _ workload.Workload = Workload{}

// fullRate is as fast as the source can.
const fullRate = "max"

const largest = 65507 // bytes: an IPv4 datagram of 65535 less its headers (RFC 791, RFC 768)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:       "udp-rate",
		Summary:    "UDP datagrams as fast as the source can send, or at a rate, counted at the sink (sockperf throughput, iperf3 -u -b 0)",
		Reproduces: "sockperf throughput, netperf UDP_STREAM, iperf3 -u",
		Primary:    func(part.Params) string { return "packet_rate" },
		Why:        "the ratio of two paths has settled at 100 ms",
		Warm:       0.1,
		Trial:      trial,
		Spins:      func(part.Params) bool { return false }, // the source never waits, but the sink does
		Params: append(part.List{
			{Name: "payload", Default: "64", Summary: "bytes of a datagram, 24 to 65507", Check: part.SizeBetween(traffic.HeaderSize, largest)},
			{Name: "mode", Default: "single", Summary: "single: one datagram per system call", Values: []string{"single"}},
			{Name: "rate", Default: fullRate, Summary: "datagrams that a pair sends: max, or so many a second, such as 10k/s", Check: part.RateOr(fullRate), Quiet: true},
		}, workload.SocketParams()...),
	}
}

// trial is the default length of a trial; docs/method.md has the study behind it. A slow source needs time for its datagrams to be counted.
func trial(p part.Params) time.Duration {
	const shortest, datagrams, longest = 100 * time.Millisecond, 1000, 10 * time.Second
	if rate := p.Rate("rate"); rate > 0 {
		return min(max(shortest, time.Duration(datagrams/rate*1e9)), longest)
	}
	return shortest
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
	e := endpoint{sock: sk, buf: make([]byte, s.Params.Size("payload"))}
	switch s.Side {
	case workload.Source:
		return &source{endpoint: e, rate: s.Params.Rate("rate")}, nil
	case workload.Sink:
		return &sink{endpoint: e}, nil
	}
	sk.Close()
	return nil, fmt.Errorf("open udp-rate: side %q (want source or sink)", s.Side)
}

// Shares of loss above which a trial carries a warning. What is below them all is less than what the edges of a window are known to.
const (
	lossSome = 0.001
	lossMuch = 0.1

	// behind is by what share a paced source may send less than it should.
	behind = 0.01
)

// Metrics implements [workload.Workload]. What was sent is the sources' count, what was received the sinks'.
//
// There is no service demand: it would be cpu_per_packet divided by the payload, which is the same for all cells that are compared.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	window := t.Window.Seconds()
	pairs := float64(len(t.Sinks))
	var sent, received, repeated, reordered, total int64
	sentRates, rates := make([]float64, len(t.Sources)), make([]float64, len(t.Sinks))
	for i, s := range t.Sources {
		sent += s.Sent
		sentRates[i] = float64(s.Sent) / window
	}
	for i, s := range t.Sinks {
		received += s.Received
		repeated += s.Repeated
		reordered += s.Reordered
		total += s.Total
		rates[i] = float64(s.Received) / window
	}
	r.Metrics["packet_rate"] = float64(received) / window
	r.Metrics["packet_rate_sent"] = float64(sent) / window
	r.Metrics["goodput"] = 8 * float64(t.Params.Size("payload")) * float64(received) / window
	if pairs > 1 {
		for _, name := range []string{"packet_rate", "packet_rate_sent", "goodput"} {
			r.Metrics[name+"_per_pair"] = r.Metrics[name] / pairs
		}
		r.PerPair["packet_rate"], r.PerPair["packet_rate_sent"] = rates, sentRates
	}
	if sent > 0 {
		loss := float64(sent-received) / float64(sent)
		r.Metrics["loss"] = loss
		switch {
		case loss > lossMuch:
			r.Warnings = append(r.Warnings, fmt.Sprintf("more than %g %% of the datagrams were lost", 100*lossMuch))
		case loss > lossSome:
			r.Warnings = append(r.Warnings, fmt.Sprintf("more than %g %% of the datagrams were lost", 100*lossSome))
		}
	}
	if asked := pairs * t.Params.Rate("rate"); asked > 0 && float64(sent) < (1-behind)*asked*window {
		r.Warnings = append(r.Warnings, "the source fell behind the rate that it was to send at")
	}
	if received > 0 {
		r.Metrics["duplicates"] = float64(repeated) / float64(received)
		r.Metrics["reordering"] = float64(reordered) / float64(received)
	}
	if seconds := t.PutCPU(r.Metrics); total > 0 {
		r.Metrics["cpu_per_packet"] = seconds / float64(total)
	}
	return r
}

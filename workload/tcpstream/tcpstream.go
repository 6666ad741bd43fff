package tcpstream

import (
	"fmt"
	"time"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Workload is tcp-stream.
type Workload struct{}

var _ workload.Workload = Workload{}

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name:       "tcp-stream",
		Summary:    "one TCP connection per pair, as many bytes as it carries, counted at the sink (iperf3, netperf TCP_STREAM)",
		Reproduces: "iperf3, netperf TCP_STREAM, nuttcp",
		Primary:    func(part.Params) string { return "goodput" },
		Why:        "the ratio has settled long before, but the twins' interval is smallest at 200 ms",
		Trial:      trial,
		Spins:      func(part.Params) bool { return false },
		Params: append(part.List{
			{Name: "message", Default: "131072", Summary: "bytes of each write, 1 to 1MiB", Check: part.SizeBetween(1, 1<<20)},
		}, workload.StreamParams()...),
	}
}

// trial is the default length of a trial; docs/method.md has the study behind it: the ratio has settled long before, but the twins'
// interval is smallest here.
func trial(part.Params) time.Duration { return 200 * time.Millisecond }

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	home, err := netns.Current()
	if err != nil {
		return nil, err
	}
	e := endpoint{spec: s, home: home, conn: sock.Socket{FD: -1}}
	switch s.Side {
	case workload.Source:
		src := &source{endpoint: e, message: make([]byte, s.Params.Size("message"))}
		if err := src.connect(); err != nil {
			return nil, err
		}
		return src, nil
	case workload.Sink:
		listener, err := sock.Stream(s.Local, s.Congestion)
		if err != nil {
			return nil, err
		}
		if err := listener.Listen(); err != nil {
			listener.Close()
			return nil, err
		}
		snk := &sink{endpoint: e, listener: listener, message: s.Params.Size("message"), buf: make([]byte, readSize)}
		snk.sample.Delivered = make([]int64, traffic.Slices+1)
		return snk, nil
	}
	return nil, fmt.Errorf("open tcp-stream: side %q (want source or sink)", s.Side)
}

// Metrics implements [workload.Workload]. The window opens where the rate of all pairs together is steady.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	sum := make([]float64, traffic.Slices+1)
	var bytes, resent int64
	for _, s := range t.Sinks {
		for i, b := range s.Delivered {
			sum[i] += float64(b)
		}
		bytes += s.Bytes
	}
	for _, s := range t.Sources {
		resent += s.Resent
	}
	open, ok := measure.Steady(sum)
	if !ok {
		r.Warnings = append(r.Warnings, "the delivery rate did not become steady")
	}
	window := t.Length.Seconds() * float64(traffic.Slices-open) / traffic.Slices
	r.Window = time.Duration(window * float64(time.Second))
	r.Metrics["goodput"] = 8 * (sum[traffic.Slices] - sum[open]) / window
	if len(t.Sinks) > 1 {
		r.Metrics["goodput_per_pair"] = r.Metrics["goodput"] / float64(len(t.Sinks))
		rates := make([]float64, len(t.Sinks))
		for i, s := range t.Sinks {
			rates[i] = 8 * float64(s.Delivered[traffic.Slices]-s.Delivered[open]) / window
		}
		r.PerPair["goodput"] = rates
	}
	seconds := t.PutCPU(r.Metrics)
	if bytes > 0 {
		r.Metrics["service_demand"] = seconds / float64(bytes)
	}
	r.Metrics["retransmits"] = float64(resent)
	return r
}

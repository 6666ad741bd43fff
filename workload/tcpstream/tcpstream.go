package tcpstream

import (
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/lasting"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload tcp-stream.
type Workload struct{}

var _ workload.Workload = Workload{}

// Directions.
const (
	forward = "forward"
	reverse = "reverse"
	both    = "both"
)

const (
	longest   = 1 << 20 // bytes of a message; iperf3 writes no more at once (MAX_BLOCKSIZE, src/iperf.h)
	mostFlows = 64
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name: "tcp-stream",
		Summary: "TCP connections that carry as many bytes as possible, counted by the reader (iperf3, netperf TCP_STREAM, " +
			"nuttcp)",
		Reproduces: "Throughput Basic of SeCoNetBench with message 64, 653 and 1370, if that was TCP, which the paper does " +
			"not say (figure 4b; its figure 7b, across hosts through tunnels, is in no suite yet); goodput with the " +
			"CPU of both ends as nuttcp prints it; " +
			"netperf TCP_STREAM and TCP_MAERTS with CPU and service demand; iperf3, with --reverse and --bidir as directions " +
			"and --parallel as flows",
		Near:    near,
		Primary: func(part.Params) string { return "goodput" },
		Why:     "the ratio of two paths does not change with the length from 40 ms on, and more trials are more precise",
		Trial:   trial,
		Spins:   func(part.Params) bool { return false },
		Params: append(part.List{
			{Name: "message", Default: "131072", Summary: "bytes of each write, 1 to 1MiB", Check: part.SizeBetween(1, longest)},
			{
				Name: "direction", Default: forward, Quiet: true, Values: []string{forward, reverse, both},
				Summary: "forward: sources write and sinks read; reverse: sinks write; both: each end does both on the same " +
					"connections, and goodput is the sum",
			},
			{
				Name: "flows", Default: "1", Quiet: true,
				Summary: "connections of a pair, 1 to 64; one thread at each end drives them all",
				Check:   part.CountBetween(1, mostFlows),
			},
			quiet(part.Switch("nodelay",
				"switch Nagle's algorithm off (TCP_NODELAY): small writes are not merged into full segments")),
			quiet(part.Switch("zerocopy", "send from the program's own memory (MSG_ZEROCOPY); between ends on one machine the "+
				"kernel copies anyway, and a warning says so")),
		}, workload.StreamParams()...),
		Declares: declared(),
		Metrics: slices.Concat(
			[]string{
				"goodput", "goodput_per_pair", "goodput_forward", "goodput_reverse", "service_demand", "retransmits",
				"tcp_rtt", "tcp_min_rtt", "tcp_cwnd", "tcp_bytes_per_ack",
			},
			workload.CPUMetrics(),
		),
	}
}

func quiet(p part.Param) part.Param {
	p.Quiet = true
	return p
}

// trial returns the default length of a trial; docs/method.md has the study behind it.
func trial(part.Params) time.Duration { return 40 * time.Millisecond }

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Side != workload.Source && s.Side != workload.Sink {
		return nil, fmt.Errorf("open tcp-stream: side %q (valid: source or sink)", s.Side)
	}
	held, err := lasting.New(s.Params.Count("flows"))
	if err != nil {
		return nil, err
	}
	e := newEndpoint(s, held)
	if s.Side == workload.Source {
		src := &source{endpoint: e}
		if err := src.connect(); err != nil {
			src.Close()
			return nil, err
		}
		return src, nil
	}
	snk := &sink{endpoint: e, listener: sock.Socket{FD: -1}}
	if snk.listener, err = snk.Listen(s.Local, snk.options()); err != nil {
		snk.Close()
		return nil, err
	}
	return snk, nil
}

// near lists the names for which this workload is the closest.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"iperf", "stream", "throughput", "bandwidth", "goodput"}, Why: "it measures goodput over TCP",
		},
	}
}

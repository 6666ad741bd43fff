package softirq

import (
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Put implements [probe.Probe]. It adds the time spent in softirqs of the network, as cores kept busy while traffic
// flowed, and per packet for the packets whose CPU time is known.
//
// Do not add this time to cpu_busy: most of it is already in the run time of the interrupted threads or of ksoftirqd,
// which also runs softirqs (docs/method.md, "CPU time").
func (Probe) Put(metrics map[string]float64, t workload.Trial, counted int64) {
	spent := float64(counted) / 1e9
	var span, seconds float64
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		for _, s := range side {
			span = max(span, float64(s.Span)/1e9)
			seconds += float64(s.CPU) / 1e9
		}
	}
	seconds += t.Softirqd.Seconds() // as in [workload.Trial.PutCPU]
	if span > 0 {
		metrics[inAll] = spent / span
	}
	if each := metrics["cpu_per_packet"]; each > 0 && seconds > 0 {
		metrics[perPacket] = spent * each / seconds
	}
}

package quake3

import (
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

func metricNames() []string {
	return append(workload.MessageMetrics(), "goodput_forward", "goodput_reverse")
}

// Metrics implements [workload.Workload]. Both directions count together, including their one-way latencies. The
// exceptions are goodput_forward, which is that of the players, and goodput_reverse, that of the server if there is
// one.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutMessages(&r)
	for name, side := range map[string][]traffic.Sample{"goodput_forward": t.Sinks, "goodput_reverse": t.Sources} {
		if name == "goodput_reverse" && t.Params["server"] == "false" {
			continue
		}
		bytes := int64(0)
		for _, s := range side {
			bytes += s.Bytes
		}
		r.Metrics[name] = 8 * float64(bytes) / t.Window.Seconds()
	}
	return r
}

package traffic

import "github.com/nettoll/nettoll/measure"

// Metrics of trials whose machines are read ([Timing.Metered]).
const (
	CPUNodes        = "cpu_nodes"
	CPUNodesSoftirq = "cpu_nodes_softirq"
	SoftirqRate     = "softirq_rate"
)

// Metrics declares what the turn measures in every trial.
func Metrics() []measure.Metric {
	return []measure.Metric{
		{
			Name: CPUNodes, Unit: measure.UnitCores, Better: measure.LowerBetter, Kind: measure.KindCPU, Order: 602,
			Label:   "CPU of nodes",
			Summary: "cores that were busy on the nodes of the lab, whatever for; only with a monitor on them",
		},
		{
			Name: CPUNodesSoftirq, Unit: measure.UnitCores, Better: measure.LowerBetter, Kind: measure.KindCount, Order: 604,
			Label:   "softirqs of nodes",
			Summary: "part of cpu_nodes: interrupts and softirqs, as the kernel accounts for them",
		},
		{
			Name: SoftirqRate, Unit: measure.UnitSoftirq, Better: measure.Neither, Kind: measure.KindRate, Order: 606,
			Label:   "softirqs",
			Summary: "softirqs of the network that the nodes of the lab ran, sending and receiving; only with a monitor on them",
		},
		{
			Name: "dead_time", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 890,
			Tool: true, Summary: "time from the end of the previous trial to the opening",
		},
		{
			Name: "drain_time", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 900,
			Tool: true, Summary: "time from the close until the last thread has left",
		},
		{
			Name: "late_time", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 901,
			Tool: true, Summary: "time from the opening until the last thread began; on other machines only",
		},
		{
			Name: "clock_skew", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 902,
			Tool: true, Summary: "time by which the windows of two workers may have been apart; on other machines only",
		},
		{
			Name: "clock_offset", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 903,
			Tool: true, Summary: "time by which the clocks of two workers are apart, with clock_skew as its error; on other " +
				"machines only",
		},
		{
			Name: measure.WaitMetric, Unit: measure.UnitShare, Better: measure.LowerBetter, Kind: measure.KindShare, Order: 905,
			Tool: true, Label: "CPU wait",
			Summary: "share of the trial for which a thread was ready to run while something else had its CPU: that of the " +
				"thread that waited longest",
		},
	}
}

package workload

import (
	"slices"
	"strconv"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
)

// Metrics declares the metrics that several workloads have, or that every lab or trial has. A [Description] declares
// the metrics of one workload alone.
func Metrics() []measure.Metric {
	return slices.Concat(rates(), shares(), durations(), cpu(), others())
}

// Vocabulary returns the metrics that trials of the workload may have: those that it declares and the shared ones. It
// is empty if they contradict each other, which the catalogue reports.
func (d Description) Vocabulary() measure.Vocabulary {
	v, err := measure.NewVocabulary(slices.Concat(Metrics(), d.Declares)...)
	if err != nil {
		return measure.Vocabulary{}
	}
	return v
}

func rates() []measure.Metric {
	rate := func(name, unit string, better measure.Better, order int, label, summary string) measure.Metric {
		return measure.Metric{
			Name: name, Unit: unit, Better: better, Kind: measure.KindRate, Order: order, Label: label, Summary: summary,
		}
	}
	const (
		higher  = measure.HigherBetter
		neither = measure.Neither
	)
	return []measure.Metric{
		rate("goodput", measure.UnitBit, higher, 10, "",
			"payload received inside the window per second, all pairs together"),
		rate("goodput_per_pair", measure.UnitBit, higher, 20, "", "goodput divided by the number of pairs"),
		rate("goodput_forward", measure.UnitBit, higher, 30, "",
			"goodput from sources to sinks, if traffic goes both ways"),
		rate("goodput_reverse", measure.UnitBit, higher, 40, "",
			"goodput from sinks to sources, if traffic goes both ways"),
		rate("packet_rate", measure.UnitPacket, higher, 50, "", "packets received inside the window per second"),
		rate("packet_rate_per_pair", measure.UnitPacket, higher, 60, "", "packet_rate divided by the number of pairs"),
		rate("packet_rate_sent", measure.UnitPacket, neither, 70, "packets sent",
			"packets sent inside the window per second"),
		rate("packet_rate_sent_per_pair", measure.UnitPacket, neither, 80, "packets sent per pair",
			"packet_rate_sent divided by the number of pairs"),
		rate("transaction_rate", measure.UnitTransaction, higher, 110, "transactions",
			"requests answered per second"),
		rate("transaction_rate_per_pair", measure.UnitTransaction, higher, 120, "transactions per pair",
			"transaction_rate divided by the number of pairs"),
		rate("connection_rate", measure.UnitConnection, higher, 130, "connections",
			"connections opened, used for one transaction and closed, per second"),
		rate("connection_rate_per_pair", measure.UnitConnection, higher, 140, "connections per pair",
			"connection_rate divided by the number of pairs"),
	}
}

func shares() []measure.Metric {
	share := func(name string, order int, summary string) measure.Metric {
		return measure.Metric{
			Name: name, Unit: measure.UnitShare, Better: measure.LowerBetter, Kind: measure.KindShare, Order: order,
			Summary: summary,
		}
	}
	return []measure.Metric{
		share("loss", 160, "share of the packets sent inside the window that never arrived; on a stream, those that "+
			"arrived after the drain"),
		share("duplicates", 170, "share of received packets that are further copies"),
		share("reordering", 180, "share of received packets that arrived after a later one (RFC 4737, section 4.2)"),
		share("errors", 710, "share of answers that report a failure"),
	}
}

// durations returns the metrics of every quantity that a recorder can hold.
func durations() []measure.Metric {
	var list []measure.Metric
	order := 190
	of := func(q traffic.Quantity, whole bool, summary string) {
		add := func(suffix string, kind measure.Kind, quantile float64, what string) {
			list = append(list, measure.Metric{
				Name: q.Name() + "_" + suffix, Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: kind,
				Quantile: quantile,
				Merged:   kind == measure.KindQuantile || kind == measure.KindMean && !whole, Order: order, Summary: what + ": " +
					summary, Tool: q == traffic.Departure,
			})
			order += 10
		}
		add("mean", measure.KindMean, 0, "mean")
		digits := []string{"50", "99"}
		if whole {
			digits = []string{"50", "75", "90", "95", "99", "999"}
		}
		for _, d := range digits {
			share, _ := strconv.ParseFloat("0."+d, 64)
			add("p"+d, measure.KindQuantile, share, "percentile "+strconv.FormatFloat(100*share, 'g', 4, 64))
		}
		if whole {
			add("max", measure.KindMax, 0, "longest")
		}
	}
	of(traffic.Latency, true, "time from when a message was due, or sent if there is no schedule, to its answer")
	of(traffic.OneWay, true, "time from when a message was due until the sink's application received it")
	of(traffic.Service, false, "time from when a message was sent to its answer")
	of(traffic.Departure, false, "time from when a message was due until it was handed to the kernel")
	of(traffic.Connect, false, "time to establish a connection")
	of(traffic.SenderStack, false, "time from the system call to the driver of the sending device")
	of(traffic.Wire, false, "time between the driver of one side and the kernel of the other")
	of(traffic.ReceiverStack, false, "time from the arrival in the kernel to the return of the system call")
	return list
}

// IdleCPU is the metric of the CPU time that the programs of a lab use without traffic. Each lab with programs has it
// once.
const IdleCPU = "cpu_programs_idle"

func cpu() []measure.Metric {
	list := []measure.Metric{
		{
			Name: "cpu_busy", Label: "CPU", Order: 530,
			Summary: "cores kept busy by sources, sinks, ksoftirqd and programs that carry packets",
		},
		{Name: "cpu_source", Order: 540, Summary: "part of cpu_busy: the sources' threads"},
		{Name: "cpu_sink", Order: 550, Summary: "part of cpu_busy: the sinks' threads"},
		{
			Name: "cpu_programs", Order: 560,
			Summary: "part of cpu_busy: programs of the hosts that carry packets, such as a switch in user space",
		},
		{
			Name: "cpu_user", Better: measure.Neither, Kind: measure.KindCount, Order: 570,
			Summary: "part of cpu_busy: outside the kernel, the generator's own work; it may be 0",
		},
		{
			Name: "cpu_system", Kind: measure.KindCount, Order: 580,
			Summary: "part of cpu_busy: in the kernel, for sources and sinks; cpu_busy without cpu_user, and as noisy",
		},
		{
			Name: "cpu_softirqd", Kind: measure.KindCount, Order: 590,
			Summary: "part of cpu_busy: ksoftirqd of the CPUs that sources and sinks run on; nearly always 0",
		},
		{
			Name: "cpu_per_packet", Unit: measure.UnitSecondsPacket, Order: 610,
			Summary: "CPU time of cpu_busy per packet",
		},
		{
			Name: "cpu_per_transaction", Unit: measure.UnitSecondsTransaction, Order: 630,
			Summary: "CPU time of cpu_busy per transaction or, if each has its own, per connection",
		},
		{
			Name: "service_demand", Unit: measure.UnitSecondsByte, Label: "CPU per kB", Order: 640,
			Summary: "CPU time of cpu_busy per byte",
		},
	}
	for i := range list {
		m := &list[i]
		if m.Unit == "" {
			m.Unit = measure.UnitCores
		}
		if m.Better == "" {
			m.Better = measure.LowerBetter
		}
		if m.Kind == "" {
			m.Kind = measure.KindCPU
		}
	}
	return list
}

func others() []measure.Metric {
	return []measure.Metric{
		{
			Name: "jitter", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime, Order: 660,
			Summary: "mean difference of the one-way times of two consecutive messages (RFC 3550, section 6.4.1: D)",
		},
		{
			Name: "oneway_latency_iqr", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
			Label: "one-way p75 − p25", Order: 665,
			Summary: "interquartile range of the one-way times of a trial, percentile 75 less 25: the box of a box plot",
		},
		{
			Name: "setup_time", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime, Label: "set-up",
			Order:   720,
			Summary: "time to build a lab, or to establish all connections of a pair",
		},
		{
			Name: IdleCPU, Unit: measure.UnitCores, Better: measure.LowerBetter, Kind: measure.KindCPU,
			Label: "programs idle", Order: 725,
			Summary: "cores that the programs of a lab's hosts keep busy after set-up, before there is traffic",
			Note:    "“programs idle” is the CPU time that programs of the hosts take before there is traffic.",
		},
		{
			Name: "first_packet_latency", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
			Label: "first packet", Order: 820, Summary: "latency of the first packet of a flow",
			Note: "“first packet” is the round trip of an echo for which the switch has no flow yet.",
		},
		{
			Name: "backlog", Unit: measure.UnitMessage, Better: measure.Neither, Kind: measure.KindCount, Order: 830,
			Tool: true, Summary: "largest number of messages of a pair that were due but not sent",
		},
		{
			Name: "retransmits", Unit: measure.UnitSegment, Better: measure.LowerBetter, Kind: measure.KindCount, Order: 870,
			Summary: "TCP segments that were retransmitted",
		},
		{
			Name: "planted", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 910,
			Tool: true, Summary: "per request, spun on purpose (nettoll study effect)",
		},
	}
}

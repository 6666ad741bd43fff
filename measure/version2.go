package measure

import "strconv"

// Version2 returns the metrics of runs whose run.json declares none: those of records of version 1 and of early records
// of version 2. The table is frozen: a part that adds a metric declares it itself.
func Version2() Vocabulary {
	list := []Metric{
		{Name: "goodput", Unit: UnitBit, Better: HigherBetter, Kind: KindRate},
		{Name: "goodput_per_pair", Unit: UnitBit, Better: HigherBetter, Kind: KindRate},
		{Name: "goodput_forward", Unit: UnitBit, Better: HigherBetter, Kind: KindRate},
		{Name: "goodput_reverse", Unit: UnitBit, Better: HigherBetter, Kind: KindRate},
		{Name: "packet_rate", Unit: UnitPacket, Better: HigherBetter, Kind: KindRate},
		{Name: "packet_rate_per_pair", Unit: UnitPacket, Better: HigherBetter, Kind: KindRate},
		{Name: "packet_rate_sent", Unit: UnitPacket, Better: Neither, Kind: KindRate, Label: "packets sent"},
		{
			Name: "packet_rate_sent_per_pair", Unit: UnitPacket, Better: Neither, Kind: KindRate,
			Label: "packets sent per pair",
		},
		{Name: "packet_rate_offered", Unit: UnitPacket, Better: Neither, Kind: KindRate, Tool: true},
		{Name: "capacity", Unit: UnitPacket, Better: HigherBetter, Kind: KindRate},
		{Name: "transaction_rate", Unit: UnitTransaction, Better: HigherBetter, Kind: KindRate, Label: "transactions"},
		{
			Name: "transaction_rate_per_pair", Unit: UnitTransaction, Better: HigherBetter, Kind: KindRate,
			Label: "transactions per pair",
		},
		{Name: "connection_rate", Unit: UnitConnection, Better: HigherBetter, Kind: KindRate, Label: "connections"},
		{
			Name: "connection_rate_per_pair", Unit: UnitConnection, Better: HigherBetter, Kind: KindRate,
			Label: "connections per pair",
		},
		{Name: "no_drop_rate", Unit: UnitPacket, Better: HigherBetter, Kind: KindRate},
		{Name: "loss", Unit: UnitShare, Better: LowerBetter, Kind: KindShare},
		{Name: "duplicates", Unit: UnitShare, Better: LowerBetter, Kind: KindShare},
		{Name: "reordering", Unit: UnitShare, Better: LowerBetter, Kind: KindShare},
	}
	durations := func(prefix string, whole bool) {
		add := func(name string, k Kind, q float64) {
			list = append(list, Metric{
				Name: prefix + name, Unit: UnitSecond, Better: LowerBetter, Kind: k, Quantile: q,
				Merged: k == KindQuantile || k == KindMean && !whole, Tool: prefix == "departure_error_",
			})
		}
		add("mean", KindMean, 0)
		quantiles := []string{"50", "99"}
		if whole {
			quantiles = []string{"50", "75", "90", "95", "99", "999"}
		}
		for _, q := range quantiles {
			x, _ := strconv.ParseFloat("0."+q, 64)
			add("p"+q, KindQuantile, x)
		}
		if whole {
			add("max", KindMax, 0)
		}
	}
	for _, prefix := range []string{"latency_", "oneway_latency_"} {
		durations(prefix, true)
	}
	for _, prefix := range []string{
		"service_time_", "departure_error_", "connect_latency_", "sender_stack_", "wire_", "receiver_stack_",
	} {
		durations(prefix, false)
	}
	list = append(list, []Metric{
		{Name: "cpu_busy", Unit: UnitCores, Better: LowerBetter, Kind: KindCPU, Label: "CPU"},
		{Name: "cpu_source", Unit: UnitCores, Better: LowerBetter, Kind: KindCPU},
		{Name: "cpu_sink", Unit: UnitCores, Better: LowerBetter, Kind: KindCPU},
		{Name: "cpu_programs", Unit: UnitCores, Better: LowerBetter, Kind: KindCPU},
		{Name: "cpu_user", Unit: UnitCores, Better: Neither, Kind: KindCount},
		{Name: "cpu_system", Unit: UnitCores, Better: LowerBetter, Kind: KindCount},
		{Name: "cpu_softirqd", Unit: UnitCores, Better: LowerBetter, Kind: KindCount},
		{Name: "cpu_softirq", Unit: UnitCores, Better: LowerBetter, Kind: KindCPU},
		{Name: "cpu_per_packet", Unit: UnitSecondsPacket, Better: LowerBetter, Kind: KindCPU},
		{Name: "softirq_per_packet", Unit: UnitSecondsPacket, Better: LowerBetter, Kind: KindCPU},
		{Name: "cpu_per_transaction", Unit: UnitSecondsTransaction, Better: LowerBetter, Kind: KindCPU},
		{Name: "service_demand", Unit: UnitSecondsByte, Better: LowerBetter, Kind: KindCPU, Label: "CPU per kB"},
		{Name: "memory", Unit: UnitByte, Better: LowerBetter, Kind: KindMemory},
		{Name: "jitter", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime},
		{Name: "startup_delay", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "start-up delay"},
		{Name: "stalls", Unit: UnitStall, Better: LowerBetter, Kind: KindCount},
		{Name: "stall_share", Unit: UnitShare, Better: LowerBetter, Kind: KindShare, Label: "stood still"},
		{Name: "connections", Unit: UnitOpen, Better: Neither, Kind: KindCount},
		{Name: "errors", Unit: UnitShare, Better: LowerBetter, Kind: KindShare},
		{Name: "setup_time", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "set-up"},
		{Name: "rules_load_time", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "load rules"},
		{Name: "rules_memory", Unit: UnitByte, Better: LowerBetter, Kind: KindMemory},
		{Name: "rule_update_time", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "add one"},
		{Name: "rule_effect_time", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "takes effect"},
		{Name: "plug_time", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "plug in"},
		{Name: "entries_load_time", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "load entries"},
		{Name: "entries_memory", Unit: UnitByte, Better: LowerBetter, Kind: KindMemory},
		{Name: "memory_per_entry", Unit: UnitByte, Better: LowerBetter, Kind: KindMemory, Label: "per entry"},
		{Name: "translation_rate", Unit: UnitConnection, Better: HigherBetter, Kind: KindRate, Label: "translations"},
		{Name: "first_packet_latency", Unit: UnitSecond, Better: LowerBetter, Kind: KindTime, Label: "first packet"},
		{Name: "backlog", Unit: UnitMessage, Better: Neither, Kind: KindCount, Tool: true},
		{Name: "tcp_rtt", Unit: UnitSecond, Better: Neither, Kind: KindTime, Label: "TCP round trip"},
		{Name: "tcp_min_rtt", Unit: UnitSecond, Better: Neither, Kind: KindTime, Label: "TCP shortest round trip"},
		{Name: "tcp_cwnd", Unit: UnitSegment, Better: Neither, Kind: KindCount, Label: "TCP window"},
		{Name: "retransmits", Unit: UnitSegment, Better: LowerBetter, Kind: KindCount},
		{Name: "ports_busy", Unit: UnitPort, Better: LowerBetter, Kind: KindCount},
		{Name: "dead_time", Unit: UnitSecond, Better: Neither, Kind: KindTime, Tool: true},
		{Name: "drain_time", Unit: UnitSecond, Better: Neither, Kind: KindTime, Tool: true},
		{Name: "planted", Unit: UnitSecond, Better: Neither, Kind: KindTime, Tool: true},
	}...)
	v := Vocabulary{list: list, at: make(map[string]int, len(list))}
	for i := range list {
		list[i].Order = 10 * (i + 1)
		v.at[list[i].Name] = i
	}
	return v
}

// version2Note returns the note of a metric in runs whose run.json has none. It is frozen like [Version2].
func version2Note(metric string) string {
	switch metric {
	case "rule_update_time":
		return "“add one” adds a rule to the loaded ones. “takes effect” ends with the first packet that the rule lets " +
			"through (one is sent every 50 µs to 1 ms). Both begin together, so a packet can pass before the change returns."
	case "translation_rate":
		return "“translations” is the rate at which one sender creates new entries, a packet each, besides the loaded ones."
	case "plug_time":
		return "“plug in” lasts from the start of moving the network card until packets can pass."
	case "first_packet_latency":
		return "“first packet” is the round trip of an echo for which the switch has no flow yet."
	case "rules_memory", "entries_memory":
		return "Memory is the kernel's own figure for sets (ipset), maps and programs (ebpf) and tables of ip_tables. " +
			"Otherwise it is estimated from system-wide growth: unreliable on a busy machine and below 100 kB."
	case "cpu_programs_idle":
		return "“programs idle” is the CPU time that programs of the hosts take before there is traffic."
	}
	return ""
}

// version2Probe returns the texts about the probe softirq for runs whose run.json has none. It is frozen like
// [Version2]. facts are those of the run; one of them says how the kernel counts softirq time.
func version2Probe(facts map[string]any) Probe {
	apart := "It is unknown whether this kernel counts it in the run time of the interrupted thread"
	switch yes, known := facts["irq_time_accounting"].(bool); {
	case known && yes:
		apart = "This kernel does not count it in the run time of threads, except ksoftirqd's: the rest is not part of " +
			"the CPU time above"
	case known:
		apart = "This kernel counts it in the run time of the thread that was interrupted: it is part of the CPU time above"
	}
	return Probe{
		Name: "softirq", Title: "Softirq time, in probed trials",
		Switches: "tracepoints switched on at the beginning and the end of each softirq",
		Meaning: "The tables show the time in network softirqs on the CPUs of sources and sinks, no matter which thread " +
			"they interrupted or whose packets they handled. " + apart,
		Metrics: []string{"cpu_softirq", "softirq_per_packet"}, Columns: []string{"CPU softirq", "per packet"},
	}
}

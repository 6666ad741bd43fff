package measure

import (
	"math"
	"strconv"
	"strings"
)

// Base units of records.
const (
	UnitSecond        = "s"
	UnitByte          = "byte"
	UnitBit           = "bit/s"
	UnitPacket        = "packet/s"
	UnitTransaction   = "transaction/s"
	UnitConnection    = "connection/s"
	UnitShare         = "1"
	UnitSegment       = "segment" // retransmits: a count, not a share
	UnitMessage       = "message" // likewise
	UnitStall         = "stall"   // likewise
	UnitOpen          = "connection"
	UnitCores         = "cores"
	UnitSecondsByte   = "s/byte"
	UnitSecondsPacket = "s/packet"
	UnitPort          = "port"

	UnitSecondsTransaction = "s/transaction"
)

// Better says which direction of a metric is the good one.
type Better string

// Directions.
const (
	HigherBetter Better = "higher"
	LowerBetter  Better = "lower"
	Neither      Better = "neither"
)

// Kind says how a metric is summarised and compared.
type Kind string

// Kinds. All but KindShare and KindCount are compared by ratio; those are often 0, where a ratio means nothing, and are
// compared by difference.
const (
	KindRate     Kind = "rate"
	KindQuantile Kind = "quantile" // of latency, from groups of blocks large enough for it
	KindMean     Kind = "mean"     // of latency
	KindMax      Kind = "max"      // of latency
	KindTime     Kind = "time"     // a duration measured once in a trial
	KindShare    Kind = "share"
	KindCount    Kind = "count"
	KindCPU      Kind = "cpu"
	KindMemory   Kind = "memory"
	KindUnknown  Kind = "unknown" // a metric of a newer nettoll: shown and compared by ratio, never praised
)

// Metric describes one metric name.
type Metric struct {
	Name     string
	Unit     string
	Better   Better
	Kind     Kind
	Quantile float64 // of KindQuantile: 0.5 for p50, 0.999 for p999
}

// Differs says whether cells are compared by difference in this metric instead of by ratio.
func (m Metric) Differs() bool { return m.Kind == KindShare || m.Kind == KindCount }

// Speed says whether the words faster and slower fit: rates and times, but not shares, CPU or memory.
func (m Metric) Speed() bool {
	switch m.Kind {
	case KindRate, KindQuantile, KindMean, KindMax, KindTime:
		return m.Better != Neither
	default:
		return false
	}
}

// Metrics lists every metric name, in the order in which reports show them.
func Metrics() []Metric {
	list := []Metric{
		{"goodput", UnitBit, HigherBetter, KindRate, 0},
		{"goodput_per_pair", UnitBit, HigherBetter, KindRate, 0},
		{"goodput_forward", UnitBit, HigherBetter, KindRate, 0}, // of goodput: from sources to sinks, where streams go both ways
		{"goodput_reverse", UnitBit, HigherBetter, KindRate, 0},
		{"packet_rate", UnitPacket, HigherBetter, KindRate, 0},
		{"packet_rate_per_pair", UnitPacket, HigherBetter, KindRate, 0},
		{"packet_rate_sent", UnitPacket, Neither, KindRate, 0},
		{"packet_rate_sent_per_pair", UnitPacket, Neither, KindRate, 0},
		{"packet_rate_offered", UnitPacket, Neither, KindRate, 0}, // what the sources were to send
		{"capacity", UnitPacket, HigherBetter, KindRate, 0},       // delivered under a flood: what a share of capacity is a share of
		{"transaction_rate", UnitTransaction, HigherBetter, KindRate, 0},
		{"transaction_rate_per_pair", UnitTransaction, HigherBetter, KindRate, 0},
		{"connection_rate", UnitConnection, HigherBetter, KindRate, 0},
		{"connection_rate_per_pair", UnitConnection, HigherBetter, KindRate, 0},
		{"no_drop_rate", UnitPacket, HigherBetter, KindRate, 0}, // highest rate with a loss below a bound (RFC 2544, section 26.1)
		{"loss", UnitShare, LowerBetter, KindShare, 0},          // on a stream, which loses none: what came after the drain
		{"duplicates", UnitShare, LowerBetter, KindShare, 0},    // further copies, of the packets received
		{"reordering", UnitShare, LowerBetter, KindShare, 0},    // packets that came after a later one, of the packets received (RFC 4737, section 4.2)
	}
	for _, prefix := range wholes() {
		list = append(list, Metric{prefix + "mean", UnitSecond, LowerBetter, KindMean, 0})
		for _, q := range []string{"50", "75", "90", "95", "99", "999"} {
			x, _ := strconv.ParseFloat("0."+q, 64)
			list = append(list, Metric{prefix + "p" + q, UnitSecond, LowerBetter, KindQuantile, x})
		}
		list = append(list, Metric{prefix + "max", UnitSecond, LowerBetter, KindMax, 0})
	}
	for _, prefix := range parts() {
		list = append(list,
			Metric{prefix + "mean", UnitSecond, LowerBetter, KindMean, 0},
			Metric{prefix + "p50", UnitSecond, LowerBetter, KindQuantile, 0.5},
			Metric{prefix + "p99", UnitSecond, LowerBetter, KindQuantile, 0.99})
	}
	return append(list,
		Metric{"cpu_busy", UnitCores, LowerBetter, KindCPU, 0},
		Metric{"cpu_source", UnitCores, LowerBetter, KindCPU, 0}, // of cpu_busy: the sources' threads
		Metric{"cpu_sink", UnitCores, LowerBetter, KindCPU, 0},
		Metric{"cpu_programs", UnitCores, LowerBetter, KindCPU, 0},   // of cpu_busy: programs of the hosts that carry packets, such as a switch in user space
		Metric{"cpu_user", UnitCores, Neither, KindCount, 0},         // of cpu_busy: outside the kernel, which is the generator's own work; may be 0
		Metric{"cpu_system", UnitCores, LowerBetter, KindCount, 0},   // of cpu_busy: in the kernel, for sources and sinks; what cpu_user leaves, and as noisy: means
		Metric{"cpu_softirqd", UnitCores, LowerBetter, KindCount, 0}, // nearly always 0: compared by difference; // ksoftirqd of the CPUs that sources and sinks run on
		Metric{"cpu_softirq", UnitCores, LowerBetter, KindCPU, 0},    // in soft interrupts of the network, whoever they interrupted: no part of cpu_busy; probed cells only
		Metric{"cpu_per_packet", UnitSecondsPacket, LowerBetter, KindCPU, 0},
		Metric{"softirq_per_packet", UnitSecondsPacket, LowerBetter, KindCPU, 0},       // probed cells only
		Metric{"cpu_per_transaction", UnitSecondsTransaction, LowerBetter, KindCPU, 0}, // or connection, where each has one
		Metric{"service_demand", UnitSecondsByte, LowerBetter, KindCPU, 0},
		Metric{"memory", UnitByte, LowerBetter, KindMemory, 0},
		Metric{"jitter", UnitSecond, LowerBetter, KindTime, 0},        // mean difference of two messages' one-way times, one after the other (RFC 3550, section 6.4.1: D)
		Metric{"startup_delay", UnitSecond, LowerBetter, KindTime, 0}, // from asking for a video to its first picture
		Metric{"stalls", UnitStall, LowerBetter, KindCount, 0},        // how many times a video stood still, of all videos of a trial
		Metric{"stall_share", UnitShare, LowerBetter, KindShare, 0},   // of the time in which videos played or stood still
		Metric{"connections", UnitOpen, Neither, KindCount, 0},        // that carried traffic at once
		Metric{"errors", UnitShare, LowerBetter, KindShare, 0},        // of the answers, those that say something failed
		Metric{"setup_time", UnitSecond, LowerBetter, KindTime, 0},
		// Of a lab: what its filter's rules cost to load and to change. Each is taken once a generation.
		Metric{"rules_load_time", UnitSecond, LowerBetter, KindTime, 0},
		// What the kernel itself says of the rules where it does: of maps and programs (ebpf), of sets (ipset), of a table of ip_tables (iptables, variant legacy). Elsewhere it is an estimate:
		// what the kernel, or the daemon of ovs, has in use more after loading them than before; slabs, vmalloc and per-CPU areas of the whole machine.
		Metric{"rules_memory", UnitByte, LowerBetter, KindMemory, 0},
		Metric{"rule_update_time", UnitSecond, LowerBetter, KindTime, 0}, // to add one among those that stand
		Metric{"rule_effect_time", UnitSecond, LowerBetter, KindTime, 0}, // from the beginning of that to the first packet that the rule lets through
		// Of a lab: how long it takes to plug a network card into a container, until packets can pass.
		Metric{"plug_time", UnitSecond, LowerBetter, KindTime, 0},
		// Of a lab: what the entries that fill its translation table cost to make, and how fast new ones can be made beside them.
		Metric{"entries_load_time", UnitSecond, LowerBetter, KindTime, 0},
		Metric{"entries_memory", UnitByte, LowerBetter, KindMemory, 0},        // as rules_memory
		Metric{"memory_per_entry", UnitByte, LowerBetter, KindMemory, 0},      // of entries_memory, where there are enough of them
		Metric{"translation_rate", UnitConnection, HigherBetter, KindRate, 0}, // new translations, one packet each, by one sender
		Metric{"first_packet_latency", UnitSecond, LowerBetter, KindTime, 0},
		Metric{"backlog", UnitMessage, Neither, KindCount, 0}, // most messages of a pair that were due and not sent
		Metric{"tcp_rtt", UnitSecond, Neither, KindTime, 0},   // smoothed, at the end of a trial (TCP_INFO)
		Metric{"tcp_min_rtt", UnitSecond, Neither, KindTime, 0},
		Metric{"tcp_cwnd", UnitSegment, Neither, KindCount, 0},
		Metric{"retransmits", UnitSegment, LowerBetter, KindCount, 0},
		Metric{"ports_busy", UnitPort, LowerBetter, KindCount, 0}, // that a connection was to be made from, and an earlier one still had
		// Of the measurement itself.
		Metric{"dead_time", UnitSecond, Neither, KindTime, 0},  // from the end of the trial before to the opening
		Metric{"drain_time", UnitSecond, Neither, KindTime, 0}, // from the close to the last thread's leaving
		Metric{"planted", UnitSecond, Neither, KindTime, 0},    // per request, spun on purpose (nettoll study effect)
	)
}

// wholes are what metrics of a whole latency begin with, and parts those of its parts and of what goes with it (traffic.Quantity).
func wholes() []string { return []string{"latency_", "oneway_latency_"} }

func parts() []string {
	return []string{"service_time_", "departure_error_", "connect_latency_", "sender_stack_", "wire_", "receiver_stack_"}
}

// LookupMetric returns the description of a metric. A quantile that is not in the list (latency_p9999) is described all the
// same; for any other unknown name ok is false and the description is of KindUnknown.
func LookupMetric(name string) (m Metric, ok bool) {
	for _, m := range Metrics() {
		if m.Name == name {
			return m, true
		}
	}
	for _, prefix := range append(wholes(), parts()...) {
		if d, found := strings.CutPrefix(name, prefix+"p"); found && strings.Trim(d, "0123456789") == "" {
			if q, err := strconv.ParseFloat("0."+d, 64); err == nil && q > 0 && q < 1 {
				return Metric{name, UnitSecond, LowerBetter, KindQuantile, q}, true
			}
		}
	}
	return Metric{Name: name, Better: Neither, Kind: KindUnknown}, false
}

// Format prints a value in a base unit for people: scaled once, three significant digits, a space before the unit.
//
//	Format(12.3e-6, "s") = "12.3 µs"; Format(3.41e10, "bit/s") = "34.1 Gbit/s"; Format(81234, "transaction/s") = "81.2 k/s";
//	Format(0.008, "1") = "0.8 %"; Format(81234, "packet/s") = "81.2 kpacket/s"
func Format(value float64, unit string) string {
	if !finite(value) {
		return "–"
	}
	switch unit {
	case UnitShare:
		return significant(value*100) + " %"
	case UnitCores, UnitSegment, UnitMessage, UnitPort, UnitStall, UnitOpen:
		return significant(value) + " " + unit
	case UnitTransaction, UnitConnection:
		unit = "/s"
	case "":
		return strings.TrimSuffix(scale(value), " ")
	case UnitSecond, UnitSecondsByte, UnitSecondsPacket, UnitSecondsTransaction:
		if math.Abs(value) >= 1 { // no ks
			return significant(value) + " " + unit
		}
	}
	return scale(value) + unit
}

// scale prints a value with an SI prefix: number, space, prefix.
func scale(x float64) string {
	prefixes := []string{"p", "n", "µ", "m", "", "k", "M", "G", "T", "P"}
	const one = 4 // index of the empty prefix
	if x == 0 {
		return "0 "
	}
	e := int(math.Floor(math.Log10(math.Abs(x)) / 3))
	e = min(max(e, -one), len(prefixes)-1-one)
	s := significant(x / math.Pow(1000, float64(e)))
	if (s == "1000" || s == "-1000") && e < len(prefixes)-1-one { // 999.96 rounded up
		e++
		s = strings.TrimSuffix(s, "000")
	}
	return s + " " + prefixes[e+one]
}

// significant prints three significant digits without an exponent and without trailing zeros after a point.
func significant(x float64) string {
	if x == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	s := strconv.FormatFloat(x, 'f', min(max(decimals, 0), 12), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

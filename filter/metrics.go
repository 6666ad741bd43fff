package filter

import "github.com/nettoll/nettoll/measure"

// Metrics declares what loading and changing rules costs, of every filter. Each is taken of a lab once a generation.
func Metrics() []measure.Metric {
	return []measure.Metric{
		{
			Name: "rules_load_time", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
			Label: "load rules", Order: 730,
			Summary: "time to load the rules of a lab",
		},
		{
			Name: "rules_memory", Unit: measure.UnitByte, Better: measure.LowerBetter, Kind: measure.KindMemory, Order: 740,
			Summary: "memory that the kernel reports for the rules, otherwise the growth of kernel memory, which is " +
				"machine-wide",
			Note: "Memory is the kernel's own figure for sets (ipset), maps and programs (ebpf) and tables of ip_tables. " +
				"Otherwise it is estimated from system-wide growth: unreliable on a busy machine and below 100 kB.",
		},
		{
			Name: UpdateTime, Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime, Label: "add one",
			Order:   750,
			Summary: "time to add one rule to the loaded rules",
			Note: "“add one” adds a rule to the loaded ones. “takes effect” ends with the first packet that the rule lets " +
				"through (one is sent every 50 µs to 1 ms). Both begin together, so a packet can pass before the change " +
				"returns.",
		},
		{
			Name: EffectTime, Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
			Label: "takes effect", Order: 760,
			Summary: "time from the beginning of a rule update to the first packet that the rule allows",
		},
	}
}

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
		},
		{
			Name: UpdateTime, Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime, Label: "add one",
			Order:   750,
			Summary: "time to add one rule to the loaded rules",
		},
		{
			Name: EffectTime, Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
			Label: "takes effect", Order: 760,
			Summary: "time from the beginning of a rule update to the first packet that the rule allows",
		},
	}
}

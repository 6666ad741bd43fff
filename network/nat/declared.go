package nat

import "github.com/nettoll/nettoll/measure"

// declared are the metrics of a lab that only translation has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "entries_load_time", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
			Label: "load entries", Order: 780,
			Summary: "time to create the entries that fill the translation table",
		},
		{
			Name: "entries_memory", Unit: measure.UnitByte, Better: measure.LowerBetter, Kind: measure.KindMemory, Order: 790,
			Summary: "memory of those entries, measured as rules_memory",
			Note:    "Memory of entries is estimated from system-wide growth: unreliable on a busy machine and below 100 kB.",
		},
		{
			Name: "memory_per_entry", Unit: measure.UnitByte, Better: measure.LowerBetter, Kind: measure.KindMemory,
			Label: "per entry", Order: 800,
			Summary: "memory of one entry: entries_memory per entry, if there are enough of them",
		},
		{
			Name: "translation_rate", Unit: measure.UnitConnection, Better: measure.HigherBetter, Kind: measure.KindRate,
			Label: "translations", Order: 810,
			Summary: "new translations per second: one packet each, from one sender",
			Note: "“translations” is the rate at which one sender creates new entries, a packet each, besides the loaded " +
				"ones.",
		},
	}
}

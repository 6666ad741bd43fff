package connections

import "github.com/nettoll/nettoll/measure"

// declared returns the metrics that only this workload has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "connections", Unit: measure.UnitOpen, Better: measure.Neither, Kind: measure.KindCount, Order: 700,
			Summary: "connections that carried traffic at the same time",
		},
	}
}

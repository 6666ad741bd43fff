package traffic

import "github.com/nettoll/nettoll/measure"

// Metrics declares what the turn measures in every trial.
func Metrics() []measure.Metric {
	return []measure.Metric{
		{
			Name: "dead_time", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 890,
			Summary: "time from the end of the previous trial to the opening",
		},
		{
			Name: "drain_time", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Order: 900,
			Summary: "time from the close until the last thread has left",
		},
	}
}

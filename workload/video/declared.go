package video

import "github.com/nettoll/nettoll/measure"

// declared returns the metrics that only this workload has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "startup_delay", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime,
			Label: "start-up delay", Order: 670,
			Summary: "time from requesting a video to its first picture",
		},
		{
			Name: "stalls", Unit: measure.UnitStall, Better: measure.LowerBetter, Kind: measure.KindCount, Order: 680,
			Summary: "number of stalls of all videos of a trial",
		},
		{
			Name: "stall_share", Unit: measure.UnitShare, Better: measure.LowerBetter, Kind: measure.KindShare,
			Label: "stood still", Order: 690,
			Summary: "share of the playing time in which videos were stalled",
		},
	}
}

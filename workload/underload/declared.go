package underload

import "github.com/nettoll/nettoll/measure"

// declared are the metrics that no other workload has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "packet_rate_offered", Unit: measure.UnitPacket, Better: measure.Neither, Kind: measure.KindRate, Order: 90,
			Summary: "what the sources were to send, a second",
		},
		{
			Name: "capacity", Unit: measure.UnitPacket, Better: measure.HigherBetter, Kind: measure.KindRate, Order: 100,
			Summary: "delivered under a flood: what a share of capacity is a share of",
		},
	}
}

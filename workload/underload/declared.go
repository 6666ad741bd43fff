package underload

import "github.com/nettoll/nettoll/measure"

// declared returns the metrics that only this workload has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "packet_rate_offered", Unit: measure.UnitPacket, Better: measure.Neither, Kind: measure.KindRate, Order: 90,
			Tool: true, Summary: "datagrams per second that the sources were to send",
		},
		{
			Name: "capacity", Unit: measure.UnitPacket, Better: measure.HigherBetter, Kind: measure.KindRate, Order: 100,
			Summary: "capacity of the path: datagrams per second delivered under a flood",
		},
	}
}

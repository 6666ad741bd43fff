package udprate

import "github.com/nettoll/nettoll/measure"

// declared returns the metrics that only this workload has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "no_drop_rate", Unit: measure.UnitPacket, Better: measure.HigherBetter, Kind: measure.KindRate, Order: 150,
			Summary: "highest rate with a loss below a bound (RFC 2544, section 26.1)",
		},
	}
}

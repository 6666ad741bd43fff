package tcpcrr

import "github.com/nettoll/nettoll/measure"

// declared returns the metrics that only this workload has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "ports_busy", Unit: measure.UnitPort, Better: measure.LowerBetter, Kind: measure.KindCount, Order: 880,
			Summary: "connection attempts from a port that an earlier connection still used",
		},
	}
}

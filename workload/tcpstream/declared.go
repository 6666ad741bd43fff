package tcpstream

import "github.com/nettoll/nettoll/measure"

// declared returns the metrics that only this workload has.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "tcp_rtt", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime, Label: "TCP round trip",
			Order:   840,
			Summary: "smoothed round trip at the end of a trial (TCP_INFO)",
		},
		{
			Name: "tcp_min_rtt", Unit: measure.UnitSecond, Better: measure.Neither, Kind: measure.KindTime,
			Label: "TCP shortest round trip", Order: 850,
			Summary: "shortest round trip of the last five minutes (TCP_INFO)",
		},
		{
			Name: "tcp_cwnd", Unit: measure.UnitSegment, Better: measure.Neither, Kind: measure.KindCount, Label: "TCP window",
			Order:   860,
			Summary: "congestion window at the end of a trial (TCP_INFO)",
		},
		{
			Name: "tcp_bytes_per_ack", Unit: measure.UnitByte, Better: measure.Neither, Kind: measure.KindMemory,
			Label: "bytes per TCP acknowledgement", Order: 865,
			Summary: "bytes acknowledged by each acknowledgement (TCP_INFO)",
		},
	}
}

package passthrough

import "github.com/nettoll/nettoll/measure"

// declared is what only a network that takes a card measures of a lab.
func declared() []measure.Metric {
	return []measure.Metric{
		{
			Name: "plug_time", Unit: measure.UnitSecond, Better: measure.LowerBetter, Kind: measure.KindTime, Label: "plug in",
			Order:   770,
			Summary: "time to move a network card into a container, until packets can pass",
			Note:    "“plug in” lasts from the start of moving the network card until packets can pass.",
		},
	}
}

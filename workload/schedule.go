package workload

import (
	"strings"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
)

// ScheduleParams are the parameters of a workload whose messages can follow a schedule: word is the rate that is none ("max", "closed").
func ScheduleParams(word, rate string) part.List {
	return part.List{
		{Name: "rate", Default: word, Quiet: true, Summary: rate, Check: part.RateOr(word)},
		{Name: "arrivals", Default: "constant", Quiet: true, Summary: "when messages are due, where there is a rate: constant, poisson, uniform[:spread], normal[:spread], pareto[:shape], gamma[:shape], weibull[:shape], cauchy[:spread], bursts:ON:OFF, replay:FILE", Check: traffic.ParseArrivals},
		{Name: "sizes", Default: "constant", Quiet: true, Summary: "how long they are: constant or a distribution, about the payload", Check: traffic.ParseSizes},
	}
}

// Schedule makes the schedule of [ScheduleParams], nil where there is no rate. Messages have size bytes on average, least at least and most at most.
func (s Spec) Schedule(size, least, most int) (*traffic.Schedule, error) {
	rate := s.Params.Rate("rate")
	if rate == 0 && !strings.HasPrefix(s.Params["arrivals"], "replay:") { // a file has a rate of its own
		return nil, nil //nolint:nilnil // no rate, no schedule
	}
	return traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: rate, Arrivals: s.Params["arrivals"], Sizes: s.Params["sizes"], Size: size, Least: least, Most: most, Seed: s.Seed,
	})
}

package workload

import (
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
)

// ScheduleParams returns the parameters of a workload whose messages can follow a schedule. The argument word is the
// value of the rate that means no schedule ("max", "closed").
func ScheduleParams(word, rate string) part.List {
	return part.List{
		{Name: "rate", Default: word, Quiet: true, Summary: rate, Check: part.RateOr(word)},
		{Name: "arrivals", Default: "constant", Quiet: true, Summary: "distribution of the times at which messages are " +
			"due, at a rate: constant, poisson, uniform[:spread], normal[:spread], pareto[:shape], gamma[:shape], " +
			"weibull[:shape], cauchy[:spread], bursts:ON:OFF, replay:FILE", Check: traffic.ParseArrivals},
		{
			Name: "sizes", Default: "constant", Quiet: true,
			Summary: "sizes of messages: constant, or a distribution with the payload as its mean", Check: traffic.ParseSizes,
		},
	}
}

// replays reports whether messages come from a file, which has its own rate and sizes.
func replays(p part.Params) bool { return strings.HasPrefix(p["arrivals"], "replay:") }

// Scheduled reports whether the parameters of [ScheduleParams] ask for a schedule.
func Scheduled(p part.Params) bool { return p.Rate("rate") > 0 || replays(p) }

// Varied reports whether messages differ in length.
func Varied(p part.Params) bool { return p["sizes"] != "constant" || replays(p) }

// Unscheduled returns an error if a parameter of schedules is given without a schedule.
func Unscheduled(p part.Params) error {
	for _, name := range []string{"arrivals", "sizes"} {
		if !Scheduled(p) && p[name] != "constant" {
			return fmt.Errorf("%s=%s needs a rate", name, p[name])
		}
	}
	return nil
}

// Schedule makes the schedule of [ScheduleParams]; nil if there is no rate. Messages have size bytes on average, at
// least least and at most most.
func (s Spec) Schedule(size, least, most int) (*traffic.Schedule, error) {
	if !Scheduled(s.Params) {
		return nil, nil //nolint:nilnil // no rate, no schedule
	}
	return traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: s.Params.Rate("rate"), Arrivals: s.Params["arrivals"], Sizes: s.Params["sizes"], Size: size, Least: least,
		Most: most, Seed: s.Seed,
	})
}

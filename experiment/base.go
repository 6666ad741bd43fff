package experiment

import (
	"time"

	"github.com/nettoll/nettoll/part"
)

// Base is an experiment with every default and nothing to measure yet: what a file says nothing about is as here.
func Base() Experiment {
	return Experiment{
		Name:     "experiment",
		Hosts:    2,
		Baseline: Stack{Network: Choice{Name: "host"}},
		Factors: Factors{
			Placements: Placements(),
			Pairs:      []int{1},
			Families:   Families()[:1],
			Affinities: Affinities()[:1],
		},
		Design: Design{Precision: 0.02, Time: time.Minute, Generations: minGenerations, Seed: 1},
		Tune:   Tune{Congestion: "auto", MTU: 1500},
	}
}

// ParseLoad reads a workload as the command line has it: "udp-rr(payload=64,mode=wait,driver=sockperf)", or several at once:
// "mix(udp-rr(payload=64)*3,tcp-stream)".
func ParseLoad(s string) (Load, error) {
	if IsMix(s) {
		return parseMix(s)
	}
	name, given, err := part.Parse("workload", s)
	if err != nil {
		return Load{}, err
	}
	l := Load{Choice: Choice{Name: name, Params: given}, Driver: given["driver"]}
	delete(given, "driver")
	return l, nil
}

package experiment

import (
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// usualMTU is that of Ethernet, in bytes.
const usualMTU = 1500

// Base returns an experiment with every default and nothing to measure yet. A file overrides the values that it names.
// The baseline has the first part of each kind that has no default.
func Base(parts Parts) Experiment {
	var baseline stack.Stack
	for _, kind := range parts.Kinds {
		if d := kind.Describe(); d.Default == "" && len(kind.Parts()) > 0 {
			if c, err := parts.Kinds.Choose(d.Name, kind.Parts()[0].Name, nil); err == nil {
				baseline = append(baseline, c)
			}
		}
	}
	affinities := Affinities()[:1]
	if parts.there { // pods have no CPUs of their own
		affinities = []string{"free"}
	}
	return Experiment{
		Name:     "experiment",
		Hosts:    2,
		Baseline: Stack{Parts: baseline},
		Factors: Factors{
			Placements: Placements(),
			Pairs:      []int{1},
			Families:   Families()[:1],
			Affinities: affinities,
			Idles:      Idles()[:1],
		},
		Design: Design{Precision: 0.02, Spoiled: 0.05, Time: time.Minute, Generations: minGenerations, Seed: 1},
		Tune:   Tune{Congestion: "auto", MTU: usualMTU},
		Proof:  Proof{Budget: 0.05},
	}
}

// ParseLoad reads a workload in command-line syntax, "udp-rr(payload=64,mode=wait,driver=sockperf)", or several at
// once: "mix(udp-rr(payload=64)*3,tcp-stream)".
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

package suite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// Every claim holds on data that agree with it, and does not hold on data that do not. A claim that could not fail
// would have no meaning.
func TestClaimsFail(t *testing.T) {
	for _, name := range []string{
		"alibaba-eni", "cilium-benchmark", "cni-quick", "docker-network", "felter2015", "lezcano2007",
		"seconetbench-kubernetes", "seconetbench-multi", "seconetbench-single",
	} {
		t.Run(name, func(t *testing.T) {
			s := find(t, name)
			run := runOf(resolve(t, s))
			even := s.even(run, nil)
			analysis := measure.Analyze(run, even)
			tried, asked := 0, 0
			for _, c := range s.Claims {
				before := tried
				one := *s
				one.Claims = []Claim{c}
				i := 0
				for _, at := range c.Each.cross(s.coordinates()) {
					for _, r := range c.Ratios {
						of := at.with(r.Over[0])
						cell := s.cell(&run, of)
						level := one.Evaluate(run, even, analysis).Claims[0].Parts[i]
						if level.Missing != "" {
							if missing := s.stack(of[stackOf]).Missing; missing == "" {
								t.Errorf("%s, %s: %s", c.ID, level.At, level.Missing)
							}
							i++
							continue
						}
						for want, targets := range targets(level.Bounds) {
							for _, target := range targets {
								by := map[string]float64{s.key(of, cell): target / level.Here.Ratio}
								got := one.Evaluate(run, s.even(run, by), analysis).Claims[0].Parts[i]
								if got.Answer.Finding != want || math.Abs(got.Here.Ratio/target-1) > 0.01 {
									t.Errorf("%s, %s, %s is %g (want %g): %s, want %s", c.ID, got.At, got.Of, got.Here.Ratio, target,
										got.Answer.Finding, want)
								}
								tried++
							}
						}
						i++
					}
				}
				if tried > before {
					asked++
				}
			}
			if 4*asked < 3*len(s.Claims) { // the others have a stack that is missing, or no formula
				t.Errorf("%d questions of %d claims of %d", tried, asked, len(s.Claims))
			}
		})
	}
}

// targets returns ratios within the bounds, and beyond each of them.
func targets(b measure.Bounds) map[measure.Finding][]float64 {
	switch {
	case b.Below == 0:
		return map[measure.Finding][]float64{measure.Holds: {2 * b.Above}, measure.DoesNotHold: {b.Above / 2}}
	case b.Above == 0:
		return map[measure.Finding][]float64{measure.Holds: {b.Below / 2}, measure.DoesNotHold: {2 * b.Below}}
	}
	return map[measure.Finding][]float64{
		measure.Holds: {math.Sqrt(b.Above * b.Below)}, measure.DoesNotHold: {b.Above / 2, 2 * b.Below},
	}
}

// key returns the key of the recorded value at a point.
func (s *Suite) key(at Point, c *measure.Cell) string {
	m := s.metric(at[metricOf]).Here
	if m.Lab {
		return c.Lab + " " + m.Metric
	}
	return c.ID + " " + m.metricName(c)
}

// even makes a run in which every value is 1, except those multiplied.
func (s *Suite) even(run measure.Run, by map[string]float64) *measure.Log {
	const generations, blocks = 5, 2
	rnd := rand.New(rand.NewPCG(1, 5))
	value := func(of, metric string) float64 {
		x := 1 + 1e-4*rnd.NormFloat64()
		if f, ok := by[of+" "+metric]; ok {
			x *= f
		}
		return x
	}
	log := &measure.Log{}
	for g := range generations {
		labs := map[string]map[string]float64{}
		for i := range run.Cells {
			c := &run.Cells[i]
			for _, m := range s.Metrics {
				if m.Here.Lab {
					if labs[c.Lab] == nil {
						labs[c.Lab] = map[string]float64{}
						log.Labs = append(log.Labs, measure.LabRecord{Generation: g + 1, Lab: c.Lab, Metrics: labs[c.Lab]})
					}
					labs[c.Lab][m.Here.Metric] = value(c.Lab, m.Here.Metric)
				}
			}
			for b := range blocks {
				metrics := map[string]float64{}
				for _, m := range s.Metrics {
					if !m.Here.Lab && m.Here.Workload == c.Workload {
						// a baseline and its twin are one
						metrics[m.Here.metricName(c)] = value(strings.TrimSuffix(c.ID, "#2"), m.Here.metricName(c))
					}
				}
				log.Trials = append(log.Trials, measure.Trial{
					Generation: g + 1, Block: g*blocks + b, Cell: c.ID, Duration: 0.1, Metrics: metrics,
				})
			}
		}
	}
	return log
}

// The findings about the claims on their sources' own figures, and the claims without figures.
func TestClaimsOnTheirOwnFigures(t *testing.T) {
	for name, want := range map[string]string{
		"lezcano2007":             "10 claims, 10 hold, 0 without figures",
		"felter2015":              "7 claims, 3 hold, 4 without figures",
		"docker-network":          "21 claims, 5 hold, 16 without figures",
		"cilium-benchmark":        "11 claims, 2 hold, 8 without figures",
		"cni-quick":               "3 claims, 3 hold, 0 without figures",
		"seconetbench-kubernetes": "21 claims, 1 hold, 16 without figures",
		"seconetbench-multi":      "21 claims, 2 hold, 18 without figures",
		"seconetbench-single":     "26 claims, 1 hold, 25 without figures",
	} {
		s := find(t, name)
		run := runOf(resolve(t, s))
		hold, without := 0, 0
		for _, c := range s.Evaluate(run, &measure.Log{}, measure.Analyze(run, &measure.Log{})).Claims {
			if c.There == measure.Holds {
				hold++
			}
			if c.Plot != "" {
				without++
			}
			if c.Plot == "" && c.There != measure.Holds {
				t.Logf("%s: %s %s", name, c.ID, c.There)
			}
		}
		if got := fmt.Sprintf("%d claims, %d hold, %d without figures", len(s.Claims), hold, without); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

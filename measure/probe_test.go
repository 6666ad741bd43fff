package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The analysis finds a probe that makes round trips 4 % longer and rates 10 % lower, from the same blocks. Probed cells
// have no verdict, and the other cells have the same verdicts as without them.
func TestProbes(t *testing.T) {
	cells := func(load, primary string) []Cell {
		group := load + "|same-host|1|ipv4|split"
		cell := func(stack, baseline, probe string) Cell {
			c := Cell{ID: stack + "/" + load + probe, Group: group + probe, Primary: primary}
			if baseline != "" {
				c.Baseline = baseline + "/" + load + probe
			}
			if probe != "" {
				c.Probe, c.Unprobed = "softirq", stack+"/"+load
			}
			return c
		}
		twin := cell("host", "host", "")
		twin.ID, twin.Twin = twin.ID+"#2", true
		return []Cell{
			cell("host", "", ""), twin, cell("bridge", "host", ""), cell("host", "", "+softirq"),
			cell("bridge", "host", "+softirq"),
		}
	}
	run := Run{
		Design: Design{Precision: 0.02},
		Cells:  append(cells("udp-rr", "latency_p50"), cells("udp-rate", "packet_rate")...),
	}
	r := rand.New(rand.NewPCG(1, 2))
	log, bare := &Log{}, &Log{}
	for g := range 6 {
		for b := range 4 {
			drift := 0.3 * r.NormFloat64()
			for _, c := range run.Cells {
				x := drift + 0.005*r.NormFloat64()
				if c.ID[0] == 'b' {
					x += 0.2
				}
				trial := Trial{Generation: g, Block: 4*g + b, Cell: c.ID, Metrics: map[string]float64{}}
				if c.Probe != "" {
					trial.Metrics["cpu_softirq"] = 0.3 * math.Exp(x)
					x += map[string]float64{"latency_p50": math.Log(1.04), "packet_rate": math.Log(0.9)}[c.Primary]
				}
				trial.Metrics[c.Primary] = math.Exp(x)
				log.Trials = append(log.Trials, trial)
				if c.Probe == "" {
					bare.Trials = append(bare.Trials, trial)
				}
			}
		}
	}
	a := Analyze(run, log)
	if len(a.Probes) != 4 {
		t.Fatalf("the cost of %d cells, want 4", len(a.Probes))
	}
	for _, p := range a.Probes {
		want := map[string]float64{"latency_p50": 1.04, "packet_rate": 0.9}[p.Metric]
		if !p.HasRatio || p.Estimate.Lo > want || p.Estimate.Hi < want || p.Estimate.HalfWidth() > 0.02 ||
			p.Estimate.Blocks != 24 {
			t.Errorf("%s: %+v, want %v", p.Cell.ID, p, want)
		}
	}
	for _, cell := range []string{"bridge/udp-rr", "bridge/udp-rate"} {
		r := row(t, a, cell+"+softirq", "cpu_softirq")
		if r.Verdict != IsProbed || !r.HasRatio || math.Abs(r.Estimate.Ratio-math.Exp(0.2)) > 0.02 ||
			r.AdjLo != r.Estimate.Lo || !math.IsNaN(r.Floor) {
			t.Errorf("%+v", r)
		}
		metric := map[string]string{"bridge/udp-rr": "latency_p50", "bridge/udp-rate": "packet_rate"}[cell]
		with, without := row(t, a, cell, metric), row(t, Analyze(run, bare), cell, metric)
		if with.Verdict != without.Verdict || with.AdjLo != without.AdjLo || with.Estimate != without.Estimate {
			t.Errorf("%s is %+v among probed cells, and %+v alone", cell, with, without)
		}
	}
	a.from.run.Design.Precision = 0.02
	if goals := a.Goals(1); len(goals) != 2 || !goals[0].Precise || !goals[1].Precise {
		t.Errorf("the goals are %+v, want those of the two cells that are compared and not probed", goals)
	}
	run.Cells[3].Unprobed = "gone"
	if n := len(Analyze(run, log).Probes); n != 3 {
		t.Errorf("the cost of %d cells, want 3: one has nothing to be compared with", n)
	}
	if p := Analyze(run, &Log{}).Probes[0]; p.HasRatio || p.HasDifference {
		t.Errorf("of nothing: %+v", p)
	}
}

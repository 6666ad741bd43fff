package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// besides is a run of a mix of requests and a stream under host and bridge, with each member alone as well. The stream
// makes requests take 1.5 times as long under host and three times under bridge; the requests do not affect the stream.
func besides(generations int) (Run, *Log) {
	run := Run{Design: Design{Precision: 0.02}}
	for _, load := range []struct{ name, primary string }{{"udp-rr", "latency_p50"}, {"tcp-stream", "goodput"}} {
		for _, alone := range []string{"", "+alone"} {
			for _, stack := range []string{"host", "host#2", "bridge"} {
				name, twin := stack, ""
				if stack == "host#2" {
					name, twin = "host", "#2"
				}
				c := Cell{
					ID: name + "/" + load.name + alone + twin, Group: load.name + alone, Primary: load.primary, Stack: name,
					Workload: load.name, Twin: twin != "",
				}
				if stack != "host" {
					c.Baseline = "host/" + load.name + alone
				}
				if c.Mix = []string{"udp-rr*1", "tcp-stream*1"}; alone != "" {
					c.Mix, c.Alone = nil, name+"/"+load.name+twin
				}
				run.Cells = append(run.Cells, c)
			}
		}
	}
	r, log := rand.New(rand.NewPCG(1, 2)), &Log{}
	for g := range generations {
		for b := range 4 {
			drift := 0.3 * r.NormFloat64()
			for _, c := range run.Cells {
				x := drift + 0.005*r.NormFloat64()
				if c.Stack == "bridge" {
					x += 0.1
				}
				if c.Workload == "udp-rr" && c.Alone == "" {
					x += math.Log(map[string]float64{"host": 1.5, "bridge": 3}[c.Stack])
				}
				log.Trials = append(log.Trials, Trial{
					Generation: g + 1, Block: 4*g + b, Cell: c.ID,
					Metrics: map[string]float64{c.Primary: math.Exp(x), "cpu_busy": math.Exp(x)},
				})
			}
		}
	}
	return run, log
}

// The effect of the members of a mix on each other is found within the blocks, for each stack, with a floor of both
// groups. Cells alone have no verdict, and change no verdict of the others.
func TestBeside(t *testing.T) {
	run, log := besides(8)
	a := Analyze(run, log)
	want := map[string]float64{"host/udp-rr": 1.5, "bridge/udp-rr": 3, "host/tcp-stream": 1, "bridge/tcp-stream": 1}
	if len(a.Beside) != len(want) {
		t.Fatalf("%d comparisons, want %d: none of twins and of processor time", len(a.Beside), len(want))
	}
	for _, b := range a.Beside {
		x := want[b.Cell.ID]
		verdict := NoDifference
		if x > 1 {
			verdict = Slower
		}
		if math.Abs(b.Estimate.Ratio/x-1) > 0.01 || b.Over.Alone != b.Cell.ID || b.Verdict != verdict {
			t.Errorf("%s : %s is %v, %s, want %v", b.Cell.ID, b.Over.ID, b.Estimate.Ratio, b.Verdict, x)
		}
		in, alone := row(t, a, b.Cell.ID, b.Metric), row(t, a, b.Over.ID, b.Metric)
		if floor := math.Sqrt((in.Floor*in.Floor + alone.Floor*alone.Floor) / 2); math.Abs(b.Floor/floor-1) > 1e-9 {
			t.Errorf("%s: floor %v, want %v", b.Cell.ID, b.Floor, floor)
		}
		if math.Abs(alone.Value*b.Estimate.Ratio/in.Value-1) > 1e-9 {
			t.Errorf("%s: %v in the mix and %v alone contradict ×%v", b.Cell.ID, in.Value, alone.Value, b.Estimate.Ratio)
		}
		if alone.Verdict != IsAlone || alone.HasRatio || alone.Cell.Governs() {
			t.Errorf("%s is %s", b.Over.ID, alone.Verdict)
		}
	}
	twin, base := row(t, a, "host/udp-rr+alone#2", "latency_p50"), row(t, a, "host/udp-rr+alone", "latency_p50")
	if math.Abs(base.Value*math.Sqrt(twin.Estimate.Ratio)/twin.Value-1) > 1e-9 || twin.Verdict != IsTwin {
		t.Errorf("alone %v, its twin %v at ×%v", base.Value, twin.Value, twin.Estimate.Ratio)
	}
	var bare Run
	for _, c := range run.Cells {
		if c.Alone == "" {
			bare.Cells = append(bare.Cells, c)
		}
	}
	without := row(t, Analyze(bare, log), "bridge/udp-rr", "latency_p50")
	if with := row(t, a, "bridge/udp-rr", "latency_p50"); with.Estimate != without.Estimate || with.AdjLo != without.AdjLo ||
		with.Verdict != without.Verdict || with.Value != without.Value {
		t.Errorf("%+v, and %+v without the cells alone", with, without)
	}
	run, log = besides(2)
	if b := Analyze(run, log).Beside[0]; b.Verdict != TooFew {
		t.Errorf("two generations: %s", b.Verdict)
	}
	if list := Analyze(run, &Log{}).Beside; list != nil {
		t.Errorf("of nothing: %+v", list)
	}
}

package control

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

// The command line of another run is cut, and a short one is not.
func TestBrief(t *testing.T) {
	for command, want := range map[string]string{
		"nettoll run": "nettoll run",
		"nettoll run " + strings.Repeat("ü", 48): "nettoll run " + strings.Repeat("ü", 48),
		"nettoll run " + strings.Repeat("ü", 49): "nettoll run " + strings.Repeat("ü", 47) + "…",
	} {
		if got := Brief(command); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Calls to workers on other machines are doubted if they take more than 5 % of the time, and the doubt says how long
// trials have to be.
func TestCallsDoubt(t *testing.T) {
	for _, c := range []struct {
		dead, window, skew time.Duration
		want               string
	}{
		{7 * time.Millisecond, 200 * time.Millisecond, time.Millisecond, ""},
		{
			16 * time.Millisecond, 180 * time.Millisecond, time.Millisecond,
			"passing the turn to workers on other machines took 8 % of the time of trials; use longer trials (--trial 400ms)",
		},
		{16 * time.Millisecond, 180 * time.Millisecond, 0, ""}, // one clock: this machine
	} {
		var all calls
		for range 3 {
			var one trial
			one.timing.Dead, one.timing.Skew, one.result.Window = c.dead, c.skew, c.window
			all.add(one)
			one.timing.Dead, one.failure = time.Hour, "no answer arrived"
			all.add(one)
		}
		if got := all.doubt(); got != c.want {
			t.Errorf("%v beside %v: %q, want %q", c.dead, c.window, got, c.want)
		}
	}
}

// The table of neighbours was full if its count grew; a family whose count was not known at the beginning is none.
func TestRefusedNeighbours(t *testing.T) {
	now := map[string]int64{"ipv4": 5, "ipv6": 9}
	m := &monitor{full: map[string]int64{"ipv4": 5}, neighbours: func() map[string]int64 { return now }}
	if got := m.refused(); len(got) > 0 {
		t.Errorf("%v, want none", got)
	}
	now["ipv4"] = 7
	if got := m.refused(); len(got) != 1 || got["ipv4"] != 2 {
		t.Errorf("%v, want 2 of IPv4", got)
	}
}

// A doubt says what to do: one about the run as a whole, and one that the analysis finds in the records.
func TestDoubtsSayWhatToDo(t *testing.T) {
	s := &scheduler{
		options: Options{Resolved: &experiment.Resolved{}},
		monitor: &monitor{
			others: map[string]float64{"stress": 30}, watched: 30, stolen: 30,
			runs:       map[int]string{7: "nettoll run " + strings.Repeat("x", 100)},
			neighbours: func() map[string]int64 { return map[string]int64{"ipv6": 12} }, full: map[string]int64{"ipv6": 2},
		},
		wake: &wake{awake: 30, asleep: 20},
		records: &aggregator{
			writer: measure.NewWriter(io.Discard), warned: func(measure.Warning) {},
			log: measure.Log{Blocks: []measure.BlockFacts{{Duration: 30, CPU: map[string]float64{"user": 1.9, "idle": 0.1}}}},
		},
	}
	s.doubts()
	var texts []string
	for _, w := range s.records.log.Warnings {
		texts = append(texts, w.Text)
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{
		"; measure again when", " while it was measured (stress 1), and 5 % of the CPU time was idle; stop them and measure " +
			"again, or give the run more time", "…\"; measure again with --wait", "slept 67 % of the time", "; see with cpupower",
		"table of IPv6 neighbours was full 10 times", "or raise net.ipv6.neigh.default.gc_thresh3",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}

	// against what programs may have moved, more time does not help
	s.records = &aggregator{
		writer: measure.NewWriter(io.Discard), warned: func(measure.Warning) {},
		run: measure.Run{Facts: map[string]any{"cpus": 2}},
	}
	s.doubts()
	if !slices.ContainsFunc(s.records.log.Warnings, func(w measure.Warning) bool {
		return strings.HasSuffix(w.Text, "; stop them and measure again")
	}) {
		t.Errorf("more time is advised beside a program that uses half of the CPUs: %v", s.records.log.Warnings)
	}

	run := measure.Run{Cells: []measure.Cell{
		{ID: "base", Group: "g", Primary: "goodput"},
		{ID: "silent", Group: "g", Primary: "goodput", Baseline: "base"},
		{ID: "lone", Group: "g", Primary: "goodput", Baseline: "gone"},
	}}
	log := &measure.Log{Histograms: []measure.Histograms{{Cell: "base", Data: "?"}}}
	for g := range 2 {
		for _, c := range []string{"base", "silent", "lone", "stranger"} {
			t := measure.Trial{Generation: g, Block: 2 * g, Cell: c, Metrics: map[string]float64{"goodput": 1e9}}
			if c == "silent" {
				t.Metrics["goodput"] = 0
			}
			log.Trials = append(log.Trials, t)
		}
	}
	log.Trials = append(log.Trials, measure.Trial{Generation: 1, Block: 3, Cell: "base", Failed: "broke"})
	var found []string
	for _, w := range measure.Analyze(run, log).Warnings {
		at := strings.LastIndex(w.Text, ": ")
		found = append(found, w.Cell+w.Text[max(at, 0):])
	}
	want := []string{
		": restore the run.json of these records, or measure again",
		"base: look for the cause with nettoll lab up",
		"base: restore records.jsonl from a copy, or measure again",
		"silent: use longer trials (--trial)",
		"lone: restore its run.json, or measure again",
	}
	if d := cmp.Diff(want, found); d != "" {
		t.Error(d)
	}
}

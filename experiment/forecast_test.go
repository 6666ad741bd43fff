package experiment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/proof/threat"
)

// The forecast grows with the request, and more time makes the run more precise.
func TestForecast(t *testing.T) {
	e := read(t, "factors: {network: bridge, placement: same-host}\nworkloads: tcp-stream\ndesign: {time: 10s}\n")
	short := resolve(t, e, 2).Forecast(0.03)
	// Three cells of 200 ms make sixteen blocks: 4 in each of the least generations, or the plan's number for so few
	// blocks.
	if short.Generations < 5 || short.Measuring < 10*time.Second || short.Measuring > 11*time.Second || short.Labs != 3 ||
		short.Hosts != 3 || short.Containers != 6 {
		t.Errorf("%+v", short)
	}
	e.Design.Time = time.Minute
	long := resolve(t, e, 2).Forecast(0.03)
	if long.HalfWidth >= short.HalfWidth || long.Blocks <= short.Blocks {
		t.Errorf("a minute: %+v, and ten seconds: %+v", long, short)
	}
	if long.Proving.Round(100*time.Millisecond) != 3*time.Second || short.Proving != 2*time.Second {
		t.Errorf("who reaches whom is tried for %v in a minute and for %v in ten seconds, want 5 %%, and 2s at least",
			long.Proving, short.Proving)
	}
	e.Proof.Attacks = []threat.Attack{threat.Ports, threat.WireSniff}
	// Nothing passes the wire of one host, and the twin is not attacked.
	if f := resolve(t, e, 2).Forecast(0.03); f.Attacking != 2*time.Second || long.Attacking != 0 {
		t.Errorf("an attack on two labs and their controls takes %v, and none %v; want 2s and 0s", f.Attacking, long.Attacking)
	}
	if wide := resolve(t, e, 2).Forecast(0.06); wide.HalfWidth < 1.9*long.HalfWidth || wide.Enough <= long.Enough {
		t.Errorf("twice the spread: %+v, once: %+v", wide, long)
	}
	e.Design.Precision = 1e-6
	if never := resolve(t, e, 2).Forecast(0.03); never.Enough != 0 {
		t.Errorf("a millionth takes %v, want more than a day", never.Enough)
	}
	e.Factors.Pairs = []int{10}
	if large := resolve(t, e, 2).Forecast(0.03); large.Memory <= long.Memory ||
		large.Building/time.Duration(large.Generations) <= long.Building/time.Duration(long.Generations) {
		t.Errorf("ten pairs: %+v, one: %+v", large, long)
	}
}

// If cells leave when they are decided, and blocks take long, the first look comes after a quarter of the time if
// possible.
func TestFirstLook(t *testing.T) {
	for _, c := range []struct {
		time, trial, until string
		first              int // number of the block after which the first look comes
	}{
		{"10s", "40ms", "precise", 20}, {"10s", "40ms", "decided", 20}, // 83 blocks
		{"1s", "40ms", "decided", 10},                           // 8 of them: two in each generation
		{"5m", "4s", "precise", 20}, {"5m", "4s", "decided", 5}, // 24
		{"20m", "4s", "decided", 20}, {"10m", "4s", "decided", 10}, // 98, 49
	} {
		r := resolve(t, read(t, fmt.Sprintf("factors: {network: bridge, placement: same-host}\nworkloads: tcp-stream\n"+
			"design: {trial: %s, time: %s, until: %s}\n", c.trial, c.time, c.until)), 2)
		plan := r.LookPlan()
		first := plan.Blocks
		for !plan.Done(plan.Blocks) {
			first += plan.Blocks
		}
		if first != c.first {
			t.Errorf("%+v: the first look comes after %d blocks", c, first)
		}
	}
}

// If a machine is too small for a run, an error says so before anything is built, with numbers.
func TestCheck(t *testing.T) {
	many := resolve(t, read(t, "factors: {network: [bridge, macvlan], pairs: 400}\nworkloads: tcp-stream\n"), 2)
	bridge := resolve(t, read(t, "factors: {network: bridge, pairs: 500, placement: same-host}\nworkloads: tcp-stream\n"),
		2)
	few := resolve(t, read(t, "factors: {network: bridge, pairs: 100, placement: same-host}\nworkloads: tcp-stream\n"), 2)
	filled := resolve(t, read(t, "factors: {network: {nat: {hairpin: true, entries: [0, 1000, 100000]}}, placement: "+
		"same-host}\nworkloads: tcp-stream\n"), 2)
	for _, c := range []struct {
		of     *experiment.Resolved
		limits experiment.Limits
		want   string
	}{
		{many, experiment.Limits{}, ""}, // nothing is known
		{many, experiment.Limits{
			Neighbours: 1 << 20, Conntrack: 1 << 20, Tasks: 1 << 20, TasksLimit: "kernel.pid_max is 1", Memory: 1 << 40,
		}, ""},
		{many, experiment.Limits{Neighbours: 5}, "neighbour entries, and this machine has 5 (measure fewer pairs or stacks " +
			"at once, or raise net.ipv4.neigh.default.gc_thresh3"},
		{many, experiment.Limits{Tasks: 20, TasksLimit: "ulimit -u is 50", TasksHelp: "raise it"}, "processes and threads, " +
			"and there is room for 20: ulimit -u is 50 (measure fewer pairs or stacks at once, or raise it)"},
		{many, experiment.Limits{TasksLimit: "ulimit -u is 50", TasksHelp: "raise it"}, "there is room for 0"},
		{many, experiment.Limits{Memory: 100 << 20}, "MB of memory, and this machine has 100"},
		{bridge, experiment.Limits{Neighbours: 20}, ""}, // permanent entries
		{few, experiment.Limits{Neighbours: 199}, "neighbour entries, and this machine has 199"},
		{filled, experiment.Limits{Conntrack: 110_000}, ""}, // in each namespace, not in all together
		{filled, experiment.Limits{Conntrack: 100_000}, "tracked connections, and this machine has 100000"},
	} {
		err := c.of.Check(c.limits)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.limits, err, c.want)
		}
	}
}

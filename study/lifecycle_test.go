package study

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/measure"
)

func TestLifecyclePlan(t *testing.T) {
	for what, change := range map[string]func(*LifecyclePlan){
		"":                                      func(*LifecyclePlan) {},
		"--pairs: none is given":                func(p *LifecyclePlan) { p.Pairs = nil },
		"value -1 for --pairs (valid: 0 to 500": func(p *LifecyclePlan) { p.Pairs = []int{0, -1} },
		"value 501 for --pairs":                 func(p *LifecyclePlan) { p.Pairs = []int{501} },
		"--pairs: 5 is given twice":             func(p *LifecyclePlan) { p.Pairs = []int{5, 1, 5} },
		"value 0 for --rounds (valid: 1 to 1000)":  func(p *LifecyclePlan) { p.Rounds = 0 },
		"value 1001 for --rounds (valid: 1 to 100": func(p *LifecyclePlan) { p.Rounds = 1001 },
	} {
		p := DefaultLifecyclePlan()
		change(&p)
		err := p.Check()
		if (err == nil) != (what == "") || err != nil && !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// Time in which several steps were at work counts once, and time between them not at all.
func TestSpanned(t *testing.T) {
	at := func(from, to int64) host.StepTime {
		return host.StepTime{Apply: host.Span{Began: from, Took: time.Duration(to - from)}}
	}
	times := []host.StepTime{at(40, 50), at(0, 10), at(5, 20), at(6, 8), at(60, 100), at(20, 25)}
	for _, tt := range []struct {
		steps []int
		want  time.Duration
	}{
		{nil, 0}, {[]int{0}, 10}, {[]int{1, 2}, 20}, {[]int{0, 1, 2, 3, 5}, 35}, {[]int{0, 4}, 50},
	} {
		if got := spanned(tt.steps, times, func(t host.StepTime) host.Span { return t.Apply }); got != tt.want {
			t.Errorf("steps %v took %d, want %d", tt.steps, got, tt.want)
		}
	}
}

func TestRoleOf(t *testing.T) {
	for line, want := range map[string]role{
		"nettoll\x00host-init\x00--name\x00host1\x00":     roleHost,
		"nettoll\x00agent\x00--name\x00host1\x00":         roleHost,
		"nettoll\x00worker\x00--name\x00sink@host1\x00":   roleWorker,
		"/nettoll\x00worker\x00--name\x00src0@host1\x00":  roleWorker,
		"nettoll\x00daemon\x00switch\x00":                 roleBeside,
		"dockerd\x00--host\x00unix:///run\x00":            roleBeside,
		"/usr/bin/lxc-start\x00--lxcpath\x00/x\x00":       roleBeside,
		"/usr/bin/worker\x00worker\x00":                   roleBeside,
		"[lxc monitor] /run/nettoll/lxc src0\x00":         roleBeside,
		"/usr/libexec/podman/conmon\x00worker\x00-c\x001": roleBeside,
		"": roleBeside,
	} {
		if got := roleOf(line); got != want {
			t.Errorf("%q is a %d, want %d", line, got, want)
		}
	}
}

func TestDescends(t *testing.T) {
	all := map[int]procfs.Program{1: {PID: 1}, 5: {PID: 5, Parent: 1}, 6: {PID: 6, Parent: 5}, 7: {PID: 7, Parent: 1}}
	all[8] = procfs.Program{PID: 8, Parent: 9} // its ancestors were read while they changed
	all[9] = procfs.Program{PID: 9, Parent: 8}
	var below []int
	for pid := range all {
		if descends(all, pid, 1) && !descends(all, pid, 7) {
			below = append(below, pid)
		}
	}
	if slices.Sort(below); !slices.Equal(below, []int{5, 6, 7}) {
		t.Errorf("below process 1 are %v, want 5, 6 and 7", below)
	}
}

func TestLives(t *testing.T) {
	l := &Lives{Plan: DefaultLifecyclePlan(), Runtimes: []string{"a", "b"}, Rounds: 2}
	for round, x := range []float64{3, 1, 2} {
		l.note(round, "a", 2, metricByte, x)
	}
	l.note(0, "b", 100, metricMemory, 2e6)
	l.Missing = append(l.Missing, Unmeasured{"c", "it is not installed"})
	l.Failed = append(l.Failed, "b, 10 containers, round 1: it broke")
	want := []Life{
		{"a", 2, metricByte, measure.UnitSecond, 2, 1, 3, 3},
		{"b", 100, metricMemory, measure.UnitByte, 2e6, 2e6, 2e6, 1},
	}
	if diff := cmp.Diff(want, l.Lives()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var text strings.Builder
	if err := l.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"first_byte_time: until a packet", "2 containers  least  most", "a           2 s    1 s   3 s", "2 Mbyte",
		"Failed: b, 10 containers, round 1: it broke.\n", "Not tried: c: it is not installed.\n",
		"Only 2 of 3 rounds were completed.\n",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
	if strings.Contains(text.String(), ":  ") || strings.Contains(text.String(), "100 containers  least  most  ") {
		t.Errorf("the text has columns without values:\n%s", text.String())
	}
}

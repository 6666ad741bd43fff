package study

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// came makes the results of a load of 1 kHz that lasts this many ms: the answer to packet n arrives after took(n) ms, 0
// for never.
func came(long int, took func(n int) float64) answers {
	start := time.Unix(1000, 0)
	at := func(ms float64) time.Time { return start.Add(time.Duration(ms * float64(time.Millisecond))) }
	var a answers
	for n := range long {
		sent := at(float64(n))
		a.sent = append(a.sent, sent)
		if d := took(n); d > 0 {
			a.got = append(a.got, reply{at: at(float64(n) + d), sent: sent})
		}
	}
	return a
}

func TestAnswers(t *testing.T) {
	lossy := func(from, to int) func(int) float64 {
		return func(n int) float64 {
			if n >= from && n < to {
				return 0
			}
			return 0.5
		}
	}
	for _, tt := range []struct {
		name string
		answers
		gap  float64 // ms
		lost int
	}{
		{"all", came(100, lossy(0, 0)), 1, 0},
		{"some are lost", came(100, lossy(10, 30)), 21, 20},
		{"the first are lost", came(100, lossy(0, 30)), 30.5, 30},
		{"the last are lost", came(100, lossy(60, 100)), 39.5, 40},
		{"all are lost", came(100, lossy(0, 100)), 99, 100},
		{"held up, not lost", came(100, func(n int) float64 {
			return max(0.5, float64(50-n)*float64(min(1, n/10)))
		}), 40.5, 0},
		{"nothing", answers{}, 0, 0},
	} {
		if got := tt.gap; measureMS(tt.answers.gap()) != got || tt.answers.lost() != tt.lost {
			t.Errorf("%s: gap %v ms, %d lost, want %v ms, %d", tt.name, measureMS(tt.answers.gap()), tt.answers.lost(), tt.gap,
				tt.lost)
		}
	}
	a := came(100, lossy(40, 60))
	if at, ok := a.after(a.sent[45]); !ok || at != a.sent[60].Add(500*time.Microsecond) {
		t.Errorf("after packet 45 an answer came at %v, %t", at, ok)
	}
	if _, ok := a.after(a.sent[99]); ok {
		t.Error("an answer to a packet that was not sent")
	}
	if got := measureMS(a.longest(a.sent[50])); got != 10.5 {
		t.Errorf("after packet 50 the longest gap is %v ms, want 10.5", got)
	}
	if some := a.within(a.sent[50], a.sent[70]); len(some.sent) != 20 || some.lost() != 10 ||
		measureMS(some.gap()) != 10.5 {
		t.Errorf("from packet 50 to 70 %d were sent and %d lost, longest gap %v", len(some.sent), some.lost(), some.gap())
	}
	a.sent[20] = a.sent[20].Add(7 * time.Millisecond)
	if got := measureMS(a.pause()); got != 8 {
		t.Errorf("longest pause %v ms, want 8", got)
	}
}

func measureMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The ratio is the median of the ratios to the baseline in the same round and with the same number of hosts.
func TestCosts(t *testing.T) {
	c := &Costs{Plan: DefaultBetweenPlan(), Carriers: []string{Direct, "a", "b"}, Rounds: 3}
	for round, setup := range [][2]float64{{1, 2}, {2, 8}, {4, 12}} {
		c.note(round, Direct, 2, metricSetup, setup[0])
		c.note(round, "a", 2, metricSetup, setup[1])
	}
	c.note(0, "b", 8, metricSetup, 5) // without a baseline
	c.note(0, "a", 8, metricIdleCPU, 0.001)
	c.note(0, "b", 2, metricIdleCPU, 0.001)
	c.skip("b", metricRekeyGap, errors.New("it has no keys"))
	c.skip("b", metricRekeyGap, errors.New("told once"))
	want := []Cost{
		{Direct, 2, metricSetup, measure.UnitSecond, 2, 1, 4, 3, 0},
		{"a", 2, metricSetup, measure.UnitSecond, 8, 2, 12, 3, 3},
		{"b", 8, metricSetup, measure.UnitSecond, 5, 5, 5, 1, 0},
		{"b", 2, metricIdleCPU, measure.UnitCores, 0.001, 0.001, 0.001, 1, 0},
		{"a", 8, metricIdleCPU, measure.UnitCores, 0.001, 0.001, 0.001, 1, 0},
	}
	if diff := cmp.Diff(want, c.Costs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var text strings.Builder
	if err := c.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"setup_time: until a lab stands", "2 hosts  :direct", "×3", "0.1 %", "Not tried: rekey_gap of b: it has no keys.\n",
		"Warning: with 8 hosts the programs of a use 0.8 % of a core without traffic",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
	for _, other := range []string{"told once", "programs of b", "Only "} {
		if strings.Contains(text.String(), other) {
			t.Errorf("the text has %q", other)
		}
	}
	for line := range strings.Lines(text.String()) {
		if n := len([]rune(line)); n > 121 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
}

func TestBetweenPlan(t *testing.T) {
	for what, change := range map[string]func(*BetweenPlan){
		"":                                             func(*BetweenPlan) {},
		"--hosts: none is given":                       func(p *BetweenPlan) { p.Hosts = nil },
		"value 1 for --hosts (valid: 2 to 32)":         func(p *BetweenPlan) { p.Hosts = []int{2, 1} },
		"value 33 for --hosts":                         func(p *BetweenPlan) { p.Hosts = []int{33} },
		"value 0 for --rounds (valid: 1 to 1000":       func(p *BetweenPlan) { p.Rounds = 0 },
		"value 0 for --renewals":                       func(p *BetweenPlan) { p.Renewals = 0 },
		"value 1ms for --idle (valid: 100ms to":        func(p *BetweenPlan) { p.Idle = time.Millisecond },
		"value 1h0m0s for --load":                      func(p *BetweenPlan) { p.Load = time.Hour },
		"value 0s for --quiet":                         func(p *BetweenPlan) { p.Quiet = 0 },
		`value "all" for --only (valid: setup, first,`: func(p *BetweenPlan) { p.Only = []string{"all"} },
	} {
		p := DefaultBetweenPlan()
		change(&p)
		err := p.Check()
		if (err == nil) != (what == "") || err != nil && !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
}

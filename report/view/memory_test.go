package view_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/view"
)

// remembering is a usual run whose noise is that of a machine that forgets within 100 ms.
func remembering(t *testing.T) *made {
	m := usual(t)
	x, last := 0.0, math.Inf(-1)
	for i := range m.log.Trials {
		trial := &m.log.Trials[i]
		keep := math.Exp((last - trial.Start) / 0.1)
		x, last = keep*x+math.Sqrt(1-keep*keep)*m.rnd.NormFloat64(), trial.Start
		if _, has := trial.Metrics["latency_p50"]; has {
			trial.Metrics["latency_p50"] = 13e-6 * math.Exp(0.05*x)
		}
	}
	return m
}

// How long noise is remembered is in JSON, in text that shows all, and folded in the page: a sentence and a figure.
func TestMemory(t *testing.T) {
	m := remembering(t)
	written := func(format string, o report.Options) string {
		var b bytes.Buffer
		if err := view.Write(&b, format, m.data(), o); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	type line struct {
		Type      string
		Group     string
		Memory    float64
		MemoryLo  float64 `json:"memory_lo"`
		MemoryHi  float64 `json:"memory_hi"`
		Near, Far float64
		Lags      []struct {
			From, To    float64
			Pairs       int
			Correlation float64
		}
	}
	var found []line
	for text := range strings.Lines(written("jsonl", report.Options{})) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err == nil && l.Type == "memory" {
			found = append(found, l)
		}
	}
	if len(found) != 3 {
		t.Fatalf("%d groups have a memory, want 3", len(found))
	}
	for _, l := range found[:2] {
		if !(l.MemoryLo < 0.1 && 0.1 < l.MemoryHi) || !(l.MemoryLo <= l.Memory && l.Memory <= l.MemoryHi) {
			t.Errorf("%s: %v s (%v to %v), want 0.1", l.Group, l.Memory, l.MemoryLo, l.MemoryHi)
		}
		if l.Near != 0.051 || l.Far < l.Near || len(l.Lags) < 3 || l.Lags[0].Pairs < 40 || l.Lags[0].Correlation < 0.3 {
			t.Errorf("%+v", l)
		}
	}
	const sentence = "machine's noise is remembered for "
	if all := written("text", report.Options{All: true}); strings.Count(all, sentence) != 3 {
		t.Errorf("with all it is said in %d groups, want 3", strings.Count(all, sentence))
	}
	if strings.Contains(written("text", report.Options{}), sentence) {
		t.Error("it is said where not all is asked for")
	}
	page := written("html", report.Options{})
	for _, want := range []string{
		"<summary><h3>How long noise is remembered</h3></summary>",
		"The machine&#39;s noise is remembered for about ", "grey band: from a cell to its baseline or twin",
	} {
		if n := strings.Count(page, want); n < 2 {
			t.Errorf("the page has %q %d times", want, n)
		}
	}
}

// Bounds are said as such, and so is what is not known.
func TestRemembered(t *testing.T) {
	lags := []measure.Lag{{At: 0.0412}, {At: 0.08}, {At: 2.345}}
	var all []string
	for _, x := range [][3]float64{
		{0.0912, 0.0612, 0.1549},
		{0.0912, 0, 0.1549},
		{0.0912, 0.0612, math.Inf(1)},
		{0.0912, 0, math.Inf(1)},
		{0, 0, 0.0412},
		{0, 0, 0.09},
		{math.Inf(1), 0.09, math.Inf(1)},
		{math.NaN(), math.NaN(), math.NaN()},
	} {
		all = append(all, report.Remembered(measure.Memory{Seconds: x[0], Lo: x[1], Hi: x[2], Lags: lags}))
	}
	want := []string{
		"the machine's noise is remembered for about 91 ms (95 % interval 61 ms to 150 ms)",
		"the machine's noise is remembered for about 91 ms (95 % interval up to 150 ms)",
		"the machine's noise is remembered for about 91 ms (95 % interval from 61 ms)",
		"the machine's noise is remembered for about 91 ms (a guess)",
		"the machine's noise is remembered for less than 41 ms, the time between two trials that follow each other",
		"the machine's noise is remembered for less than 41 ms, the time between two trials that follow each other (95 % " +
			"interval up to 90 ms)",
		"the machine's noise is remembered for longer than 2.3 s",
		"how long the machine's noise is remembered is not known: too few trials in too few generations",
	}
	if !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}

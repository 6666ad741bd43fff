package cli

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
)

func TestPlannedSpans(t *testing.T) {
	spans := []experiment.Span{
		{Group: "a", Cells: 4, Bases: 2, Turn: 40 * time.Millisecond},
		{Group: "b", Cells: 12, Bases: 2, Turn: 40 * time.Millisecond},
		{Group: "c", Cells: 3, Bases: 2, Turn: 200 * time.Millisecond},
	}
	lags := []measure.Lag{{At: 0.05}, {At: 0.3}}
	for _, tt := range []struct {
		name     string
		pilot    string
		known    []measure.Memory
		memories []float64
		said     string
	}{
		{
			"default", "", nil,
			[]float64{0.1, 0.1, 0.1},
			"In a block the cells of 3 of 3 groups take 160ms to 600ms, longer than the machine's noise is remembered (100ms, " +
				"the default; --pilot DIR takes it from a run). The farthest cell starts 80ms to 200ms from its baseline or that " +
				"one's twin; fewer stacks in a group bring them nearer.\n",
		},
		{
			"a pilot", "run",
			[]measure.Memory{
				{Group: "a", Seconds: 0.5, Lags: lags},
				{Group: "c", Seconds: 0.7, Lags: lags},
				{Group: "d", Seconds: math.NaN()},
			},
			[]float64{0.5, 0.6, 0.7},
			"",
		},
		{
			"bounds alone", "run",
			[]measure.Memory{
				{Group: "b", Seconds: 0, Lags: lags},
				{Group: "c", Seconds: math.Inf(1), Lags: lags},
			},
			[]float64{0.175, 0.05, 0.3},
			"In a block the cells of 2 of 3 groups take 480ms to 600ms, longer than the machine's noise is remembered (50ms to " +
				"300ms, as in run). The farthest cell starts 160ms to 200ms from its baseline or that one's twin; fewer stacks in a " +
				"group bring them nearer.\n",
		},
		{
			"a pilot that does not show it", "run",
			[]measure.Memory{{Group: "a", Seconds: math.NaN()}},
			[]float64{0.1, 0.1, 0.1},
			"In a block the cells of 3 of 3 groups take 160ms to 600ms, longer than the machine's noise is remembered (100ms, " +
				"the default; run does not show it). The farthest cell starts 80ms to 200ms from its baseline or that one's twin; " +
				"fewer stacks in a group bring them nearer.\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, from := plannedSpans(spans, tt.pilot, tt.known)
			var memories []float64
			for _, s := range list {
				memories = append(memories, math.Round(1e6*s.Memory)/1e6)
			}
			if d := cmp.Diff(tt.memories, memories); d != "" {
				t.Errorf("memories (-want +got):\n%s", d)
			}
			var out strings.Builder
			printSpans(&out, list, from)
			if d := cmp.Diff(tt.said, out.String()); d != "" {
				t.Errorf("said (-want +got):\n%s", d)
			}
		})
	}
}

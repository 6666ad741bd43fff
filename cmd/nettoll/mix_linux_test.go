package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// Clients beside a bulk transfer get fewer answers than alone, because they share its CPUs. The load has many clients:
// a single one that waits for each answer would not show it, because the neighbour keeps its CPUs awake. Both members
// have figures, in the same trials, and verdicts of their own.
func TestMix(t *testing.T) {
	testnet.Root(t)
	// Other work of the machine may disturb only one of the two. The processes of a run begin and end within the try.
	witness.Until(t, witness.Limit{Lost: 50 * time.Millisecond, Share: 0.05}, func() error {
		if ratio := besideAndAlone(t); ratio >= 0.9 {
			return fmt.Errorf("clients beside a bulk transfer get %.3f of the answers they get alone, want less than 0.9",
				ratio)
		}
		return nil
	})
}

// besideAndAlone returns the rate of answers over a bridge beside a stream, divided by the rate alone, from the same
// blocks.
func besideAndAlone(t *testing.T) float64 {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	out := nettoll(t, "run", "-o", dir, "--time", "2s", "--network", "bridge", "--placement", "same-host", "--pairs",
		"1,2", "--workload", "mix(kv,tcp-stream)", "--workload", "kv")
	if out.status != 0 {
		t.Fatalf("exit status %d: %s", out.status, out.stderr)
	}
	data, _, err := report.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	const kv, bulk = "kv(payload=1024,operation=get,clients=50)", "tcp-stream(message=131072)"
	const mix = "bridge/same-host/2/mix(" + kv + "*1," + bulk + "*1):"
	requests, stream, alone := mix+kv, mix+bulk, "bridge/same-host/1/"+kv
	figure := map[string]float64{}
	for _, r := range data.Analysis.Rows {
		if r.Metric == r.Cell.Primary {
			figure[r.Cell.ID] = r.Value
			if r.Verdict == measure.HasFailed {
				t.Errorf("%s: %s", r.Cell.ID, r.Verdict)
			}
		}
	}
	for _, id := range []string{requests, stream, alone} {
		if !(figure[id] > 0) {
			t.Errorf("%s: %v", id, figure[id])
		}
	}
	for _, base := range []string{requests, stream} {
		twin := strings.Replace(base, "bridge", "host", 1) + "#2"
		if !slices.ContainsFunc(data.Analysis.Floors, func(f measure.GroupFloor) bool { return f.Twin == twin }) {
			t.Errorf("no floor from %s", twin)
		}
	}
	together(t, data.Log, requests, stream)
	return figure[requests] / figure[alone]
}

// together checks that two cells were measured in the same trials.
func together(t *testing.T, log *measure.Log, a, b string) {
	t.Helper()
	starts := map[string]map[int]float64{a: {}, b: {}}
	for _, one := range log.Trials {
		if m := starts[one.Cell]; m != nil {
			m[one.Block] = one.Start
		}
	}
	if len(starts[a]) == 0 || len(starts[a]) != len(starts[b]) {
		t.Errorf("%d trials of %s, and %d of %s", len(starts[a]), a, len(starts[b]), b)
	}
	for block, start := range starts[a] {
		if starts[b][block] != start {
			t.Errorf("block %d: one begins at %v s, the other at %v s", block, start, starts[b][block])
		}
	}
}

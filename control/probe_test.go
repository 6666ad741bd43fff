package control

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/probe/probetest"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/workload"
)

func schedulerOf(cells ...measure.Cell) *scheduler {
	s := &scheduler{
		gone: map[int]string{}, may: map[int]bool{}, order: rand.New(rand.NewPCG(1, 1)),
		workload: &workloadControl{}, wake: &wake{},
	}
	for i, c := range cells {
		s.cells = append(s.cells, experiment.Cell{Cell: c, Visit: i})
		s.workload.visits = append(s.workload.visits, experiment.Visit{ID: c.ID, Cells: []int{i}})
	}
	s.workload.cells = s.cells
	return s
}

// Within a block all cells with the probe follow each other, before or after all others, and none is lost.
func TestStretches(t *testing.T) {
	s := schedulerOf(measure.Cell{}, measure.Cell{Probe: "softirq"}, measure.Cell{}, measure.Cell{Probe: "softirq"})
	first := map[bool]int{}
	for range 100 {
		parts := s.stretches([]int{3, 0, 2, 1})
		if len(parts) != 2 {
			t.Fatalf("%v", parts)
		}
		with := 0
		if parts[0][0] != 3 {
			with = 1
		}
		first[with == 0]++
		if diff := cmp.Diff([][]int{{3, 1}, {0, 2}}, [][]int{parts[with], parts[1-with]}); diff != "" {
			t.Fatalf("with and without the probe (-want +got):\n%s", diff)
		}
	}
	if first[true] < 30 || first[false] < 30 {
		t.Errorf("of 100 blocks %d begin with the probe and %d without", first[true], first[false])
	}
	if parts := s.stretches(nil); len(parts) > 0 {
		t.Errorf("of nothing: %v", parts)
	}
	for _, order := range [][]int{{2, 0}, {1, 3}} {
		if diff := cmp.Diff([][]int{order}, s.stretches(order)); diff != "" {
			t.Errorf("one kind alone (-want +got):\n%s", diff)
		}
	}
}

// A cell that is precise enough takes the same cell with the probe with it; probed cells are none that a run waits for.
func TestLeave(t *testing.T) {
	s := schedulerOf(
		measure.Cell{ID: "a"}, measure.Cell{ID: "a#2", Baseline: "a", Twin: true}, measure.Cell{ID: "b", Baseline: "a"},
		measure.Cell{ID: "c", Baseline: "a"},
		measure.Cell{ID: "a+p", Probe: "p", Unprobed: "a"}, measure.Cell{
			ID: "b+p", Baseline: "a+p", Probe: "p", Unprobed: "b",
		},
		measure.Cell{ID: "c+p", Baseline: "a+p", Probe: "p", Unprobed: "c"},
	)
	s.gone[6] = "it failed"
	if s.done() {
		t.Error("two cells are waited for")
	}
	s.leave("b", precise)
	if got := s.active(); !slices.Equal(got, []int{0, 1, 3, 4}) || s.done() {
		t.Errorf("%v are still measured, done %t", got, s.done())
	}
	s.leave("c", precise)
	if !s.done() || s.gone[3] != precise || s.gone[6] != "it failed" {
		t.Errorf("gone: %v", s.gone)
	}
}

// A trial without a probe during which the probe counted says so.
func TestProbed(t *testing.T) {
	plain, with := experiment.Cell{}, experiment.Cell{Cell: measure.Cell{Probe: "fake"}}
	for _, c := range []struct {
		cell             experiment.Cell
		counted          int64
		warnings, metric int
	}{{plain, 0, 0, 0}, {plain, 1000, 1, 0}, {with, 1000, 0, 1}} {
		r := workload.Result{Metrics: map[string]float64{}}
		probed(&r, probetest.Fake{}, c.cell, workload.Trial{}, c.counted)
		if len(r.Warnings) != c.warnings || len(r.Metrics) != c.metric {
			t.Errorf("probe %q, %d counted: %+v", c.cell.Probe, c.counted, r)
		}
	}
}

// remote is a probe that is on the machines of hosts, and cannot be loaded by this process.
type remote struct{ probetest.Fake }

func (remote) Load() (probe.Loaded, error) { return nil, errors.New("loaded by the controller") }

// The deployment loads and switches the probe, and not the controller: it counts in every probed trial and in no other.
func TestDeploymentLoadsProbe(t *testing.T) {
	r := imagined(t, netns.Runtime{}, func(e *experiment.Experiment) { e.Design.Probe = "fake" })
	fake := &labtest.Fake{}
	out, err := Run(t.Context(), Options{Resolved: r, Deployment: fake})
	if err != nil {
		t.Fatal(err)
	}
	with, without := 0, 0
	for _, x := range out.Log.Trials {
		count, probed := x.Metrics["fake_count"]
		if probed != strings.HasSuffix(x.Cell, "+fake") || probed && count != 1 || len(x.Warnings) > 0 {
			t.Errorf("trial of %s: counted %v, warnings %q", x.Cell, count, x.Warnings)
		}
		if probed {
			with++
		} else {
			without++
		}
	}
	if with == 0 || without == 0 || fake.Probed() {
		t.Errorf("%d trials with the probe and %d without, still loaded: %t", with, without, fake.Probed())
	}
	if err := TryProbe(remote{}, fake); err != nil || fake.Probed() {
		t.Errorf("try: %v, still loaded: %t", err, fake.Probed())
	}
	blind := &labtest.Fake{Blind: &linux.UnsupportedError{What: "load a probe", Missing: "root on node2"}}
	for _, err := range []error{TryProbe(remote{}, blind), func() error {
		_, err := Run(t.Context(), Options{Resolved: r, Deployment: blind})
		return err
	}()} {
		if !errors.Is(err, blind.Blind) {
			t.Errorf("error %v, want %v", err, blind.Blind)
		}
	}
}

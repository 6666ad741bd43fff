package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/runtime/netns"
)

// pending is what a lab waits for.
const pending = "pod \"x\": it has no node"

// A lab whose building waits too long is lost alone, with what it has waited for. The others are measured, and the run
// ends with what it has. No part of it takes longer than the patience for one lab.
func TestLate(t *testing.T) {
	for _, c := range []struct {
		name    string
		waits   func(lab string, n int) bool
		built   map[string]int
		lost    map[string]int    // generations, by lab
		dropped map[string]string // reasons, by lab
		blocks  int
		err     string
	}{
		{
			name:  "one lab in one generation",
			waits: func(lab string, n int) bool { return lab == otherLab && n == 2 },
			built: map[string]int{baseLab: 5, otherLab: 5}, lost: map[string]int{otherLab: 1}, blocks: 5,
		},
		{
			name:  "one lab from the second generation on",
			waits: func(lab string, n int) bool { return lab == otherLab && n > 1 },
			built: map[string]int{baseLab: 4, otherLab: 4}, lost: map[string]int{otherLab: 3}, blocks: 4,
			dropped: map[string]string{otherLab: "lost in 3 consecutive generations, the last time because build lab " + otherLab},
		},
		{
			name:  "one lab from the first generation on",
			waits: func(lab string, _ int) bool { return lab == otherLab },
			built: map[string]int{baseLab: 1, otherLab: 1}, blocks: 1,
			dropped: map[string]string{otherLab: "build lab " + otherLab + ": " + pending},
		},
		{
			name:  "all labs in one generation",
			waits: func(_ string, n int) bool { return n == 2 },
			built: map[string]int{baseLab: 5, otherLab: 5}, lost: map[string]int{baseLab: 1, otherLab: 1}, blocks: 4,
		},
		{
			name:  "the baseline in one generation",
			waits: func(lab string, n int) bool { return lab == baseLab && n == 2 },
			built: map[string]int{baseLab: 5, otherLab: 5}, lost: map[string]int{baseLab: 1}, blocks: 4,
		},
		{
			name:  "the baseline from the second generation on",
			waits: func(lab string, n int) bool { return lab == baseLab && n > 1 },
			built: map[string]int{baseLab: 4, otherLab: 4}, lost: map[string]int{baseLab: 3}, blocks: 1,
			dropped: map[string]string{baseLab: "lost in 3 consecutive generations"},
			err:     "baseline base/cross-host/2/udp-rr(payload=64,mode=wait): lost in 3 consecutive generations",
		},
		{
			name:  "the baseline from the first generation on",
			waits: func(lab string, _ int) bool { return lab == baseLab },
			built: map[string]int{baseLab: 1, otherLab: 1}, dropped: map[string]string{baseLab: pending},
			err: "baseline base/cross-host/2/udp-rr(payload=64,mode=wait): build lab base/cross-host/2: " + pending,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := &labtest.Fake{Waits: func(lab string, n int) string {
					if c.waits(lab, n) {
						return pending
					}
					return ""
				}}
				r := imagined(t, netns.Runtime{})
				began := time.Now()
				out, err := Run(t.Context(), Options{Resolved: r, Deployment: fake})
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				if left := fake.Left(); len(left) > 0 {
					t.Errorf("these labs still stand: %q", left)
				}
				built := fake.Built()
				delete(built, baseLab+"#2")
				if diff := cmp.Diff(c.built, built); diff != "" {
					t.Errorf("built (-want +got):\n%s", diff)
				}
				lost, waited := map[string]int{}, 0
				for _, g := range out.Log.Generations {
					if len(g.Lost) > 0 {
						waited++
					}
					for lab, reason := range g.Lost {
						lost[lab]++
						if !strings.Contains(reason, "build lab "+lab+": "+pending) || !strings.Contains(reason, "it was not built within ") {
							t.Errorf("lab %s is lost because %q", lab, reason)
						}
					}
				}
				delete(lost, baseLab+"#2")
				if diff := cmp.Diff(c.lost, lost); diff != "" && len(c.lost)+len(lost) > 0 {
					t.Errorf("lost (-want +got):\n%s", diff)
				}
				for lab, reason := range c.dropped {
					if why := dropped(r, out, lab); !strings.Contains(why, reason) {
						t.Errorf("lab %s is not measured any more because %q, want %q", lab, why, reason)
					}
				}
				if len(out.Dropped) > 0 && c.dropped == nil || len(out.Log.Blocks) != c.blocks {
					t.Errorf("%d blocks, not measured any more: %v; want %d blocks", len(out.Log.Blocks), out.Dropped, c.blocks)
				}
				if most := time.Duration(max(1, waited)) * (patience(r) + time.Second); time.Since(began) > most {
					t.Errorf("it has taken %v, with %d generations that have waited; want at most %v", time.Since(began), waited, most)
				}
				interrupted := c.err != "" && out.End.Why != measure.EndFailed || out.Interrupted
				if interrupted {
					t.Errorf("it ended because %+v, interrupted %v", out.End, out.Interrupted)
				}
			})
		})
	}
}

// dropped says why a cell of a lab is not measured any more.
func dropped(r *experiment.Resolved, out *Outcome, lab string) string {
	for _, cell := range r.Cells {
		if r.Labs[cell.Lab].ID == lab {
			return out.Dropped[cell.ID]
		}
	}
	return ""
}

// If the baseline of one placement is lost, the others are measured to the end, also when the run is resumed from
// records of that.
func TestBaselineLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := imagined(t, netns.Runtime{}, func(e *experiment.Experiment) {
			e.Factors.Placements = []experiment.Placement{experiment.SameHost, experiment.CrossHost}
			e.Design.Generations = 7
		})
		fake := &labtest.Fake{Waits: func(lab string, n int) string {
			if lab == baseLab && n > 1 {
				return pending
			}
			return ""
		}}
		out, err := Run(t.Context(), Options{Resolved: r, Deployment: fake})
		if err != nil || out.End.Why != measure.EndTime {
			t.Errorf("%v, it ended with %q; want that the time was up", err, out.End.Why)
		}
		good := map[string]int{}
		for _, x := range out.Log.Trials {
			if x.Failed == "" {
				good[x.Cell]++
			}
		}
		const params = "/udp-rr(payload=64,mode=wait)"
		for id, want := range map[string]int{
			"base/same-host/2" + params: 7, "other/same-host/2" + params: 7, baseLab + params: 1, otherLab + params: 1,
		} {
			if good[id] != want {
				t.Errorf("%s: %d trials that count, want %d", id, good[id], want)
			}
		}
		for lab, want := range map[string]string{
			baseLab: "lost in 3 consecutive generations", otherLab: "its baseline is lost", "base/same-host/2": "", "other/same-host/2": "",
		} {
			if got := dropped(r, out, lab); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("lab %s is not measured any more because %q, want %q", lab, got, want)
			}
		}
		if n := fake.Built()[otherLab]; n != 4 {
			t.Errorf("lab %s was built %d times, want 4: the baseline was lost in 3", otherLab, n)
		}
		s := &scheduler{
			options: Options{Resolved: r}, cells: r.Cells, past: &out.Log, gone: map[int]string{}, missed: map[int]int{},
			stood: map[int]bool{}, records: &aggregator{run: out.Run, cells: r.Cells}, monitor: newMonitor(nil),
		}
		for _, g := range out.Log.Generations {
			s.recall(g)
			if err := s.baselines(); err != nil {
				t.Errorf("resumed after generation %d: %v", g.Generation, err)
			}
		}
	})
}

// Labs that wait do not use up the time of those that are built after them, however many there are.
func TestLateMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := imagined(t, netns.Runtime{}, func(e *experiment.Experiment) { e.Factors.Pairs = []int{1, 2, 3, 4, 5, 6} })
		last := r.Labs[len(r.Labs)-1].ID
		fake := &labtest.Fake{Waits: func(lab string, _ int) string {
			if lab == last {
				return ""
			}
			return pending
		}}
		conf := &configurator{resolved: r, deployment: fake, cpus: []int{0, 1}}
		cells := make([]int, len(r.Cells))
		for i := range cells {
			cells[i] = i
		}
		if len(r.Labs) <= 2*builders {
			t.Fatalf("%d labs: they are built at once", len(r.Labs))
		}
		began := time.Now()
		g, failed, err := conf.build(t.Context(), firstGeneration, cells)
		if err != nil {
			t.Fatal(err)
		}
		defer g.close()
		if len(failed) != len(r.Labs)-1 || g.labs[len(r.Labs)-1] == nil {
			t.Errorf("%d of %d labs failed: %v; want all but the last", len(failed), len(r.Labs), failed)
		}
		if took, most := time.Since(began), patiences*patience(r); took > most {
			t.Errorf("it has taken %v, want at most %v", took, most)
		}
	})
}

// However many labs wait, a generation has a limit. Labs whose turn does not come by then are lost with the others.
func TestLateAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := imagined(t, netns.Runtime{}, func(e *experiment.Experiment) {
			for pairs := range 20 {
				e.Factors.Pairs = append(e.Factors.Pairs, pairs+1)
			}
		})
		if len(r.Labs) <= patiences*builders {
			t.Fatalf("%d labs: the turn of each comes", len(r.Labs))
		}
		conf := &configurator{
			resolved: r, deployment: &labtest.Fake{Waits: func(string, int) string { return pending }}, cpus: []int{0, 1},
		}
		cells := make([]int, len(r.Cells))
		for i := range cells {
			cells[i] = i
		}
		began := time.Now()
		g, failed, err := conf.build(t.Context(), firstGeneration, cells)
		if err != nil {
			t.Fatal(err)
		}
		defer g.close()
		if took, most := time.Since(began), patiences*patience(r); took > most || len(failed) != len(r.Labs) {
			t.Errorf("%d of %d labs failed in %v, want all in at most %v", len(failed), len(r.Labs), took, most)
		}
		for lab, err := range failed {
			if !strings.Contains(err.Error(), "it was not built within ") {
				t.Errorf("lab %d failed because %v", lab, err)
			}
		}
	})
}

// An interruption ends the run while labs wait, and costs none of them.
func TestLateInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := &labtest.Fake{Waits: func(lab string, n int) string {
			if lab == otherLab && n == 2 {
				return pending
			}
			return ""
		}}
		stop := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		out, err := Run(ctx, Options{Resolved: imagined(t, netns.Runtime{}), Deployment: fake})
		if err != nil || !out.Interrupted || out.End.Why != measure.EndInterrupted || len(out.Log.Blocks) != 1 ||
			len(out.Dropped) > 0 || len(out.Log.Generations) != 1 || out.Log.Generations[0].Lost != nil {
			t.Errorf("%v, end %+v, %d blocks, dropped %v, generations %+v; want one block and the interruption", err, out.End,
				len(out.Log.Blocks), out.Dropped, out.Log.Generations)
		}
		if left := fake.Left(); len(left) > 0 {
			t.Errorf("these labs still stand: %q", left)
		}
	})
}

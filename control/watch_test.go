package control

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/runtime/netns"
)

// What an audit finds is a proof that failed, with the blocks and the time: the lab is not measured any more, and its
// trials of the generation do not count. Labs in which nothing is found have a proof that holds.
func TestFoundWhileMeasured(t *testing.T) {
	const found = "link leak0: added (veth, number 9)"
	for _, c := range []struct {
		name    string
		in      string // the lab in which something is found
		nth     int    // by which of its audits: two in each generation
		blocks  []int  // that it has touched
		failed  bool   // the run: nothing is left to compare with
		holding int    // generations of the other network that were watched and clean
	}{
		{name: "nothing", holding: 5},
		{name: "in the second generation", in: otherLab, nth: 3, blocks: []int{1, 1}, holding: 1},
		{name: "after the last block of the first", in: otherLab, nth: 2, blocks: []int{0, 0}},
		{name: "in the baseline", in: baseLab, nth: 1, blocks: []int{0, 0}, failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := &labtest.Fake{Changes: func(lab string, n int) []string {
				if lab == c.in && n == c.nth {
					return []string{found}
				}
				return nil
			}}
			out, err := Run(t.Context(), Options{Resolved: imagined(t, netns.Runtime{}), Deployment: fake})
			if (err != nil) != c.failed {
				t.Fatalf("error %v, want one: %v", err, c.failed)
			}
			held := 0
			var broken []measure.Proof
			for _, p := range out.Log.Proofs {
				switch {
				case p.Name != proof.Watched:
				case p.OK && p.Lab == otherLab:
					held++
				case !p.OK:
					broken = append(broken, p)
				}
			}
			if held != c.holding && !c.failed {
				t.Errorf("the other network was watched and clean in %d generations, want %d", held, c.holding)
			}
			if c.in == "" {
				if len(broken) > 0 {
					t.Errorf("nothing was found, and these failed: %+v", broken)
				}
				return
			}
			if len(broken) != 1 || broken[0].Lab != c.in || broken[0].When != "during" || !slices.Equal(broken[0].Touched, c.blocks) ||
				!strings.Contains(broken[0].Detail, found) || broken[0].Until < broken[0].Since {
				t.Errorf("proofs that failed are %+v, want one of %s, of blocks %v", broken, c.in, c.blocks)
			}
			if left := fake.Left(); len(left) > 0 {
				t.Errorf("these labs are left: %q", left)
			}
		})
	}
}

// A lab of which nothing is to be proved is measured like any other, but nobody tries or audits it.
func TestUnproven(t *testing.T) {
	audits := map[string]int{}
	fake := &labtest.Fake{Changes: func(lab string, _ int) []string {
		audits[lab]++
		return nil
	}}
	r := imagined(t, netns.Runtime{})
	out, err := Run(t.Context(), Options{
		Resolved: r, Deployment: fake, Unproven: func(lab int) bool { return r.Labs[lab].ID == otherLab },
	})
	if err != nil {
		t.Fatal(err)
	}
	proofs, trials := map[string]int{}, map[string]int{}
	for _, p := range out.Log.Proofs {
		proofs[p.Lab]++
	}
	for _, c := range out.Run.Cells {
		for _, x := range out.Log.Trials {
			if x.Cell == c.ID {
				trials[c.Lab]++
			}
		}
	}
	nobody := proofs[otherLab]+audits[otherLab] == 0
	if !nobody || trials[otherLab] == 0 || proofs[baseLab] == 0 || audits[baseLab] == 0 {
		t.Errorf("proofs %v, audits %v, trials %v", proofs, audits, trials)
	}
}

// What audits look at in turns may have come after the last audit that looked at it: the blocks and the time that are
// said begin there.
func TestTouchedBlocks(t *testing.T) {
	second := int64(time.Second)
	s := &scheduler{blocks: 6, monitor: &monitor{started: second}}
	l := &lab{Lab: experiment.Lab{ID: "lab"}, generation: &generation{number: 1}, watch: &labWatch{clean: []clean{
		{2, 3 * second}, {3, 4 * second}, {4, 5 * second}, {5, 6 * second},
	}}}
	for _, c := range []struct {
		back  int
		since float64
		block int
	}{{0, 5, 5}, {1, 5, 5}, {2, 4, 4}, {4, 2, 2}, {9, 2, 2}} {
		p := s.refuted(l, &audited{changes: []string{"something"}, back: c.back}, 7*second)
		if len(p) != 1 || p[0].Since != c.since || p[0].Until != 6 || !slices.Equal(p[0].Touched, []int{c.block, 5}) {
			t.Errorf("%d audits back: %+v, want from %v s and block %d to 6 s and block 5", c.back, p, c.since, c.block)
		}
	}
}

// A lab is known to be clean from when an audit of it began: what comes while it is audited may be found by the next one.
func TestCleanSince(t *testing.T) {
	var asked int64
	l := &lab{stands: struct{ deploy.Lab }{}, watch: &labWatch{clean: []clean{{}}, by: auditor{
		asked: func() { asked = clock.Now() },
	}}}
	s := &scheduler{blocks: 3, monitor: &monitor{}}
	if err := s.audit(t.Context(), &generation{labs: []*lab{l}}, nil, false); err != nil {
		t.Fatal(err)
	}
	if c := l.watch.clean; len(c) != 2 || c[1].block != 3 || c[1].at > asked {
		t.Errorf("clean: %+v, want it from before %d, when the lab was asked", c, asked)
	}
}

// An auditor is a lab in which audits find nothing.
type auditor struct {
	deploy.Lab
	asked func()
}

func (auditor) Watch(context.Context, bool) error { return nil }

func (a auditor) Audit(context.Context, bool) ([]deploy.Audit, error) {
	a.asked()
	return nil, nil
}

// What arrived between blocks is a claim of its own, also if something has changed as well: it is a leak, and the
// change alone is none.
func TestRefuted(t *testing.T) {
	s := &scheduler{blocks: 1, monitor: &monitor{}}
	l := &lab{Lab: experiment.Lab{ID: "lab"}, generation: &generation{}, watch: &labWatch{clean: []clean{{}}}}
	for _, c := range []struct {
		found audited
		want  []string
	}{
		{audited{}, nil},
		{audited{changes: []string{"a rule"}}, []string{proof.Watched}},
		{audited{arrived: 2}, []string{proof.Sampled}},
		{audited{changes: []string{"a rule"}, arrived: 2}, []string{proof.Sampled, proof.Watched}},
	} {
		var got []string
		for _, p := range s.refuted(l, &c.found, 1) {
			if got = append(got, p.Name); p.OK || strings.Contains(p.Detail, "a rule") != (p.Name == proof.Watched) {
				t.Errorf("%+v", p)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d changes, %d arrived: %v, want %v", len(c.found.changes), c.found.arrived, got, c.want)
		}
	}
}

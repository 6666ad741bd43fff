package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
)

// Each lab but the twin has a record of attacks, also if it could not be attacked (that of the fake answers nothing), or
// was not measured to the end. A run that makes none has no record, and neither has a lab whose attacks are interrupted.
func TestAttacksOfARun(t *testing.T) {
	for _, c := range []struct {
		name      string
		attacks   []attack.Attack
		interrupt bool
		want      map[string]string // why labs were not attacked
	}{
		{"none", nil, false, nil},
		{"interrupted", []attack.Attack{threat.Ports}, true, nil},
		{"attacked", []attack.Attack{threat.Ports}, false, map[string]string{
			"host/same-host/1": "its proofs fail", "bridge/same-host/1": "it was not measured to the end: planted",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := simulated(t, 2*time.Second)
			r.Experiment.Proof.Attacks = c.attacks
			m := &simulation{noise: 0.01, used: map[int]bool{}, after: func(int) {}}
			out, err := Run(ctx, Options{
				Resolved: r, Parts: mixParts(), Deployment: &labtest.Fake{},
				Observe: func(p Progress) {
					if c.interrupt && p.Phase == "attack" {
						cancel()
					}
				},
				perform: func(ctx context.Context, s *scheduler, number, blocks int, must bool) error {
					err := m.perform(ctx, s, number, blocks, must)
					if number == r.Experiment.Design.Generations {
						s.drop(slices.IndexFunc(s.options.Resolved.Labs, func(l experiment.Lab) bool {
							return strings.HasPrefix(l.ID, "bridge")
						}), errors.New("planted"))
					}
					return err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if out.Interrupted != c.interrupt {
				t.Errorf("interrupted: %t", out.Interrupted)
			}
			got := map[string]string{}
			for _, x := range out.Log.Attacks {
				got[x.Lab] = x.NotTried
				if x.Generation != 0 {
					t.Errorf("lab %s was attacked as it stood in generation %d, want none", x.Lab, x.Generation)
				}
			}
			if len(got) != len(c.want) {
				t.Fatalf("records %q, want %q", got, c.want)
			}
			for lab, why := range c.want {
				if !strings.Contains(got[lab], why) {
					t.Errorf("lab %s: %q, want %q in it", lab, got[lab], why)
				}
			}
		})
	}
}

// A lab is built for attacks once more if a call got no answer in time, and not after another error, or a second time.
func TestBuiltAgain(t *testing.T) {
	late := fmt.Errorf("build lab bridge/same-host/1: %w", context.DeadlineExceeded)
	other := errors.New("no bridge")
	for _, c := range []struct {
		name    string
		results []error // of builds
		want    error
		builds  int
		says    int
	}{
		{"late", []error{late, nil}, nil, 2, 1},
		{"late twice", []error{late, late}, late, 2, 1},
		{"another error", []error{other, nil}, other, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			builds, says := 0, 0
			a := &Attacker{build: func(context.Context, *experiment.Resolved, []attack.Attack, bool, observer,
			) (Attacked, error) {
				builds++
				return Attacked{}, c.results[builds-1]
			}}
			_, err := a.built(t.Context(), nil, nil, false, func(string) { says++ }, "")
			if !errors.Is(err, c.want) || builds != c.builds || says != c.says {
				t.Errorf("%v after %d builds, said %d times; want %v, %d, %d", err, builds, says, c.want, c.builds, c.says)
			}
		})
	}
}

// A record has what came of an attack in both families, and from which side it was.
func TestRecords(t *testing.T) {
	got := Records([]attack.Result{
		{
			Attack: threat.Guise, Claimed: true, Verdict: attack.Broken,
			Lab: []attack.Outcome{
				{Family: "ipv4", Sent: 4, Arrived: 1, Holes: []string{"it arrives"}}, {Family: "ipv6", Sent: 2},
			},
			Control: []attack.Outcome{{Family: "ipv4", Sent: 4, Arrived: 4}, {Family: "ipv6", Sent: 2, Arrived: 2}},
		},
		{Attack: threat.WireSniff, Verdict: attack.NotTried, Why: "one host", NotClaimed: []string{"nothing hides it"}},
	})
	want := []measure.Attack{
		{
			Attack: "guise", Claimed: true, Verdict: measure.AttackBroken, Arrived: 1, Sent: 6,
			Holes: []string{"ipv4: it arrives"}, ControlArrived: 6, ControlSent: 6,
		},
		{
			Attack: "wire-sniff", Wire: true, Verdict: measure.AttackNotTried, Why: "one host",
			NotClaimed: []string{"nothing hides it"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

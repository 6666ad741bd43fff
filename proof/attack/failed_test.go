package attack_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
)

// If a namespace of a lab cannot be opened, whichever that is, no attack is made, and none was withstood.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "bridge/same-host/2")
	target.Claims = threat.Withstands(threat.All()...)
	open, gone := target.Open, errors.New("the host is gone")
	const namespaces = 5 // the host's and those of four containers
	for n := range namespaces + 1 {
		calls := 0
		target.Open = func(host int, namespace string) (*os.File, error) {
			if calls++; calls == n+1 {
				return nil, gone
			}
			return open(host, namespace)
		}
		attacks := []attack.Attack{threat.Ports, threat.Abstract, threat.Guise}
		outcomes, err := attack.Run(t.Context(), target, attacks)
		if err != nil {
			t.Fatal(err)
		}
		if want := 5; len(outcomes) != want { // one has no family
			t.Errorf("call %d fails: %d outcomes, want %d", n+1, len(outcomes), want)
		}
		for _, r := range target.Judge(attacks, outcomes, nil) {
			if failed := n < namespaces; failed != (r.Verdict == attack.Untold && strings.Contains(r.Why, gone.Error())) {
				t.Errorf("call %d fails: %s: %s (%s)", n+1, r.Attack, r.Verdict, r.Why)
			}
		}
	}
}

// If an attack fails, it is judged by what has arrived before, and of those after it nothing can be told.
func TestAttackFails(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "bridge/same-host/2")
	target.Claims = threat.Withstands(threat.Types, threat.Replies, threat.Errors)
	target.Observe = func(a attack.Attack, family string) {
		if a == threat.Replies && family == "ipv6" {
			setLink(t, target, false)
		}
	}
	attacks := []attack.Attack{threat.Ports, threat.Types, threat.Replies, threat.Errors, threat.Guise}
	outcomes, err := attack.Run(t.Context(), target, attacks)
	if err != nil {
		t.Fatal(err)
	}
	want := map[attack.Attack]attack.Verdict{
		threat.Ports: attack.Open, threat.Types: attack.Broken, threat.Replies: attack.Broken,
		threat.Errors: attack.Untold, threat.Guise: attack.Untold,
	}
	for _, r := range target.Judge(attacks, outcomes, nil) {
		if r.Verdict != want[r.Attack] || len(r.Lab) != 2 {
			t.Errorf("%s: %s (%s), %d outcomes; want %s", r.Attack, r.Verdict, r.Why, len(r.Lab), want[r.Attack])
		}
		if r.Verdict == attack.Untold && !strings.Contains(r.Why, `attack "replies", ipv6: `) {
			t.Errorf("%s cannot be told: %s", r.Attack, r.Why)
		}
	}
	// What was not made on a control shows nothing.
	target.Claims = threat.Withstands(threat.Errors)
	lab := []attack.Outcome{{Attack: threat.Errors, Sent: 4}}
	r := target.Judge([]attack.Attack{threat.Errors}, lab, &attack.Control{Outcomes: outcomes})[0]
	if r.Verdict != attack.Untold || !strings.HasPrefix(r.Why, "on the control: ") {
		t.Errorf("with a control that failed: %s (%s)", r.Verdict, r.Why)
	}
}

// setLink sets the links of a lab's containers up or down.
func setLink(t *testing.T, target attack.Target, up bool) {
	t.Helper()
	for i, h := range target.Hosts {
		for _, c := range h.Containers {
			ns, err := target.Open(i, c.Namespace)
			if err != nil {
				t.Error(err)
				return
			}
			err = netns.Do(int(ns.Fd()), func() error {
				h, err := link.Open()
				if err != nil {
					return err
				}
				defer h.Close()
				l, err := h.ByName(c.Inner)
				if err != nil {
					return err
				}
				return h.SetUp(l.Index, up)
			})
			if err := errors.Join(err, ns.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// An attack that takes longer than its limit is given up: one that sends as soon as it sends again, one that hangs
// after a while.
func TestLimit(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "bridge/same-host/2")
	target.Claims = threat.Withstands(threat.All()...)
	attacks := []attack.Attack{threat.Ports, threat.Guise}
	for _, hangs := range []bool{false, true} {
		target.Limit = time.Nanosecond
		goOn, began := make(chan struct{}), time.Now()
		target.Observe = func(attack.Attack, string) {
			if hangs {
				<-goOn
			}
		}
		outcomes, err := attack.Run(t.Context(), target, attacks)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); hangs && took > time.Minute {
			t.Errorf("an attack that hangs is given up after %v", took)
		}
		close(goOn)
		if len(outcomes) != 4 {
			t.Errorf("%d outcomes, want 4", len(outcomes))
		}
		for _, r := range target.Judge(attacks, outcomes, nil) {
			why := fmt.Sprintf("it takes longer than %v", target.Limit)
			if hangs {
				why += ", and does not end"
			}
			if r.Verdict != attack.Untold || !strings.HasSuffix(r.Why, why) {
				t.Errorf("it hangs: %t; %s: %s (%s), want it to end with %q", hangs, r.Attack, r.Verdict, r.Why, why)
			}
		}
	}
}

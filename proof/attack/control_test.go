package attack_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/proof/attack"
)

// stood builds a lab by its name.
func stood(t *testing.T, id string) (*control.LiveLab, attack.Target) {
	t.Helper()
	testnet.Root(t)
	labs, _ := stacks(t)
	i := slices.IndexFunc(labs, func(r *experiment.Resolved) bool { return r.Labs[0].ID == id })
	if i < 0 {
		t.Fatalf("there is no lab %s", id)
	}
	testnet.Skip(t, labs[i].Labs[0].Stack.Check())
	s, err := control.Stand(t.Context(), labs[i], &local.Deployment{})
	testnet.Skip(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	target, err := s.Target()
	if err != nil {
		t.Fatal(err)
	}
	return s, target
}

// Without a filter every attack on a bridge succeeds, in both families: what is refused elsewhere is not refused
// because the attack does not work.
func TestControls(t *testing.T) {
	for _, id := range []string{"bridge/same-host/2", "bridge/cross-host/3"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			_, target := stood(t, id)
			outcomes, err := attack.Run(t.Context(), target, attack.All())
			if err != nil {
				t.Fatal(err)
			}
			if want := 2 * len(attack.All()); len(outcomes) != want {
				t.Errorf("%d outcomes, want %d", len(outcomes), want)
			}
			for _, o := range outcomes {
				switch o.Attack {
				case attack.Answers, attack.Bypass: // there is nothing wrong with it
					if o.Arrived > 0 {
						t.Errorf("%s, %s: %q", o.Attack, o.Family, o.Holes)
					}
				default:
					if o.Arrived == 0 || o.Sent == 0 {
						t.Errorf("%s, %s: %d of %d arrive, want some", o.Attack, o.Family, o.Arrived, o.Sent)
					}
				}
			}
		})
	}
}

// A host whose own stack hears what its switch hears answers for the gateway too, and takes packets past the switch:
// both are noticed. It is what the network ovs did once.
func TestBypassIsNoticed(t *testing.T) {
	s, target := stood(t, "ovs(datapath=userspace)/cross-host/2") // the kernel's datapath takes the frames away itself
	before, err := attack.Run(t.Context(), target, []attack.Attack{attack.Answers, attack.Bypass})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range before {
		if o.Arrived > 0 {
			t.Errorf("%s, %s: %q", o.Attack, o.Family, o.Holes)
		}
	}
	for _, h := range s.Hosts[:s.Lab.Hosts] {
		ns, err := h.Namespace("")
		if err != nil {
			t.Fatal(err)
		}
		err = netns.Do(int(ns.Fd()), func() error { return ruleset.Delete("netdev", "nettoll-ports") })
		if err = errors.Join(err, ns.Close()); err != nil {
			t.Fatal(err)
		}
	}
	after, err := attack.Run(t.Context(), target, []attack.Attack{attack.Answers, attack.Bypass})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range after {
		if o.Family == "ipv4" && o.Arrived == 0 { // the ports have no IPv6 at all
			t.Errorf("%s, %s: nothing is noticed", o.Attack, o.Family)
		}
	}
}

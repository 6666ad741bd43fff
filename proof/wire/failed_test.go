package wire_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
)

// stood builds a lab across two hosts of a stack, and claims everything of it.
func stood(t *testing.T, of string) wire.Target {
	t.Helper()
	testnet.Root(t)
	all := labs(t)
	i := slices.IndexFunc(all, func(r *experiment.Resolved) bool { return r.Labs[0].ID == of+"/cross-host/1" })
	if i < 0 {
		t.Fatalf("there is no lab %s/cross-host/1", of)
	}
	s, err := control.Stand(t.Context(), all[i], &local.Deployment{})
	testnet.Skip(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	target := s.Wire()
	target.Guards = wire.Guards{Hidden: true, Authentic: true, Once: true, Exclusive: true}
	return target
}

// If a namespace of a lab cannot be opened, whichever that is, no attack is made, and none was withstood. What could
// not be told at all is not broken either, and the lab can be attacked afterwards.
func TestOpenFails(t *testing.T) {
	target := stood(t, "bridge")
	open, gone := target.Open, errors.New("the host is gone")
	const namespaces = 5 // of two containers, of the underlay, and of two hosts
	attacks := []attack.Attack{wire.Sniff, wire.Peer}
	for n := range namespaces + 1 {
		calls := 0
		target.Open = func(host int, namespace string) (*os.File, error) {
			if calls++; calls == n+1 {
				return nil, gone
			}
			return open(host, namespace)
		}
		out, err := wire.Run(t.Context(), target, attacks)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range target.Judge(attacks, out, nil) {
			want := attack.Untold
			if n == namespaces {
				want = attack.Broken
			}
			if r.Verdict != want || len(r.Lab) != 2 || want == attack.Untold && !strings.HasSuffix(r.Why, gone.Error()) {
				t.Errorf("call %d fails: %s: %s (%s), %d outcomes; want %s", n+1, r.Attack, r.Verdict, r.Why, len(r.Lab), want)
			}
		}
	}
}

// An attack that takes longer than its limit is given up, and those after it are not made.
func TestLimit(t *testing.T) {
	target := stood(t, "bridge")
	target.Limit = time.Nanosecond
	attacks := []attack.Attack{wire.Replay, wire.Plain}
	out, err := wire.Run(t.Context(), target, attacks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range target.Judge(attacks, out, nil) {
		why := fmt.Sprintf("it takes longer than %v", target.Limit)
		if r.Verdict != attack.Untold || len(r.Lab) != 2 || !strings.HasSuffix(r.Why, why) {
			t.Errorf("%s: %s (%s), %d outcomes, want it to end with %q", r.Attack, r.Verdict, r.Why, len(r.Lab), why)
		}
	}
}

// Nothing is changed and nothing is sent in the namespace of who attacks, whichever of those it is given for. That is a
// machine of the test's own here.
func TestForeignNamespace(t *testing.T) {
	target := stood(t, "bridge")
	machine := testnet.New(t)
	open := target.Open
	const namespaces = 5
	for n := range namespaces {
		calls := 0
		target.Open = func(host int, namespace string) (*os.File, error) {
			if calls++; calls == n+1 {
				return netns.Open(fmt.Sprintf("/proc/self/fd/%d", machine.NS.Fd()))
			}
			return open(host, namespace)
		}
		err := machine.Do(func() error {
			out, err := wire.Run(t.Context(), target, []attack.Attack{wire.Sniff})
			if len(out.List) > 0 {
				t.Errorf("namespace %d is that of who attacks: %d outcomes, want none", n+1, len(out.List))
			}
			return err
		})
		if !errors.Is(err, attack.ErrForeign) {
			t.Errorf("namespace %d is that of who attacks: %v, want %v", n+1, err, attack.ErrForeign)
		}
	}
}

// What goes around an encryption only while keys are renewed is read all the same.
func TestReadWhileRenewed(t *testing.T) {
	target := stood(t, "bridge+wireguard")
	rekey, sink := target.Rekey, target.Hosts[1].Containers[0].IPv4
	host, _ := network.UnderlayAddr(2)
	route := func(do func(*netlink.Route) error) error {
		ns, err := target.Open(0, "")
		if err != nil {
			return err
		}
		defer ns.Close()
		return netns.Do(int(ns.Fd()), func() error {
			return do(&netlink.Route{Dst: netlink.NewIPNet(sink.AsSlice()), Gw: host.Addr().AsSlice()})
		})
	}
	target.Families = []string{"ipv4"}
	target.Rekey = func(ctx context.Context) error {
		err := route(netlink.RouteAdd)
		time.Sleep(100 * time.Millisecond)
		return errors.Join(err, route(netlink.RouteDel), rekey(ctx))
	}
	out, err := wire.Run(t.Context(), target, []attack.Attack{wire.Sniff})
	if err != nil {
		t.Fatal(err)
	}
	r := target.Judge([]attack.Attack{wire.Sniff}, out, nil)[0]
	if r.Verdict != attack.Broken {
		t.Errorf("%s (%s), %+v; want %s", r.Verdict, r.Why, r.Lab, attack.Broken)
	}
}

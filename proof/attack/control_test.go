package attack_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/sysfs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
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
			outcomes, err := attack.Run(t.Context(), target, threat.All())
			if err != nil {
				t.Fatal(err)
			}
			if want := 2*len(threat.All()) - 1; len(outcomes) != want { // one has no family
				t.Errorf("%d outcomes, want %d", len(outcomes), want)
			}
			for _, o := range outcomes {
				switch o.Attack {
				case threat.Answers, threat.Bypass, threat.Abstract: // there is nothing wrong with it
					if o.Arrived > 0 {
						t.Errorf("%s, %s: %q", o.Attack, o.Family, o.Holes)
					}
				case threat.Listening, threat.MACFlood: // the switch has learned where everybody is: see TestHub
					if o.Sent == 0 {
						t.Errorf("%s, %s: nothing is sent", o.Attack, o.Family)
					}
				case threat.TableFull, threat.Starvation: // nobody tracks connections: see TestFullTable
					if o.NotTried == "" {
						t.Errorf("%s, %s: tried, without a table", o.Attack, o.Family)
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
	before, err := attack.Run(t.Context(), target, []attack.Attack{threat.Answers, threat.Bypass})
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
	after, err := attack.Run(t.Context(), target, []attack.Attack{threat.Answers, threat.Bypass})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range after {
		if o.Family == "ipv4" && o.Arrived == 0 { // the ports have no IPv6 at all
			t.Errorf("%s, %s: nothing is noticed", o.Attack, o.Family)
		}
	}
}

// On a switch that forgets at once where everybody is, a container hears what others send each other, with and without
// a flood of MAC addresses: what is not heard elsewhere is not unheard because nobody listens.
func TestHub(t *testing.T) {
	t.Parallel()
	s, target := stood(t, "bridge/same-host/2")
	ns, err := s.Hosts[0].Namespace("")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := netns.Do(int(ns.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		found, err := h.Survey()
		if err != nil {
			return err
		}
		for _, l := range found.Links {
			if l.Type == "bridge" {
				err = errors.Join(err, hub(l.Name))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	outcomes, err := attack.Run(t.Context(), target, []attack.Attack{threat.Listening, threat.MACFlood})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Arrived == 0 {
			t.Errorf("%s, %s: nothing is heard at a hub", o.Attack, o.Family)
		}
	}
}

// hub has a bridge forget at once what it learns.
func hub(name string) error {
	l, err := sysfs.Open()
	if err != nil {
		return err
	}
	defer l.Close()
	return l.Write(name, "bridge/ageing_time", "0")
}

// Containers that share the namespace of their host reach its abstract sockets.
func TestSharedNamespace(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "bridge/same-host/2")
	open := target.Open
	target.Open = func(host int, _ string) (*os.File, error) { return open(host, "") }
	for i := range target.Hosts {
		for j := range target.Hosts[i].Containers {
			target.Hosts[i].Containers[j].Inner = "lo"
		}
	}
	outcomes, err := attack.Run(t.Context(), target, []attack.Attack{threat.Abstract})
	if err != nil {
		t.Fatal(err)
	}
	if len(outcomes) != 1 || outcomes[0].Arrived != 4 || outcomes[0].Sent != 4 {
		t.Errorf("%+v, want that all four reach it", outcomes)
	}
}

// Two containers fill the table of connections of their host. Others have no room in it, whatever they may send, and
// nothing that is refused gets through. The table is empty afterwards.
func TestFullTable(t *testing.T) {
	t.Parallel()
	s, target := stood(t, "bridge+nftables(stateful=true)/same-host/2")
	outcomes, err := attack.Run(t.Context(), target, []attack.Attack{threat.TableFull, threat.Starvation})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		switch {
		case o.NotTried != "" || o.Sent == 0:
			t.Errorf("%s, %s: not tried: %s", o.Attack, o.Family, o.NotTried)
		case o.Attack == threat.TableFull && o.Arrived > 0:
			t.Errorf("the filter fails open: %q", o.Holes)
		case o.Attack == threat.Starvation && o.Arrived == 0:
			t.Errorf("%s: others still have room in a full table", o.Family)
		}
	}
	ns, err := s.Hosts[0].Namespace("")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var left []byte
	if err := netns.Do(int(ns.Fd()), func() (err error) {
		left, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(left))); err != nil || n > 10_000 {
		t.Errorf("%d connections are left: %v", n, err)
	}
}

// Where no pair may talk in a family, nobody can take over what it sends: that is said, and not that the lab is broken.
func TestOneFamily(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "bridge+nftables(antispoof=true)/same-host/2")
	target.Families = []string{"ipv4"}
	outcomes, err := attack.Run(t.Context(), target, []attack.Attack{threat.Takeover, threat.KnownErrors})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if tried := o.Family == "ipv4"; (o.Sent > 0) != tried || (o.NotTried == "") != tried || len(o.Missing) > 0 {
			t.Errorf("%+v, want it tried: %t", o, tried)
		}
	}
}

// Nothing is sent from the namespace of this process, nor by a network card.
func TestForeignLink(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "bridge/same-host/2")
	target.Open = func(int, string) (*os.File, error) { return netns.Open("/proc/self/ns/net") }
	if _, err := attack.Run(t.Context(), target, threat.All()); !errors.Is(err, attack.ErrForeign) {
		t.Errorf("%v, want %v", err, attack.ErrForeign)
	}
}

// Root of a container that may not send frames sends none: its tries are refused by its rights, and are none that a
// network or a filter has withstood. The counters of its link agree. With CAP_NET_RAW alone it sends them, and what
// takes no rights is tried in both.
func TestRights(t *testing.T) {
	_, target := stood(t, "bridge/same-host/2")
	target.Claims = threat.Withstands(threat.All()...)
	attacks := []attack.Attack{
		threat.Answers, threat.Ports, threat.Wrapped, threat.Fragments, threat.Listening, threat.Abstract, threat.Services,
		threat.FromHost, threat.Guise, threat.Takeover, threat.MACFlood,
	}
	free := []attack.Attack{threat.Abstract, threat.Services, threat.FromHost}
	for _, c := range []struct {
		name     string
		set      uint64
		confined bool
	}{{"with CAP_NET_RAW", 1 << 13, false}, {"without CAP_NET_RAW", ^uint64(1 << 13), true}} {
		for _, h := range target.Hosts {
			for i := range h.Containers {
				h.Containers[i].Capabilities = &c.set
			}
		}
		before := transmitted(t, target)
		outcomes, err := attack.Run(t.Context(), target, attacks)
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		for _, r := range target.Judge(attacks, outcomes, nil) {
			refused := c.confined && !slices.Contains(free, r.Attack)
			if got := r.Verdict == attack.Unsent; got != refused {
				t.Errorf("%s: %s is %q (%s)", c.name, r.Attack, r.Verdict, r.Why)
			}
			if refused && !strings.Contains(r.Why, "root send frames (CAP_NET_RAW)") {
				t.Errorf("%s: %s is refused because %q", c.name, r.Attack, r.Why)
			}
			for _, o := range r.Lab {
				if o.Unsent > 0 != refused || o.Sent > 0 == refused || refused && o.Arrived > 0 {
					t.Errorf("%s: %s, %s: %d sent, %d arrived, %d refused by rights", c.name, r.Attack, o.Family, o.Sent, o.Arrived,
						o.Unsent)
				}
				if r.Attack == threat.Guise && o.Arrived == 0 != c.confined {
					t.Errorf("%s: %d packets with the address of another container arrive, %s", c.name, o.Arrived, o.Family)
				}
				if !slices.Contains(free, r.Attack) {
					sent += o.Sent
				}
			}
		}
		// A container sends no frames by itself but those of neighbour discovery, ARP, and connections to services.
		if n := transmitted(t, target) - before; c.confined && n > 500 || !c.confined && n < uint64(sent) {
			t.Errorf("%s: containers have sent %d frames, and %d packets of attacks", c.name, n, sent)
		}
	}
}

// transmitted is how many frames the containers of a lab have sent.
func transmitted(t *testing.T, target attack.Target) (sum uint64) {
	t.Helper()
	for i, h := range target.Hosts {
		for _, c := range h.Containers {
			ns, err := target.Open(i, c.Namespace)
			if err != nil {
				t.Fatal(err)
			}
			err = netns.Do(int(ns.Fd()), func() error {
				l, err := link.Open()
				if err != nil {
					return err
				}
				defer l.Close()
				links, err := l.Traffic()
				for _, one := range links {
					if one.Name == c.Inner {
						sum += one.Sent
					}
				}
				return err
			})
			if err := errors.Join(err, ns.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sum
}

package attack_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/dump"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/nft/ruleset"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/internal/linux/sysfs"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
)

// run makes attacks on a lab, to the end of each.
func run(t *testing.T, target attack.Target, attacks ...attack.Attack) []attack.Outcome {
	t.Helper()
	outcomes, err := attack.Run(t.Context(), target, attacks)
	for _, o := range outcomes {
		if o.Failed != "" {
			err = errors.Join(err, errors.New(o.Failed))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

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

// Without a filter every attack on a bridge succeeds, in both families, and so does each kind of try: what is refused
// elsewhere is not refused because the attack does not work.
func TestControls(t *testing.T) {
	arrived := map[string]bool{} // by kind of try
	var mu sync.Mutex
	t.Run("labs", func(t *testing.T) {
		for _, id := range []string{"bridge/same-host/2", "bridge/cross-host/3"} {
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				_, target := stood(t, id)
				target.Seen(func(o attack.Outcome, what, each string, number uint16, came bool) {
					if what == "" {
						return // it puts right what others have learned
					}
					mu.Lock()
					defer mu.Unlock()
					k := kind(o, what, each, number)
					arrived[k] = arrived[k] || came
				})
				outcomes := run(t, target, threat.All()...)
				succeed(t, outcomes)
			})
		}
	})
	if t.Failed() {
		return
	}
	t.Logf("%d kinds of tries", len(arrived))
	if len(arrived) == 0 {
		t.Error("no try was seen")
	}
	used := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(arrived)) {
		why := ""
		for pattern, reason := range nowhere() {
			if regexp.MustCompile("^(?:" + pattern + ")$").MatchString(k) {
				why, used[pattern] = reason, true
			}
		}
		switch {
		case !arrived[k] && why == "":
			t.Errorf("%s: it arrives nowhere", k)
		case arrived[k] && why != "":
			t.Errorf("%s: it arrives, and is on the list of what does not: %s", k, why)
		}
	}
	for pattern := range nowhere() {
		if !used[pattern] {
			t.Errorf("no try is %q, which is on the list of what does not arrive", pattern)
		}
	}
}

// succeed wants each attack to have succeeded.
func succeed(t *testing.T, outcomes []attack.Outcome) {
	t.Helper()
	if want := 2*len(threat.All()) - 1; len(outcomes) != want { // one has no family
		t.Errorf("%d outcomes, want %d", len(outcomes), want)
	}
	for _, o := range outcomes {
		switch o.Attack {
		case threat.Answers, threat.Bypass, threat.Abstract: // there is nothing wrong with it
			if o.Arrived > 0 {
				t.Errorf("%s, %s: %q", o.Attack, o.Family, o.Holes)
			}
		case threat.Listening, threat.MACFlood: // the switch has learned where everybody is: see TestHub and TestMACFlood
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
}

// kind is what a packet of a try is, whoever sends it to whom: "ipv4 protocols, protocol 47".
func kind(o attack.Outcome, what, each string, number uint16) string {
	// addresses with and without a port, names, ports of containers
	who := regexp.MustCompile(`\[[0-9a-f:]+\]:\d+|[0-9a-f]*:[0-9a-f:]+|\d+\.\d+\.\d+\.\d+(:\d+)?|` +
		`\b(src|snk|host)\d+\b|\b[2-5]\d{4}\b`)
	said := fmt.Sprintf("%s %s: %s", o.Family, o.Attack, who.ReplaceAllString(what, "X"))
	if each != "" {
		said += fmt.Sprintf(", %s %d", each, number)
	}
	return said
}

// truncated is why some first pieces of IPv6 arrive nowhere.
const truncated = "Linux drops a first piece that does not hold the whole header of its protocol (RFC 8200, " +
	"section 4.5; net/ipv6/reassembly.c, ipv6frag_thdr_truncated)"

// nowhere are the kinds of tries that arrive nowhere on a bridge without a filter, each with the reason.
func nowhere() map[string]string {
	return map[string]string{
		"ipv[46] fragments: UDP for X in a piece that lies over an allowed one and comes behind it": "of two pieces of the " +
			"same place Linux keeps the first (IPFRAG_DUP: net/ipv4/inet_fragment.c, inet_frag_queue_insert)",
		"ipv6 fragments: TCP .*, cut behind the (ports|flags) \\(X\\)":                                truncated,
		"ipv6 fragments: UDP for a refused port, which is behind options in the second piece \\(X\\)": truncated,
	}
}

// Networks that look at the IP address of a packet, or pass nothing between containers, withstand an attack or not:
// what they do not claim to withstand succeeds without a filter.
func TestUnfiltered(t *testing.T) {
	for _, c := range []struct {
		id      string
		attack  attack.Attack
		claimed bool
	}{
		{"ipvlan/cross-host/2", threat.Stray, false},
		{"ovs(flows=explicit)/same-host/2", threat.Stray, true},
		{"ovs(flows=explicit)/same-host/2", threat.Takeover, false},
		{"nat/cross-host/2", threat.Stray, true},
		{"nat(hairpin=true)/same-host/2", threat.Misdirected, true},
		{"ovs(flows=explicit)/same-host/2", threat.Misdirected, true},
		{"macvlan/same-host/2", threat.Misdirected, false},
	} {
		t.Run(c.id+"/"+string(c.attack), func(t *testing.T) {
			_, target := stood(t, c.id)
			if claimed := target.Claims.Claimed(c.attack); claimed != c.claimed {
				t.Errorf("claimed: %t, want %t", claimed, c.claimed)
			}
			for _, o := range run(t, target, c.attack) {
				if o.Sent == 0 || o.Arrived > 0 == c.claimed || len(o.Missing) > 0 {
					t.Errorf("%s: %d of %d arrive: %q; missing: %q", o.Family, o.Arrived, o.Sent, o.Holes, o.Missing)
				}
			}
		})
	}
}

// A host whose own stack hears what its switch hears answers for the gateway too, and takes packets past the switch:
// both are noticed. It is what the network ovs did once.
func TestBypassIsNoticed(t *testing.T) {
	s, target := stood(t, "ovs(datapath=userspace)/cross-host/2") // the kernel's datapath takes the frames away itself
	before := run(t, target, threat.Answers, threat.Bypass)
	for _, o := range before {
		if o.Arrived > 0 {
			t.Errorf("%s, %s: %q", o.Attack, o.Family, o.Holes)
		}
	}
	plant := func(f func(host int, port link.Link, h *link.Handle) error) {
		for i, on := range s.Hosts[:s.Lab.Hosts] {
			ns, err := on.Namespace("")
			if err != nil {
				t.Fatal(err)
			}
			err = attack.Within(ns, func(h *link.Handle) error {
				var errs []error
				for _, c := range target.Hosts[i].Containers {
					port, err := h.ByName(c.Link)
					errs = append(errs, cmp.Or(err, f(i+1, port, h)))
				}
				return errors.Join(errs...)
			})
			if err = errors.Join(err, ns.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	noticed := func(a attack.Attack) {
		t.Helper()
		for _, o := range run(t, target, a) {
			if o.Arrived == 0 {
				t.Errorf("%s, %s: nothing is noticed", o.Attack, o.Family)
			}
		}
	}
	planted := map[int]bool{}
	plant(func(host int, port link.Link, _ *link.Handle) error {
		err := sysctl.Write("net.ipv6.conf."+port.Name+".disable_ipv6", "0") // ports have no IPv6 at all
		if !planted[host] {
			err = errors.Join(err, ruleset.Delete("netdev", "nettoll-ports"))
		}
		planted[host] = true
		return err
	})
	noticed(threat.Bypass)
	plant(func(host int, port link.Link, h *link.Handle) error { // a host answers solicitations for what a link itself has
		_, gateway := network.Gateway(host)
		return h.AddAddress(port.Index, netip.PrefixFrom(gateway.Addr(), gateway.Addr().BitLen()))
	})
	noticed(threat.Answers)
}

// Addresses of both ends of every pair are stolen, and that of the gateway, as of what a filter withstands if it binds
// addresses to links. It is insisted on each kind of which no theft has succeeded. Of the gateway none can where the
// bridge passes nothing from one container to another.
func TestTakeover(t *testing.T) {
	t.Parallel()
	testnet.Root(t)
	const each, pairs, families = 2, 2, 2 // thieves
	for id, works := range map[string]bool{
		"bridge/same-host/2": true, "macvlan/cross-host/2": true, "bridge+nftables(antispoof=true)/same-host/2": false,
		"nat+nftables(stateful=true,antispoof=true)/cross-host/2": false,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			_, target := stood(t, id)
			outcomes := run(t, target, threat.Takeover)
			if len(outcomes) != families {
				t.Errorf("%d outcomes", len(outcomes))
			}
			for _, o := range outcomes {
				if len(o.Missing) > 0 {
					t.Errorf("%s: %q", o.Family, o.Missing)
				}
				for aim, want := range map[string]int{"sink": 3 * each * pairs, "source": 3 * each * pairs} {
					got := o.Aims[aim]
					if !works && got != (attack.Tally{Sent: want + 1}) || works && got.Arrived < pairs {
						t.Errorf("%s: theft of the address of a %s: %+v, want %d and one in a while, or that of each pair succeeds: %t",
							o.Family, aim, got, want, works)
					}
				}
				got, tried := o.Aims["gateway"]
				if strings.HasPrefix(id, "bridge") && (!tried || (got.Arrived > 0) != works) || strings.HasPrefix(id, "nat") && tried {
					t.Errorf("%s: theft of the address of the gateway: %+v, %t", o.Family, got, tried)
				}
			}
		})
	}
}

// A host that has no route to containers sends them nothing: nobody has refused what was not sent. With one, it arrives.
func TestFromHostNeedsARoute(t *testing.T) {
	t.Parallel()
	testnet.Root(t)
	for id, routed := range map[string]bool{
		"macvlan/same-host/2": false, "passthrough+iptables/same-host/2": false, "macvlan/cross-host/2": true,
		"bridge+nftables/same-host/2": true,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			_, target := stood(t, id)
			outcomes := run(t, target, threat.FromHost)
			r := target.Judge([]attack.Attack{threat.FromHost}, outcomes, &attack.Control{})[0]
			want := attack.NotTried
			if routed {
				want = attack.Open
			}
			if arrived, sent := attack.Count(outcomes); r.Verdict != want || r.Families != nil || routed != (sent > 0) {
				t.Errorf("%d of %d arrive: %s (%s), want %s", arrived, sent, r.Text(), r.Why, want)
			}
		})
	}
}

// Where no answer of ARP comes from one host to another, a theft is undone before the next one: who only adds an address
// gets nothing of what a theft before it has left.
func TestTakeoverIsUndone(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "overlay/cross-host/2")
	for _, o := range run(t, target, threat.Takeover) {
		if len(o.Missing) > 0 || o.Aims["sink"].Arrived == 0 || o.Aims["source"].Arrived == 0 {
			t.Errorf("%s: missing: %q, %+v", o.Family, o.Missing, o.Aims)
		}
		for _, said := range o.Holes {
			if strings.Contains(said, " has added the address of ") {
				t.Errorf("%s: %s", o.Family, said)
			}
		}
	}
}

// What a neighbour steals of a masqueraded flow passes the firewall of the host if bridge-nf is on. A rule such as
// Docker's leaves the flow untranslated from then on: the theft says so, and puts it right.
func TestTakeoverMasqueraded(t *testing.T) {
	t.Parallel()
	testnet.Program(t, "nft", "nftables")
	s, target := stood(t, "bridge(bridge-nf=on)/cross-host/2")
	const rules = `table inet lab {
		chain postrouting {
			type nat hook postrouting priority srcnat
			iifname "br0" oifname != "br0" masquerade
		}
	}`
	for _, h := range s.Hosts[:s.Lab.Hosts] {
		file, err := h.Namespace("")
		if err != nil {
			t.Fatal(err)
		}
		err = netns.Do(int(file.Fd()), func() error {
			cmd := exec.Command("nft", "-f", "-")
			cmd.Stdin = strings.NewReader(rules)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range run(t, target, threat.Takeover) {
		if len(o.Missing) > 0 {
			t.Errorf("%s: %q", o.Family, o.Missing)
		}
		for _, p := range target.Pairs {
			if !slices.ContainsFunc(o.Holes, func(said string) bool {
				return strings.Contains(said, " the gateway ") && strings.Contains(said, "what "+p.Source+" sends") &&
					strings.Contains(said, "; until its host forgets the flow, answers reach it at ")
			}) {
				t.Errorf("%s: no theft from %s lasts: %q", o.Family, p.Source, o.Holes)
			}
		}
	}
}

// A redirect works if the kernel of a container accepts it, and a neighbour is on the same link. One of IPv6 works only
// if the gateway of a route is a link-local address, which no such network has, so the routes of containers are
// changed. A filter withstands it if it binds addresses to links.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for id, works := range map[string]bool{
		"bridge/cross-host/2": true, "bridge+nftables(antispoof=true)/cross-host/2": false,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s, target := stood(t, id)
			redirectable(t, s, target)
			for _, o := range run(t, target, threat.Takeover) {
				redirected := slices.ContainsFunc(o.Holes, func(said string) bool {
					return strings.Contains(said, " says as the gateway that it is the next hop for ") &&
						strings.Contains(said, " arrives there")
				})
				if redirected != works || len(o.Missing) > 0 || !works && o.Arrived > 0 || o.Aims["gateway"].Sent == 0 {
					t.Errorf("%s: a redirect is believed: %t, want %t: %+v", o.Family, redirected, works, o)
				}
			}
		})
	}
}

// redirectable has containers accept redirects, whatever the machine has others accept, and gives their routes of IPv6
// a link-local gateway.
func redirectable(t *testing.T, s *control.LiveLab, target attack.Target) {
	t.Helper()
	for i, h := range s.Hosts[:s.Lab.Hosts] {
		at := func(ns string, f func(h *link.Handle, found link.Survey) error) {
			file, err := h.Namespace(ns)
			if err != nil {
				t.Fatal(err)
			}
			err = attack.Within(file, func(h *link.Handle) error {
				found, err := h.Survey()
				if err != nil {
					return err
				}
				return f(h, found)
			})
			if err = errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
		}
		router := netip.MustParseAddr(fmt.Sprintf("fe80::%d", i+1))
		at("", func(h *link.Handle, found link.Survey) error {
			for _, l := range found.Links {
				if l.Type == "bridge" {
					return h.AddAddress(l.Index, netip.PrefixFrom(router, 64))
				}
			}
			return errors.New("it has no bridge")
		})
		for _, c := range target.Hosts[i].Containers {
			at(c.Namespace, func(h *link.Handle, found link.Survey) error {
				for _, r := range found.Routes {
					if r.Table == 0 && r.To.Bits() == 0 && r.Via.Is6() {
						changed := r.Route
						changed.Via = router
						return errors.Join(h.DeleteRoute(r.Route), h.AddRoute(changed),
							sysctl.Write("net.ipv4.conf.all.accept_redirects", "1"),
							sysctl.Write("net.ipv6.conf."+c.Inner+".accept_redirects", "1"))
					}
				}
				return errors.New("it has no default route")
			})
		}
	}
}

// Of many pairs and containers some are taken, from the whole list.
func TestSampled(t *testing.T) {
	list := []int{0, 1, 2, 3, 4, 5}
	for n, want := range [][]int{nil, {0}, {0, 3}, {0, 2, 4}} {
		if got := attack.Sampled(list, n); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
	if got := attack.Sampled(list, 7); !slices.Equal(got, list) {
		t.Errorf("all: %v", got)
	}
}

// On a switch that forgets at once where everybody is, a container hears what others send each other: what is not heard
// elsewhere is not unheard because nobody listens.
func TestHub(t *testing.T) {
	t.Parallel()
	s, target := stood(t, "bridge/same-host/2")
	switches(t, s, func(name string, _ int) error { return ageing(name, 0) })
	outcomes := run(t, target, threat.Listening)
	for _, o := range outcomes {
		if o.Arrived == 0 {
			t.Errorf("%s, %s: nothing is heard at a hub", o.Attack, o.Family)
		}
	}
}

// A switch that has room for few addresses passes nothing on to others. If it forgets all of them in the middle of a
// flood of addresses, the rest of the flood takes the room. Then a container hears what others send each other, in
// either family, as a flood has none.
func TestMACFlood(t *testing.T) {
	t.Parallel()
	s, target := stood(t, "bridge/same-host/2")
	const room, usual = 64, 300 * 100 // the default of a bridge, in hundredths of a second
	switches(t, s, func(_ string, index int) error { return fewStations(index, room) })
	target.Midway(func() {
		switches(t, s, func(name string, _ int) error {
			return errors.Join(ageing(name, 0), forgotten(), ageing(name, usual))
		})
	})
	outcomes := run(t, target, threat.Listening, threat.MACFlood)
	for _, o := range outcomes {
		switch {
		case o.Sent == 0:
			t.Errorf("%s, %s: nothing is sent", o.Attack, o.Family)
		case o.Attack == threat.Listening && o.Arrived > 0:
			t.Errorf("%s: without a flood others hear: %q", o.Family, o.Holes)
		case o.Attack == threat.MACFlood && o.Arrived == 0:
			t.Errorf("%s: after a flood nothing is heard", o.Family)
		}
	}
}

// forgotten waits until no bridge of the namespace knows an address that it has learned.
func forgotten() error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		list, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, unix.AF_BRIDGE) })
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(n netlink.Neigh) bool {
			return n.State&netlink.NUD_PERMANENT == 0
		}) {
			return nil
		}
	}
	return errors.New("a bridge with no ageing time has not forgotten in 10 s what it has learned")
}

// switches calls f for each bridge of a lab's first host, in its namespace.
func switches(t *testing.T, s *control.LiveLab, f func(name string, index int) error) {
	t.Helper()
	inside(t, s, func() error {
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
				err = errors.Join(err, f(l.Name, l.Index))
			}
		}
		return err
	})
}

// flush removes the tables of filter nftables, of all families. Without them nobody tracks connections.
func flush() error {
	var errs []error
	families := []string{"inet", "bridge", "netdev"}
	for _, family := range families {
		if err := ruleset.Delete(family, "nettoll-filter"); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == len(families) {
		return errors.Join(errs...)
	}
	return nil
}

// ageing has a bridge forget what it learns after so many hundredths of a second.
func ageing(name string, after int) error {
	l, err := sysfs.Open()
	if err != nil {
		return err
	}
	defer l.Close()
	return l.Write(name, "bridge/ageing_time", strconv.Itoa(after))
}

// fewStations has a bridge learn so many addresses at most.
func fewStations(index int, most uint32) error {
	const fdbMaxLearned = 49 // IFLA_BR_FDB_MAX_LEARNED (include/uapi/linux/if_link.h), since Linux 6.7
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(fdbMaxLearned, nl.Uint32Attr(most))
	req.AddData(info)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
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
	outcomes := run(t, target, threat.Abstract)
	if len(outcomes) != 1 || outcomes[0].Arrived != 4 || outcomes[0].Sent != 4 {
		t.Errorf("%+v, want that all four reach it", outcomes)
	}
}

// Two containers fill the table of connections of their host. Others have no room in it, whatever they may send, and
// nothing that is refused gets through. If the filter is flushed while the table is full, it does: the attack works. The
// table is one for both families, so that it is flushed in one of them alone. What is then sent in the other is what
// attacks ports and detours send, which arrives in both: see TestControls. The table is empty afterwards.
func TestFullTable(t *testing.T) {
	t.Parallel()
	s, target := stood(t, "bridge+nftables(stateful=true)/same-host/2")
	for _, o := range run(t, target, threat.TableFull, threat.Starvation) {
		switch {
		case o.NotTried != "" || o.Sent == 0:
			t.Errorf("%s, %s: not tried: %s", o.Attack, o.Family, o.NotTried)
		case o.Attack == threat.TableFull && o.Arrived > 0:
			t.Errorf("the filter fails open: %q", o.Holes)
		case o.Attack == threat.Starvation && o.Arrived == 0:
			t.Errorf("%s: others still have room in a full table", o.Family)
		}
	}
	emptied(t, s)
	target.Observe = func(_ attack.Attack, family string) {
		if family == "ipv6" { // the table is full since IPv4
			inside(t, s, flush)
		}
	}
	for _, o := range run(t, target, threat.TableFull) {
		switch {
		case o.NotTried != "" || o.Sent == 0:
			t.Errorf("with the filter flushed, %s, %s: not tried: %s", o.Attack, o.Family, o.NotTried)
		case o.Arrived > 0 != (o.Family == "ipv6"):
			t.Errorf("%s: %d packets arrive, want some once the filter is flushed, and none before", o.Family, o.Arrived)
		}
	}
	emptied(t, s)
}

// emptied wants the first host of a lab to track no more connections than those that end by themselves.
func emptied(t *testing.T, s *control.LiveLab) {
	t.Helper()
	var left []byte
	inside(t, s, func() (err error) {
		left, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		return err
	})
	if n, err := strconv.Atoi(strings.TrimSpace(string(left))); err != nil || n > 10_000 {
		t.Errorf("%d connections are left: %v", n, err)
	}
}

// inside calls f in the namespace of a lab's first host.
func inside(t *testing.T, s *control.LiveLab, f func() error) {
	t.Helper()
	ns, err := s.Hosts[0].Namespace("")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := netns.Do(int(ns.Fd()), f); err != nil {
		t.Fatal(err)
	}
}

// Where no pair may talk in a family, nobody can take over what it sends: that is said, and not that the lab is broken.
func TestOneFamily(t *testing.T) {
	t.Parallel()
	_, target := stood(t, "bridge+nftables(antispoof=true)/same-host/2")
	target.Families = []string{"ipv4"}
	outcomes := run(t, target, threat.Takeover, threat.KnownErrors)
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
		outcomes := run(t, target, attacks...)
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
				adds := r.Attack == threat.Takeover // an address, which takes CAP_NET_ADMIN
				if o.Unsent > 0 != (refused || adds) || o.Sent > 0 == refused || refused && o.Arrived > 0 {
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
			err = attack.Within(ns, func(h *link.Handle) error {
				links, err := h.Traffic()
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

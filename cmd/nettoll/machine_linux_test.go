package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A run leaves the machine's links, addresses, routes, rules, permanent neighbours, packet filters and sysctls
// unchanged. This holds for the network that it runs in, which has some of each, and for the network that the tests
// were started in.
func TestMachineIsUntouched(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	m := testnet.New(t)
	if err := m.Do(furnish); err != nil {
		t.Fatal(err)
	}
	// This process is in a network of its own (testnet.Main). Its parent is not.
	first, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", os.Getppid()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	look := func() (own, others map[string]string) {
		t.Helper()
		for _, at := range []struct {
			ns   *os.File
			into *map[string]string
		}{{m.NS, &own}, {first, &others}} {
			err := netns.Do(int(at.ns.Fd()), func() (err error) {
				*at.into, err = snapshot()
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return own, others
	}
	// Some values change even without a run.
	own, others := look()
	moving := restless(own, others, look)

	own, others = look()
	for _, want := range []string{
		"link lo", "link here", "address here 192.0.2.1/24", "neighbour here 192.0.2.9", "/proc/sys/net/ipv4/ip_forward",
	} {
		if !slices.ContainsFunc(keys(own), func(k string) bool { return strings.HasPrefix(k, want) }) {
			t.Fatalf("there is no %q in what is compared: %q", want, keys(own))
		}
	}
	if len(own) < 200 {
		t.Errorf("only %d things are compared", len(own))
	}
	s := prepare(t, filepath.Join(t.TempDir(), "run"), "--time", "2s", "--trial", "50ms")
	if err := m.Do(func() error { s.begin(); return nil }); err != nil {
		t.Fatal(err)
	}
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d, want 0", status)
	}
	ownAfter, othersAfter := look()
	for _, k := range moving {
		for _, m := range []map[string]string{own, others, ownAfter, othersAfter} {
			delete(m, k)
		}
	}
	if diff := cmp.Diff(own, ownAfter); diff != "" {
		t.Errorf("the network it ran in (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(others, othersAfter); diff != "" {
		t.Errorf("the network the tests were started in (-before +after):\n%s", diff)
	}
	t.Logf("%d and %d things compared; %q change by themselves", len(own), len(others), moving)
}

func keys(m map[string]string) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// restless lists the sysctls that change within half a second without a run.
func restless(own, others map[string]string, look func() (own, others map[string]string)) []string {
	var moving []string
	for range 2 {
		time.Sleep(250 * time.Millisecond)
		ownNow, othersNow := look()
		for _, pair := range [][2]map[string]string{{own, ownNow}, {others, othersNow}} {
			for k, v := range pair[0] {
				if pair[1][k] != v && strings.HasPrefix(k, "/proc/sys/") && !slices.Contains(moving, k) {
					moving = append(moving, k)
				}
			}
		}
	}
	slices.Sort(moving)
	return moving
}

// furnish adds what a run could damage: a pair of links with addresses, routes, a rule and a neighbour of both
// families.
func furnish() error {
	// Without duplicate address detection, IPv6 addresses are usable at once.
	for _, of := range []string{"default", "all"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+of+"/accept_dad", []byte("0"), 0); err != nil {
			return err
		}
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here", MTU: 1400}, PeerName: "there"}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	for _, name := range []string{"lo", "there", "here"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		link.Attrs().Index = l.Attrs().Index // of the last one, "here"
	}
	for _, f := range []struct{ address, route, neighbour string }{
		{"192.0.2.1/24", "198.51.100.0/24", "192.0.2.9"},
		{"2001:db8::1/64", "2001:db8:1::/48", "2001:db8::9"},
	} {
		address, err := netlink.ParseAddr(f.address)
		if err != nil {
			return err
		}
		address.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("address %s: %w", f.address, err)
		}
		_, to, err := net.ParseCIDR(f.route)
		if err != nil {
			return err
		}
		const table = 100
		for _, t := range []int{unix.RT_TABLE_MAIN, table} {
			if err := netlink.RouteAdd(&netlink.Route{
				LinkIndex: link.Index, Dst: to, Gw: net.ParseIP(f.neighbour), Table: t,
			}); err != nil {
				return fmt.Errorf("route %s in table %d: %w", f.route, t, err)
			}
		}
		rule := netlink.NewRule()
		rule.Dst, rule.Table, rule.Priority = to, table, 1000
		if to.IP.To4() == nil {
			rule.Family = unix.AF_INET6
		}
		if err := netlink.RuleAdd(rule); err != nil {
			return fmt.Errorf("rule: %w", err)
		}
		err = netlink.NeighAdd(&netlink.Neigh{
			LinkIndex: link.Index, State: netlink.NUD_PERMANENT, IP: net.ParseIP(f.neighbour),
			HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9},
		})
		if err != nil {
			return fmt.Errorf("neighbour: %w", err)
		}
	}
	return nil
}

// snapshot describes the network that the calling thread is in, as names of things and their values.
func snapshot() (map[string]string, error) {
	found := map[string]string{}
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, l := range links {
		a := *l.Attrs()
		names[a.Index] = a.Name
		a.Statistics = nil
		var xdp netlink.LinkXdp
		if a.Xdp != nil {
			xdp, a.Xdp = *a.Xdp, nil
		}
		found["link "+a.Name] = fmt.Sprintf("%s %+v %+v", l.Type(), a, xdp)
		addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(l, netlink.FAMILY_ALL) })
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			// lifetimes count down
			found[fmt.Sprintf("address %s %s", names[l.Attrs().Index], a.IPNet)] = fmt.Sprintf("%s %d %d %s %s", a.Label,
				a.Flags, a.Scope, a.Broadcast, a.Peer)
		}
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := dump.Whole(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			found[fmt.Sprintf("route %d %s", family, r)] = fmt.Sprintf("flags %d, MTU %d", r.Flags, r.MTU)
		}
		rules, err := dump.Whole(func() ([]netlink.Rule, error) { return netlink.RuleList(family) })
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			found[fmt.Sprintf("rule %d %s", family, r)] = ""
		}
		neighbours, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(0, family) })
		if err != nil {
			return nil, err
		}
		for _, n := range neighbours {
			if n.State&netlink.NUD_PERMANENT != 0 {
				found[fmt.Sprintf("neighbour %s %s", names[n.LinkIndex], n.IP)] = n.HardwareAddr.String()
			}
		}
	}
	for _, filter := range [][]string{{"nft", "list", "ruleset"}, {"iptables-save"}, {"ip6tables-save"}} {
		if rules, err := ruleset(filter); err == nil {
			found["filter "+filter[0]] = rules
		}
	}
	return found, sysctls(found)
}

// ruleset returns the rules that a tool prints, without dates and counters.
func ruleset(args []string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	var kept strings.Builder
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ":") { // dates, counters of chains
			kept.WriteString(line)
		}
	}
	return kept.String(), err
}

// sysctls adds all sysctls that can be read.
func sysctls(found map[string]string) error {
	return filepath.WalkDir("/proc/sys", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || slices.Contains(living(), path):
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil // for example of a link that was just removed
		case d.Type().IsRegular():
			if data, err := os.ReadFile(path); err == nil {
				found[path] = string(bytes.TrimSpace(data))
			}
		}
		return nil
	})
}

// living are sysctls that are readings of a running machine, not settings (Documentation/admin-guide/sysctl).
func living() []string {
	return []string{
		"/proc/sys/fs/binfmt_misc", // another file system
		"/proc/sys/fs/aio-nr",
		"/proc/sys/fs/dentry-state",
		"/proc/sys/fs/file-nr",
		"/proc/sys/fs/inode-nr",
		"/proc/sys/fs/inode-state",
		"/proc/sys/fs/quota",
		"/proc/sys/kernel/ns_last_pid",
		"/proc/sys/kernel/pty/nr",
		"/proc/sys/kernel/random",
		"/proc/sys/kernel/tainted",
		"/proc/sys/net/netfilter/nf_conntrack_count",
	}
}

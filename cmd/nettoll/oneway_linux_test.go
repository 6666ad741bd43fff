package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// A second link that somebody adds during the run, from the source of one pair to the sink of another, around the
// filter: no answer comes back, and nothing that nettoll has set up differs. It is named all the same, the stack leaks
// in every view, and --fail-on leak fails.
func TestOneWayLeak(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	args := []string{
		"--time", "3s", "--network", "bridge", "--filter", "nftables", "--pairs", "2", "--workload", "udp-rr", "--placement",
		"same-host",
	}
	clean := start(t, args...)
	if status := clean.wait(patience); status != 0 {
		t.Errorf("exit status %d of a clean run, want 0\n%s", status, clean.stderr.String())
	}
	log, _ := clean.records()
	seen := map[string]int{}
	for _, m := range log.Matrices {
		seen[m.Lab+" "+m.When]++
		if tried, of := m.All(); m.LeaksAll+m.MissingAll > 0 || m.NotTried != "" || tried == 0 || of < tried {
			t.Errorf("a clean lab: %+v", m)
		}
	}
	for _, when := range []string{"before", "after"} {
		if seen["bridge+nftables/same-host/2 "+when] < measure.LeastGenerations {
			t.Errorf("matrices are %v, want one of the filter %s the blocks of each generation", seen, when)
		}
	}
	contains(t, "stdout", oneLine(clean.stdout.String()), "What each stack protects")

	s := start(t, args...)
	s.measuring()
	planted := map[int]bool{} // by the PID of a worker
	plant := func() {
		for _, m := range s.members() { // between two generations there are none
			if planted[m.pid] || len(m.args) < 4 || m.args[1] != "worker" || m.args[3] != "source@host1" {
				continue
			}
			if err := oneWay(m.pid); err != nil {
				t.Logf("in a lab that is built or ends: %v", err)
				continue
			}
			planted[m.pid] = true
		}
	}
	for ended, late := false, time.After(patience); !ended; { // a leak at the end of a generation may come too late for it
		select {
		case <-s.ended:
			ended = true
		case <-late:
			t.Fatalf("it did not end within %v", patience)
		case <-time.After(2 * time.Millisecond):
			plant()
		}
	}
	if len(planted) == 0 {
		t.Fatal("no leak was planted")
	}
	if status := s.wait(patience); status != 4 {
		t.Errorf("exit status %d, want 4\n%s", status, s.stderr.String())
	}
	log, _ = s.records()
	found := false
	for _, p := range log.Proofs {
		if !p.OK && p.Name != proof.Watched && (p.Lab != "bridge+nftables/same-host/2" || p.Name != measure.MatrixLeaks) {
			t.Errorf("another claim failed: %+v", p)
		}
		found = found || !p.OK && strings.Contains(p.Detail, "from src0 for snk1")
	}
	if !found {
		t.Error("no proof has failed that names the way from src0 to snk1")
	}
	contains(t, "stdout", oneLine(s.stdout.String()), "leaks", "arrives at snk1")
	report := filepath.Join(t.TempDir(), "compare.xml")
	gate := prepare(t, "")
	gate.cmd.Args = append(gate.cmd.Args[:1], "compare", clean.dir, s.dir, "--fail-on", "leak", "--format", "junit",
		"-o", report)
	gate.begin()
	if status := gate.wait(patience); status != 1 {
		t.Errorf("--fail-on leak: exit status %d, want 1\n%s", status, gate.stderr.String())
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "JUnit", string(text), `name="refused holds"`, "arrives at snk1")
}

// oneWay joins source 0 and sink 1 of the host of a process by a link of their own, by which the source reaches the
// sink, but not the other way round.
func oneWay(pid int) error {
	open := func(name string) (*os.File, error) {
		return netns.Open(fmt.Sprintf("/proc/%d/root%s/%s", pid, host.DefaultDir, name))
	}
	source, err := open("src0")
	if err != nil {
		return err
	}
	defer source.Close()
	sink, err := open("snk1")
	if err != nil {
		return err
	}
	defer sink.Close()
	var to net.IP
	var mac net.HardwareAddr
	if err := netns.Do(int(sink.Fd()), func() error {
		if err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "leak0"}, PeerName: "leak0", PeerNamespace: netlink.NsFd(source.Fd()),
		}); err != nil {
			return err
		}
		own, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addresses, err := netlink.AddrList(own, netlink.FAMILY_V4)
		if err != nil || len(addresses) == 0 {
			return errors.Join(err, errors.New("it has no address"))
		}
		l, err := netlink.LinkByName("leak0")
		if err != nil {
			return err
		}
		to, mac = addresses[0].IP, l.Attrs().HardwareAddr
		return netlink.LinkSetUp(l)
	}); err != nil {
		return err
	}
	return netns.Do(int(source.Fd()), func() error {
		l, err := netlink.LinkByName("leak0")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetUp(l),
			netlink.NeighAdd(&netlink.Neigh{
				LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: to, HardwareAddr: mac,
			}),
			netlink.RouteAdd(&netlink.Route{
				LinkIndex: l.Attrs().Index, Dst: &net.IPNet{IP: to, Mask: net.CIDRMask(32, 32)}, Scope: netlink.SCOPE_LINK,
			}))
	})
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/proof"
)

var leakRuns = flag.Int("leaks", 1, "how many runs each leak of TestLeak is planted in")

// What goes around a tunnel or an encryption during a run is named by the next proof, and the stack is not measured any
// more. Who plants it changes one host from outside of nettoll.
func TestLeak(t *testing.T) {
	testnet.Root(t)
	for _, leak := range []struct {
		name, flag, carrier, device string
		plant                       func() error
		claim, want                 string // that fails, and what is in its detail
		family                      int    // of what passes that must not
	}{
		{"a route around a tunnel", "--tunnel", "vxlan", "vxlan0", around(4), proof.OnWire, "go around vxlan", 4},
		{"a route around an encryption", "--encryption", "wireguard", "wg0", around(4), proof.Hidden, "it leaks", 4},
		{"IPv6 beside an encrypted IPv4", "--encryption", "wireguard", "wg0", around(6), proof.Hidden, "it leaks", 6},
		{"an encryption that does not encrypt", "--encryption", "wireguard", "wg0", pretend, proof.Hidden, "it leaks", 4},
		// whether a datagram of the proof takes it is left to chance
		{
			"a second path without encryption", "--encryption", "wireguard", "wg0", second, proof.AsBuilt,
			"route to 10.2.0.0/16: want via 198.19.1.2 through wg0", 4,
		},
	} {
		t.Run(leak.name, func(t *testing.T) {
			t.Parallel()
			for range *leakRuns {
				s := start(t, "--pcap", "--time", "60s", "--network", "bridge", leak.flag, leak.carrier, "--baseline",
					"bridge+"+leak.carrier, "--workload", "udp-rr(mode=wait)", "--placement", "cross-host")
				s.measuring()
				planted := s.plant(leak.device, leak.plant)
				if status := s.wait(patience); status != 4 {
					t.Errorf("exit status %d, want 4: packets went around\n%s", status, s.stderr.String())
				}
				log, _ := s.records()
				var failed []string
				for _, p := range log.Proofs {
					if !p.OK && p.Name == leak.claim {
						failed = append(failed, p.Lab+": "+p.Detail)
					}
				}
				if len(failed) != planted || planted == 0 || !strings.Contains(failed[0], leak.want) {
					t.Errorf("in %d labs, and proofs that failed are %q, want as many, with %q", planted, failed, leak.want)
				}
				contains(t, "stdout and stderr", oneLine(s.stdout.String()+s.stderr.String()), leak.want)
				if leak.claim != proof.AsBuilt {
					s.shows(leak.family)
				}
			}
		})
	}
}

// shows wants tcpdump to read, in the frames that were kept of a proof after the blocks, packets of a family to the
// containers of host 2.
func (s *session) shows(family int) {
	s.t.Helper()
	program := testnet.Program(s.t, "tcpdump", "tcpdump")
	kept, err := filepath.Glob(filepath.Join(s.dir, "pcap", "*-after.pcapng"))
	if err != nil {
		s.t.Fatal(err)
	}
	want := map[int]string{4: "> 10.2.", 6: "> fd00:10:2:"}[family]
	for _, path := range kept {
		said, err := exec.Command(program, "-nn", "-r", path).CombinedOutput()
		if err != nil {
			s.t.Errorf("%s: %v: %s", path, err, said)
		}
		if strings.Contains(string(said), want) {
			return
		}
	}
	s.t.Errorf("in none of %q tcpdump finds packets %s", kept, want)
}

// plant changes the first host of the labs that have a device, one after another, until the run has ended, and returns
// how many those were. There is more than one if a lab is changed between its last proof and its end.
func (s *session) plant(device string, f func() error) (labs int) {
	s.t.Helper()
	known := []int{}
	for {
		select {
		case <-s.ended:
			return labs
		default:
		}
		for _, m := range s.members() {
			if len(m.args) < 4 || m.args[1] != "worker" || m.args[3] != "source@host1" || slices.Contains(known, m.pid) ||
				!slices.Contains(m.links(), device) {
				continue
			}
			known = append(known, m.pid)
			ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
			if err != nil {
				continue // it has ended
			}
			if err := errors.Join(netns.Do(int(ns.Fd()), f), ns.Close()); err != nil {
				s.t.Logf("in a lab that ends: %v", err)
				continue
			}
			labs++
		}
	}
}

// Where host 1 reaches the containers of host 2, and host 2 itself on the underlay. See `nettoll plan --hosts`.
var (
	leakTo    = map[int]string{4: "10.2.0.0/16", 6: "fd00:10:2::/64"}
	leakPlain = map[int]string{4: "198.18.0.2", 6: "fd00:198:18::2"}
	leakVia   = map[int]string{4: "198.19.1.2", 6: "fd00:198:19:1::2"}
)

// way is the route to the containers of host 2 by a link, without a next hop.
func way(family int, link string) (*netlink.Route, error) {
	_, to, err := net.ParseCIDR(leakTo[family])
	if err != nil {
		return nil, err
	}
	l, err := netlink.LinkByName(link)
	if err != nil {
		return nil, err
	}
	return &netlink.Route{Dst: to, LinkIndex: l.Attrs().Index}, nil
}

// around sends packets of a family over the underlay as they are.
func around(family int) func() error {
	return func() error {
		r, err := way(family, "up0")
		if err != nil {
			return err
		}
		r.Gw = net.ParseIP(leakPlain[family])
		return netlink.RouteReplace(r)
	}
}

// second has the kernel choose between the encryption and the underlay, for each flow anew.
func second() error {
	plain, err := way(4, "up0")
	if err != nil {
		return err
	}
	hidden, err := way(4, "wg0")
	if err != nil {
		return err
	}
	// by addresses and ports, fib_multipath_hash_policy in Documentation/networking/ip-sysctl.rst
	policy := os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_policy", []byte("1"), 0)
	return errors.Join(policy, netlink.RouteReplace(&netlink.Route{Dst: plain.Dst, MultiPath: []*netlink.NexthopInfo{
		{LinkIndex: hidden.LinkIndex, Gw: net.ParseIP(leakVia[4])},
		{LinkIndex: plain.LinkIndex, Gw: net.ParseIP(leakPlain[4])},
	}}))
}

// pretend puts an interface in the place of the encryption that sends the same packets as they are.
func pretend() error {
	hidden, err := netlink.LinkByName("wg0")
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetDown(hidden), netlink.LinkSetName(hidden, "wg1")); err != nil {
		return err
	}
	if err := netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: "wg0", MTU: hidden.Attrs().MTU}, VxlanId: 1, Port: 4789,
		Group: net.ParseIP(leakPlain[4]),
	}); err != nil {
		return err
	}
	l, err := netlink.LinkByName("wg0")
	if err != nil {
		return err
	}
	r, err := way(4, "wg0")
	if err != nil {
		return err
	}
	// nobody would answer for the address of host 2
	there := &netlink.Neigh{
		LinkIndex: l.Attrs().Index, IP: net.ParseIP(leakVia[4]), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		State: netlink.NUD_PERMANENT,
	}
	r.Gw, r.Flags = there.IP, int(netlink.FLAG_ONLINK)
	return errors.Join(netlink.LinkSetUp(l), netlink.NeighSet(there), netlink.RouteReplace(r))
}

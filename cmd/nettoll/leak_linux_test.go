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
	"strconv"
	"strings"
	"testing"

	"github.com/strongswan/govici/vici"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/ipsec"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/proof"
)

var leakRuns = flag.Int("leaks", 1, "how many runs each leak of TestLeak is planted in")

// If packets bypass a tunnel or an encryption during a run, the next proof names them, and the stack is not measured
// any more. The test plants a leak by changing one host from outside nettoll.
func TestLeak(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	for _, leak := range []struct {
		name, flag, carrier, device string
		plant                       func() error // nil: a null cipher
		claim, want                 string       // the claim that fails, and a part of its detail
		family                      int          // of the leaked packets; 0: the capture does not show them as plain text
		program, packages           string       // to plant it
	}{
		{"a route around a tunnel", "--tunnel", "vxlan", "vxlan0", around(4), proof.OnWire, "go around vxlan", 4, "", ""},
		{"a route around an encryption", "--encryption", "wireguard", "wg0", around(4), proof.Hidden, "it leaks", 4, "", ""},
		{"IPv6 beside an encrypted IPv4", "--encryption", "wireguard", "wg0", around(6), proof.Hidden, "it leaks", 6, "", ""},
		{"an encryption that does not encrypt", "--encryption", "wireguard", "wg0", pretend, proof.Hidden, "it leaks", 4, "", ""},
		{
			"a null cipher", "--encryption", "ipsec", "ipsec0", nil, proof.Hidden, "it leaks", 0,
			"charon-systemd", ipsec.Packages,
		},
		// of the datagrams in one piece, none takes these
		{"TCP around an encryption", "--encryption", "wireguard", "wg0", streams, proof.Hidden, "it leaks", 0, "", ""},
		{
			"fragments around an encryption", "--encryption", "wireguard", "wg0", fragments, proof.Hidden, "it leaks", 0,
			"nft", "nftables",
		},
		// chance decides whether a datagram of the proof takes it
		{
			"a second path without encryption", "--encryption", "wireguard", "wg0", second, proof.AsBuilt,
			"route to 10.2.0.0/16: want via 198.19.1.2 through wg0", 4, "", "",
		},
	} {
		t.Run(leak.name, func(t *testing.T) {
			t.Parallel()
			if leak.program != "" {
				testnet.Program(t, leak.program, leak.packages)
			}
			for range *leakRuns {
				s := start(t, "--pcap", "--time", "60s", "--network", "bridge", leak.flag, leak.carrier, "--baseline",
					"bridge+"+leak.carrier, "--workload", "udp-rr(mode=wait)", "--placement", "cross-host")
				s.measuring()
				f := leak.plant
				if f == nil {
					f = s.nullCipher
				}
				planted := s.plant(leak.device, f)
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
				if leak.family != 0 && leak.claim != proof.AsBuilt {
					s.shows(leak.family)
				}
			}
		})
	}
}

// If a device on the way takes smaller packets than planned, the proof says how small, or which device was the first to
// count too few of them, and what each layer leaves of the MTU.
func TestNarrow(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	const narrow = 1400
	for device, want := range map[string]string{
		// the host tells the container
		"vxlan0": "message too long (a device on the way takes packets of 1400 bytes at most); " +
			"planned: underlay 1500, vxlan −50",
		// what comes back is dropped
		"up0": "packets sent by host1, port of under, but 12 were sent; planned: underlay 1500, vxlan −50",
	} {
		t.Run(device, func(t *testing.T) {
			t.Parallel()
			s := start(t, "--time", "60s", "--network", "bridge", "--tunnel", "vxlan", "--baseline", "bridge+vxlan",
				"--workload", "udp-rr(mode=wait)", "--placement", "cross-host")
			s.measuring()
			s.plant("vxlan0", func() error {
				l, err := netlink.LinkByName(device)
				if err != nil {
					return err
				}
				return netlink.LinkSetMTU(l, narrow)
			})
			if status := s.wait(patience); status != 4 {
				t.Errorf("exit status %d, want 4\n%s", status, s.stderr.String())
			}
			log, _ := s.records()
			failed := 0
			for _, p := range log.Proofs {
				if p.OK || p.Name != proof.Passes {
					continue
				}
				if failed++; !strings.Contains(p.Detail, want) {
					t.Errorf("%s: %q, want %q", p.Lab, p.Detail, want)
				}
			}
			if failed == 0 {
				t.Error("all packets passed")
			}
		})
	}
}

// shows checks that tcpdump finds packets of a family to the containers of host 2 in the frames kept by a proof after
// the blocks.
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

// plant changes the first host of each lab that has a device, until the run has ended. It returns the number of changed
// labs. The run stands still while those that stand are changed: else it may have proven one of them for the last time,
// because it has seen the change of another.
func (s *session) plant(device string, f func() error) (labs int) {
	s.t.Helper()
	signal := func(sig os.Signal) {
		if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.t.Error(err)
		}
	}
	known := []int{}
	sweep := func() {
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
	signal(unix.SIGSTOP)
	sweep()
	signal(unix.SIGCONT)
	for {
		select {
		case <-s.ended:
			return labs
		default:
			sweep()
		}
	}
}

// Addresses of the containers of host 2 (leakTo), of host 2 on the underlay (leakPlain), and through the encryption
// (leakVia). See `nettoll plan --hosts`.
var (
	leakTo    = map[int]string{4: "10.2.0.0/16", 6: "fd00:10:2::/64"}
	leakPlain = map[int]string{4: "198.18.0.2", 6: "fd00:198:18::2"}
	leakVia   = map[int]string{4: "198.19.1.2", 6: "fd00:198:19:1::2"}
)

// way returns the route to the containers of host 2 by a link, without a next hop.
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

// around sends packets of a family over the underlay unprotected.
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

// streams sends what goes over TCP unprotected.
func streams() error {
	return beside(&netlink.Rule{IPProto: unix.IPPROTO_TCP})
}

// fragments sends fragments unprotected, the first one of a datagram among them.
func fragments() error {
	const mark = 0x6c65616b
	text := fmt.Sprintf("table ip leak { chain in { type filter hook prerouting priority mangle; "+
		"ip frag-off & 0x3fff != 0 meta mark set %#x; }; }", mark)
	if out, err := exec.Command("nft", text).CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return beside(&netlink.Rule{Mark: mark})
}

// beside sends the IPv4 packets of a rule over the underlay unprotected.
func beside(of *netlink.Rule) error {
	plain, err := way(4, "up0")
	if err != nil {
		return err
	}
	const table = 99
	plain.Gw, plain.Table = net.ParseIP(leakPlain[4]), table
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table, r.IPProto, r.Mark = netlink.FAMILY_V4, 10, table, of.IPProto, of.Mark
	return errors.Join(netlink.RouteReplace(plain), netlink.RuleAdd(r))
}

// second makes the kernel choose between the encryption and the underlay for each flow.
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

// pretend replaces the encryption's interface with one that sends the packets unprotected.
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
	// no host answers for the address of host 2
	there := &netlink.Neigh{
		LinkIndex: l.Attrs().Index, IP: net.ParseIP(leakVia[4]), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		State: netlink.NUD_PERMANENT,
	}
	r.Gw, r.Flags = there.IP, int(netlink.FLAG_ONLINK)
	return errors.Join(netlink.LinkSetUp(l), netlink.NeighSet(there), netlink.RouteReplace(r))
}

// nullCipher makes the hosts of labs agree on a null cipher instead of their own. It configures all strongSwans of the
// session. The strongSwan in the calling thread's network namespace, which belongs to a host 1, then negotiates again
// with its host 2.
func (s *session) nullCipher() error {
	here, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	var errs []error
	var first *vici.Session
	for _, m := range s.members() {
		if m.args[0] != "charon-systemd" {
			continue
		}
		own := filepath.Join("/proc", strconv.Itoa(m.pid), "root") // the root folder of the process
		c, err := vici.NewSession(vici.WithAddr("unix", filepath.Join(own, "run/nettoll/ipsec/vici")))
		if err != nil {
			continue // it is starting, or has ended
		}
		defer c.Close()
		errs = append(errs, tellNull(c))
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", m.pid)); err == nil && ns == here {
			first = c
		}
	}
	if first == nil {
		return errors.Join(append(errs, errors.New("host 1 has no strongSwan"))...)
	}
	for _, request := range []struct {
		command string
		message map[string]any
	}{
		{"terminate", map[string]any{"ike": "host2", "force": "yes"}},
		{"initiate", map[string]any{"ike": "host2", "child": "esp", "timeout": "5000"}},
	} {
		errs = append(errs, tell(first, request.command, request.message))
	}
	return errors.Join(errs...)
}

// tellNull configures a null cipher for a host's connection to the other host.
func tellNull(c *vici.Session) error {
	answer, err := c.CommandRequest("get-shared", nil)
	if err != nil {
		return err
	}
	own, peer := 1, 2
	if keys, _ := answer.Get("keys").([]string); slices.Contains(keys, "host1") {
		own, peer = 2, 1
	}
	ranges := func(of int) []string {
		return []string{
			fmt.Sprintf("198.19.1.%d/32", of), fmt.Sprintf("fd00:198:19:1::%d/128", of), fmt.Sprintf("10.%d.0.0/16", of),
			fmt.Sprintf("fd00:10:%d::/64", of),
		}
	}
	name := func(of int) string { return fmt.Sprintf("host%d", of) }
	return tell(c, "load-conn", map[string]any{name(peer): map[string]any{
		"version": "2", "local_addrs": []string{fmt.Sprintf("198.18.0.%d", own)},
		"remote_addrs": []string{fmt.Sprintf("198.18.0.%d", peer)}, "local_port": "4500", "remote_port": "4500",
		"encap": "yes", "mobike": "no", "rekey_time": "0s", "reauth_time": "0s",
		"proposals": []string{"aes256gcm16-prfsha256-ecp256"},
		"local":     map[string]any{"auth": "psk", "id": name(own)},
		"remote":    map[string]any{"auth": "psk", "id": name(peer)},
		"children": map[string]any{"esp": map[string]any{
			"reqid": peer, "esp_proposals": []string{"null-sha1"}, "local_ts": ranges(own), "remote_ts": ranges(peer),
			"rekey_time": "0s", "life_time": "0s", "policies": "no",
		}},
	}})
}

// tell sends a request of vici.
func tell(c *vici.Session, command string, request map[string]any) error {
	m, err := vici.MarshalMessage(request)
	if err != nil {
		return err
	}
	answer, err := c.CommandRequest(command, m)
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return fmt.Errorf("ask charon to %s: %w", command, err)
	}
	return nil
}

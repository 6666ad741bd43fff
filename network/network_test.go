package network_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		name   string
		v4, v6 netip.Prefix
		want   string
	}{
		{
			"underlay, host 1", first(network.UnderlayAddr(1)), second(network.UnderlayAddr(1)),
			"198.18.0.1/16 fd00:198:18::1/48",
		},
		{
			"underlay, host 254", first(network.UnderlayAddr(254)), second(network.UnderlayAddr(254)),
			"198.18.0.254/16 fd00:198:18::254/48",
		},
		{"gateway, host 10", first(network.Gateway(10)), second(network.Gateway(10)), "10.10.0.1/16 fd00:10:10::1/64"},
		{
			"container 0, host 1", first(network.ContainerAddr(1, 0)), second(network.ContainerAddr(1, 0)),
			"10.1.1.0/16 fd00:10:1::1:0/64",
		},
		{
			"container 300, host 2", first(network.ContainerAddr(2, 300)), second(network.ContainerAddr(2, 300)),
			"10.2.2.44/16 fd00:10:2::1:12c/64",
		},
		{
			"last container", first(network.ContainerAddr(2, network.MaxContainers-1)),
			second(network.ContainerAddr(2, network.MaxContainers-1)), "10.2.255.254/16 fd00:10:2::1:fefe/64",
		},
		{
			"neighbour of hosts 0, host 1", first(network.SegmentAddr(1, 0)), second(network.SegmentAddr(1, 0)),
			"198.18.1.0/16 fd00:198:18::1:0/48",
		},
		{
			"neighbour of hosts 300, host 2", first(network.SegmentAddr(2, 300)), second(network.SegmentAddr(2, 300)),
			"198.18.18.44/16 fd00:198:18::2:12c/48",
		},
		{
			"last neighbour of hosts", first(network.SegmentAddr(16, network.MaxSegmentContainers-1)),
			second(network.SegmentAddr(16, network.MaxSegmentContainers-1)), "198.18.240.255/16 fd00:198:18::16:eff/48",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.v4.String() + " " + c.v6.String(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func first(a, _ netip.Prefix) netip.Prefix  { return a }
func second(_, b netip.Prefix) netip.Prefix { return b }

// TestEphemeral wants a container's sockets to have its ephemeral ports, which follow its others, and nothing where it
// has none.
func TestEphemeral(t *testing.T) {
	lab := networktest.Lab(1, 1)
	c := &lab.Hosts[0].Containers[0]
	c.Ephemeral = network.Ports{First: c.Ports.Last + 1, Last: c.Ports.Last + 20}
	if err := lab.Check(); err != nil {
		t.Error(err)
	}
	steps := network.Inside(*c)
	if got, want := steps[len(steps)-1].String(),
		fmt.Sprintf("sysctl net.ipv4.ip_local_port_range=%d %d in src0", c.Ephemeral.First, c.Ephemeral.Last); got != want {
		t.Errorf("the last step is %q, want %q", got, want)
	}
	if got, want := c.Sending(), (network.Ports{First: c.Ports.First, Last: c.Ephemeral.Last}); got != want {
		t.Errorf("it sends from %v, want %v", got, want)
	}
	other := lab.Hosts[0].Containers[1]
	if got := len(network.Inside(other)); got != len(steps)-1 || other.Sending() != other.Ports {
		t.Errorf("without ephemeral ports there are %d steps, and it sends from %v", got, other.Sending())
	}
	c.Ephemeral.First++
	if err := lab.Check(); err == nil || !strings.Contains(err.Error(), "ephemeral ports") {
		t.Errorf("ephemeral ports with a gap before them: %v", err)
	}
}

// TestSegment wants an address for every container that no other has, and no host.
func TestSegment(t *testing.T) {
	owner := map[netip.Addr]string{}
	add := func(what string, v4, v6 netip.Prefix) {
		for _, a := range []netip.Addr{v4.Addr(), v6.Addr()} {
			if other, ok := owner[a]; ok {
				t.Fatalf("%s is the address of %s and of %s", a, other, what)
			}
			owner[a] = what
		}
	}
	for host := 1; host <= network.MaxHosts; host++ {
		v4, v6 := network.UnderlayAddr(host)
		add(fmt.Sprintf("host %d", host), v4, v6)
	}
	for host := 1; host <= network.MaxSegmentHosts; host++ {
		for i := range network.MaxSegmentContainers {
			v4, v6 := network.SegmentAddr(host, i)
			add(fmt.Sprintf("container %d of host %d", i, host), v4, v6)
		}
	}
}

func TestMAC(t *testing.T) {
	if a, b := network.MAC(1, "ab", "c"), network.MAC(1, "a", "bc"); a == b {
		t.Errorf("two names have the address %s", a)
	}
	if a, b := network.MAC(1, "a"), network.MAC(1, "a"); a != b {
		t.Errorf("one name has the addresses %s and %s", a, b)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*network.Lab)
		want   string
	}{
		{"right", func(*network.Lab) {}, ""},
		{"no hosts", func(l *network.Lab) { l.Hosts = nil }, "lab with 0 hosts (valid: 1 to 254)"},
		{"small MTU", func(l *network.Lab) { l.MTU = 1279 }, "lab with MTU 1279 (valid: 1280 to 65535)"},
		{"hosts out of order", func(l *network.Lab) { l.Hosts[0].Index = 2 }, "host 1 of the lab has index 2"},
		{"no uplink", func(l *network.Lab) { l.Hosts[1].Uplink = "" }, "host 2 of a lab of 2 has no uplink"},
		{"an uplink to nowhere", func(l *network.Lab) {
			l.Hosts = l.Hosts[:1]
		}, `has an uplink "up0", but there is no underlay`},
		{"underlay of IPv6", func(l *network.Lab) {
			l.Hosts[0].UnderlayAddr = netip.MustParsePrefix("fd00::1/64")
		}, `underlay address "fd00::1/64" is not an IPv4 address`},
		{"containers out of order", func(l *network.Lab) { l.Hosts[0].Containers[1].Index = 0 }, `has index 0, not 1`},
		{"a name twice", func(l *network.Lab) {
			l.Hosts[0].Containers[1].Name = "src0"
		}, `container 1: name "src0" is empty or already used`},
		{"too many containers", func(l *network.Lab) {
			l.Hosts[0].Containers = make([]network.Container, network.MaxContainers+1)
		}, "65280 containers (valid: 0 to 65279)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := networktest.Lab(2, 2)
			c.change(&lab)
			err := lab.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
}

func TestUnderlay(t *testing.T) {
	lab := networktest.Lab(2, 1)
	mac := func(name ...string) string { return network.MAC(lab.Seed, name...) }
	want := `  1 sysctl net.bridge.bridge-nf-call-iptables=0, if this kernel has it
  2 sysctl net.bridge.bridge-nf-call-ip6tables=0, if this kernel has it
  3 sysctl net.bridge.bridge-nf-call-arptables=0, if this kernel has it
  4 bridge under, mac ` + mac("underlay", "under") + `, mtu 1440
  5 sysctl net.ipv6.conf.default.accept_dad=0 in @host1, if this kernel has it
  6 veth host1, mac ` + mac("underlay", "host1") + `, mtu 1440, port of under; peer up0 in @host1, mac ` + mac("host1", "up0") + `
  7 sysctl net.ipv6.conf.default.accept_dad=0 in @host2, if this kernel has it
  8 veth host2, mac ` + mac("underlay", "host2") + `, mtu 1440, port of under; peer up0 in @host2, mac ` + mac("host2", "up0") + `
`
	if diff := cmp.Diff(want, network.Underlay(networktest.Fake{}, lab).String()); diff != "" {
		t.Errorf("plan of the underlay (-want +got):\n%s", diff)
	}
}

// Hosts behind routers are alone in their ranges, which show their numbers.
func TestRoutedAddr(t *testing.T) {
	for host, want := range map[int]string{
		1:   "198.18.1.2/24 fd00:198:18:1::2/64 198.18.1.1/24 fd00:198:18:1::1/64",
		16:  "198.18.16.2/24 fd00:198:18:16::2/64 198.18.16.1/24 fd00:198:18:16::1/64",
		254: "198.18.254.2/24 fd00:198:18:254::2/64 198.18.254.1/24 fd00:198:18:254::1/64",
	} {
		v4, v6, router4, router6 := network.RoutedAddr(host)
		if got := fmt.Sprint(v4, v6, router4, router6); got != want {
			t.Errorf("host %d: %s, want %s", host, got, want)
		}
	}
}

// TestRefuseUnderlay says what cannot stand on an underlay with routers, and that all of it can on one without.
func TestRefuseUnderlay(t *testing.T) {
	of := func(n network.Network) stack.Stack {
		return stack.Stack{{Kind: network.Kind{n}, Part: stack.Part{Value: n}}}
	}
	framed := append(of(networktest.Fake{Serving: serving{}}), stack.Choice{
		Kind: network.Kind{framing{}}, Part: stack.Part{Value: framing{}},
	})
	for _, c := range []struct {
		name    string
		stack   stack.Stack
		hosts   int
		medium  network.Medium
		refused bool
	}{
		{"containers on the underlay", of(networktest.Fake{}), 2, network.Medium{Hops: 1}, true},
		{"two paths", of(networktest.Fake{}), 2, network.Medium{Paths: 2}, true},
		{"neighbours", of(networktest.Fake{}), 2, network.Medium{Rate: 1e9}, false},
		{"one host", of(networktest.Fake{}), 1, network.Medium{Hops: 1}, false},
		{"routes", of(networktest.Fake{Serving: serving{}}), 2, network.Medium{Hops: 1}, false},
		{"frames", framed, 2, network.Medium{Hops: 1}, true},
		{"frames of neighbours", framed, 2, network.Medium{MTU: 1200}, false},
	} {
		reason := network.RefuseUnderlay(c.stack, c.hosts, c.medium)
		if (reason != "") != c.refused || c.refused && !strings.Contains(reason, "which ends at a router (hint: ") {
			t.Errorf("%s: %q", c.name, reason)
		}
	}
}

// framing is a carrier of frames.
type framing struct{ networktest.Fake }

func (framing) Carry(lab network.Lab, _ part.Params) (network.Span, error) {
	if lab.Top().Layer != 2 {
		return network.Span{}, &network.UnfitError{Reason: "it needs the link, which ends at a router (hint: none)"}
	}
	return lab.Above("framing", 2, "", "f0", network.Overhead{}), nil
}

// serving is a network whose hosts route.
type serving struct{ networktest.Fake }

func (serving) Serves(_ network.Lab, h network.Host) []netip.Prefix { return network.Ranges(h) }

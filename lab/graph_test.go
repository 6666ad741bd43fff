package lab

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/nat"
)

// drawn returns a graph with a little of everything.
func drawn(containers int) *Graph {
	g := &Graph{
		Entry: Entry{
			Name: "a<b", Stack: "bridge", Experiment: "test", Placement: "cross-host", Pairs: containers,
			Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		},
		MTU: 1500, Proof: "every pair passes", Enforced: "at the host's bridge", Rights: "no capabilities",
		Between: []control.Layer{
			{Name: "underlay", MTU: 1600, Medium: "1 router"},
			{
				Name: "vault", MTU: 1550, Size: 1550, Added: 50, Source: "50 of it (RFC 1)", Outer: "ipv6",
				Wire: []string{"VAULT (UDP to port 1)"}, Cipher: "AES",
			},
			{Name: "containers", MTU: 1500},
		},
	}
	h := GraphHost{
		Name: "h1", Steps: 7, Rules: []string{"filter " + strings.Repeat("with many words ", 30)},
		Drift: []string{"mtu: want 1500, got 1400"},
		Own: Space{
			Links: []GraphLink{
				{Name: "lo", Type: "device", MTU: 1500, Up: true, Running: true},
				{Name: "br0", Type: "bridge", MTU: 1500, Up: true, Running: true, Addresses: []string{"10.1.0.1/16"}},
				{
					Name: "up0", Type: "veth", MTU: 1500, Up: true, Peer: &End{"underlay", "host1"},
					Addresses: []string{"198.18.0.1/16"},
				},
				{Name: "tun0", Type: "tun", MTU: 1400},
			},
			Routes: []string{"default via 198.18.0.2 dev up0"},
			Filters: []Filter{{
				Program: "nft list ruleset",
				Lines:   strings.Split(strings.Repeat("\trule\n", maxText+2), "\n")[:maxText+2], More: 5,
			}},
		},
	}
	for i := range containers {
		name := fmt.Sprintf("src%d", i)
		h.Own.Links = append(h.Own.Links, GraphLink{
			Name: "v" + name, Type: "veth", MTU: 1500, Up: true, Running: true, Master: "br0", Peer: &End{"h1/" + name, "eth0"},
		})
		h.Containers = append(h.Containers, GraphContainer{Name: name, Space: Space{Links: []GraphLink{
			{
				Name: "eth0", Type: "veth", MTU: 1500, MAC: "02:00:00:00:00:01", Up: true, Running: true,
				Peer: &End{"h1", "v" + name}, Addresses: []string{"10.1.1.0/16"},
			},
		}}})
	}
	h.Containers[0].Space.Links = append(h.Containers[0].Space.Links,
		GraphLink{
			Name: "eth1", Type: "macvlan", Mode: "bridge", MTU: 1500, Up: true, Running: true,
			Lower: &End{"h1", "up0"},
		},
		GraphLink{Name: "eth2", Type: "veth", MTU: 1500, Up: true, Running: true, Peer: &End{"underlay", "port"}},
		GraphLink{Name: "eth3", Type: "veth", MTU: 1500, Up: true, Running: true, Peer: &End{}})
	shared := GraphHost{Name: "h2", Steps: 1, Containers: []GraphContainer{
		{Name: "snk0", Shared: true, Addresses: []string{"198.18.0.2"}},
	}}
	under := GraphHost{Name: "underlay", Steps: 2, Own: Space{
		Links: []GraphLink{{Name: "under", Type: "bridge", MTU: 1500, Up: true, Running: true}},
	}}
	g.Hosts = []GraphHost{h, shared, under}
	return g
}

func TestText(t *testing.T) {
	var b strings.Builder
	drawn(1).Text(&b, true)
	want := `lab a<b: bridge of experiment test, cross host, 1 pair, until 03:04:05
mtu 1500; proved: every pair passes
filter: enforced at the host's bridge
root in containers: no capabilities

between hosts
├─ containers: MTU 1500
├─ vault: VAULT (UDP to port 1) over IPv6, AES, 50 bytes added, MTU 1550
└─ underlay: MTU 1600, 1 router

h1, DRIFTED: 7 steps
├─ the kernel does not agree with the plan
│  └─ mtu: want 1500, got 1400
├─ rules of the plan
│  └─ filter ` + strings.Repeat("with many words ", 30) + `
├─ br0 bridge, 10.1.0.1/16
│  └─ vsrc0 veth ⇄ h1/src0:eth0
├─ up0 veth ⇄ underlay:host1, 198.18.0.1/16, no carrier
├─ tun0 tun, down
└─ src0
   ├─ eth0 veth ⇄ h1:vsrc0, 10.1.1.0/16
   ├─ eth1 macvlan bridge over h1:up0
   ├─ eth2 veth ⇄ underlay:port
   └─ eth3 veth ⇄ elsewhere

h2, verified: 1 step
└─ snk0 in the network namespace of h2, 198.18.0.2

underlay, verified: 2 steps
└─ under bridge
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	drawn(20).Text(&b, false)
	for _, want := range []string{
		"│  └─ 1550 bytes for a packet of 1500: 50 of it (RFC 1)\n", "├─ routes\n│  └─ default via 198.18.0.2 dev up0\n", "├─ nft list ruleset\n│      rule\n", "│    and 7 lines more\n",
		"│  └─ and 11 ports more", "└─ and 16 containers more", "mtu 1500, 02:00:00:00:00:01",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text does not say %q:\n%s", want, b.String())
		}
	}
}

// A picture is valid XML, shows everything that the short text shows, and does not grow with the number of pairs.
func TestSVG(t *testing.T) {
	for _, containers := range []int{1, maxShown, 200} {
		var b strings.Builder
		if err := drawn(containers).SVG(&b); err != nil {
			t.Fatal(err)
		}
		said := map[string]bool{}
		d := xml.NewDecoder(strings.NewReader(b.String()))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%d containers: %v", containers, err)
			}
			if text, ok := token.(xml.CharData); ok {
				said[string(text)] = true
			}
		}
		for _, want := range []string{
			"h1", "h2", "underlay", "DRIFTED: 7 steps", "verified", "src0", "snk0", "vsrc0", "over up0", "port", "elsewhere",
			"10.1.0.1/16", "198.18.0.1/16",
			"network stack of h1: 1 route", "tun0 tun, down", "lab a<b: bridge", "between hosts: a packet of full size",
			"+50", "1550 bytes", "VAULT (UDP to port 1), AES: 50 of it (RFC 1)", "1 router", "what a container sends, at most",
		} {
			if !said[want] {
				t.Errorf("%d containers: the picture does not say %q", containers, want)
			}
		}
		if more := fmt.Sprintf("and %d more", containers-fewShown); said[more] != (containers > maxShown) {
			t.Errorf("%d containers: says %q: %v", containers, more, said[more])
		}
		if n := b.Len(); n > 20000 {
			t.Errorf("%d containers: %d bytes", containers, n)
		}
	}
}

// The routers of hosts are below their links, and the paths are below all routers.
func TestSVGOfRouters(t *testing.T) {
	g := drawn(1)
	under := &g.Hosts[2]
	under.Own.Links = []GraphLink{
		{Name: "path0", Type: "bridge"},
		{Name: "path1", Type: "bridge"},
		{Name: "edge1", Type: "bridge"},
		{Name: "r1", Type: "veth", Master: "edge1"},
		{Name: "p0r1", Type: "veth", Master: "path0"},
		{Name: "p1r1", Type: "veth", Master: "path1"},
	}
	under.Containers = []GraphContainer{{Name: "router1", Space: Space{Links: []GraphLink{
		{Name: "down0", Type: "veth", Peer: &End{"underlay", "r1"}, Addresses: []string{"198.18.1.1/24"}},
		{Name: "up0", Type: "veth", Peer: &End{"underlay", "p0r1"}},
		{Name: "up1", Type: "veth", Peer: &End{"underlay", "p1r1"}},
	}}}}
	var b strings.Builder
	if err := g.SVG(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">router1<", ">198.18.1.1/24<", ">path0  bridge<", ">path1  bridge<"} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("the picture does not say %s once", want)
		}
	}
	if strings.Contains(b.String(), ">edge1") {
		t.Error("the picture shows the bridge between a host and its router as a path")
	}
}

func TestWrap(t *testing.T) {
	for text, want := range map[string][]string{
		"short":                        {"short"},
		"one two three four":           {"one two", "  three", "  four"},
		"one two three four five six":  {"one two", "  three", "  four fi…"},
		"onewordthatisveryverylongtoo": {"onewordth", "  atisver", "  yverylo…"},
	} {
		if diff := cmp.Diff(want, wrap(text, 10*svgGlyph)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// some is a host that has only a name.
type some struct {
	deploy.Place
	name string
}

func (s some) Name() string { return s.name }

func TestFind(t *testing.T) {
	lab := &control.LiveLab{Hosts: []control.LiveHost{
		{Place: some{name: "host1"}, Containers: []control.LiveContainer{
			{Name: "src0", Namespace: "src0"}, {Name: "snk1"},
		}},
		{Place: some{name: "host2"}, Containers: []control.LiveContainer{{Name: "snk0", Namespace: "snk0"}}},
		{Place: some{name: "underlay"}, Containers: []control.LiveContainer{{Name: "router1", Namespace: "router1"}}},
	}}
	for meant, want := range map[string]string{
		"h1": "h1", "host2": "h2", "underlay": "underlay", "h1/src0": "h1/src0", "host1/src0": "h1/src0",
		"h2/sink0": "h2/snk0", "snk0": "h2/snk0", "sink1": "h1/snk1",
		"underlay/router1": "underlay/router1", "router1": "underlay/router1",
		"": "", "h3": "", "h1/snk0": "", "h2/": "", "underlay/src0": "", "h1/src0/x": "",
	} {
		got, err := find(lab, meant)
		if (err != nil) != (want == "") || got.name != want {
			t.Errorf("find %q = %q, %v, want %q", meant, got.name, err, want)
		}
	}
	_, err := find(lab, "h3")
	if want := `the lab has no "h3" (known: h1, h2, underlay, h1/src0, h1/snk1, h2/snk0, ` +
		`underlay/router1)`; err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestRules(t *testing.T) {
	h := GraphHost{Containers: []GraphContainer{{Name: "snk0"}, {Name: "src0"}, {Name: "src1", Shared: true}}}
	plan := host.Plan{Steps: []host.Step{
		host.Namespace{Name: "src0"},
		host.Route{To: "::/0"},
		nat.Translation{Table: "a"},
		nat.Translation{Table: "b", NS: "src0"},
		nat.Translation{Table: "c", NS: "src0"},
	}}
	if diff := cmp.Diff([]string{"src0"}, rules(plan, &h)); diff != "" {
		t.Error(diff)
	}
	if len(h.Rules) != 3 || !strings.HasPrefix(h.Rules[0], "nat a") {
		t.Errorf("rules %q", h.Rules)
	}
}

// A connection that does not follow the protocol is refused, and the owner goes on.
func TestStrangers(t *testing.T) {
	r := registry(t)
	dir, lock, err := r.Claim("a")
	testnet.Skip(t, err)
	defer lock.Close()
	defer dir.Close()
	l, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log")) // like the log of an owner: several connections write at once
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o := &owner{lab: &control.LiveLab{Hosts: []control.LiveHost{{Place: some{name: "host1"}}}}, log: log}
	ended := make(chan struct{})
	go func() {
		o.serve(t.Context(), l)
		close(ended)
	}()
	for _, said := range []string{"", "x", "\x01", "\x01GET / HTTP/1.0\r\n\r\n", "\x01" + strings.Repeat("\xff", 100)} {
		if err := atSocket(dir, func(at *net.UnixAddr) error {
			conn, err := net.DialUnix("unix", nil, at)
			if err != nil {
				return err
			}
			_, _ = conn.Write([]byte(said))
			return conn.Close()
		}); err != nil {
			t.Fatal(err)
		}
	}
	places, err := r.Lab(Entry{Name: "a"}).Places(t.Context())
	if diff := cmp.Diff([]string{"h1"}, places); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	_ = l.Close()
	<-ended
	o.conns.Wait()
}

// The other end of a link is found by its index, and by the names that namespaces have for each other.
func TestOther(t *testing.T) {
	here := &node{name: "h1", Survey: link.Survey{Links: []link.Surveyed{
		{Link: link.Link{Index: 2, Name: "up0", Type: "veth"}, Other: 7, There: -1},
		{Link: link.Link{Index: 3, Name: "mac0", Type: "macvlan"}, Other: 2, There: -1},
		{Link: link.Link{Index: 7, Name: "up1", Type: "veth"}, Other: 2, There: -1},
		{Link: link.Link{Index: 8, Name: "lost", Type: "veth"}, Other: 9, There: -1},
	}}}
	for i, want := range []End{{"h1", "up1"}, {"h1", "up0"}, {"h1", "up0"}, {}} {
		if got := here.other(here.Survey.Links[i], []*node{here}); got != want {
			t.Errorf("link %d: %v, want %v", i, got, want)
		}
	}
}

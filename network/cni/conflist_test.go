package cni

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// list is a conflist of one plugin.
func list(plugin string) string {
	return `{"cniVersion": "1.0.0", "name": "mine", "plugins": [` + plugin + `]}`
}

// ranged is a bridge with host-local ranges.
func ranged(ranges string) string {
	return list(`{"type": "bridge", "isGateway": true, "ipam": {"type": "host-local", ` + ranges + `}}`)
}

// What is wrong with a conflist is said with its value and what is valid.
func TestWrong(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", `{"cniVersion": `, "it is not valid JSON: unexpected EOF"},
		{"more than JSON", ranged(`"subnet": "10.88.0.0/16"`) + "}", "something follows the object"},
		{"one plugin", `{"type": "bridge"}`, "it is the configuration of one plugin (valid: a list"},
		{"no plugins", `{"cniVersion": "1.0.0", "name": "mine"}`, "it names no plugins"},
		{"empty", `{"cniVersion": "1.0.0", "name": "mine", "plugins": []}`, "no plugins in list"},
		{
			"old", strings.Replace(ranged(`"subnet": "10.88.0.0/16"`), "1.0.0", "0.2.0", 1),
			`cniVersion "0.2.0" has no links in results (valid: 0.3.0 or newer)`,
		},
		{"no IPAM", list(`{"type": "bridge"}`), `plugin "bridge" has no IPAM`},
		{
			"DHCP", list(`{"type": "macvlan", "ipam": {"type": "dhcp"}}`),
			`IPAM "dhcp" cannot be asked for an address, and a plan has the address of each container beforehand (valid: ` +
				`"host-local")`,
		},
		{
			"twice", list(`{"type": "bridge", "ipam": {"type": "static", "addresses": [{"address": "10.1.2.3/24"}]}}`),
			`it hands out address "10.1.2.3/24" twice: IPAM "static" gives it to every container`,
		},
		{
			"tap", list(`{"type": "tap", "bridge": "br1", "ipam": {"type": "host-local", "subnet": "10.88.0.0/16"}}`),
			`plugin "tap" makes its device a port of bridge "br1" in the container`,
		},
		{"flannel's links", list(`{"type": "flannel", "delegate": {"type": "macvlan"}}`), `calls plugin "macvlan"`},
		{"flannel's nothing", list(`{"type": "flannel", "delegate": 3}`), `"delegate" of plugin "flannel" is not an object`},
		{"flannel's IPAM", list(`{"type": "flannel", "ipam": {"type": "dhcp"}}`), `IPAM "dhcp" cannot be asked`},
		{"no range", ranged(`"ranges": []`), "has no ranges"},
		{"subnet", ranged(`"subnet": "10.88.0.0"`), `invalid subnet "10.88.0.0" of its IPAM (valid: such as 10.88.0.0/16)`},
		{"small", ranged(`"subnet": "10.88.0.0/31"`), "has no room for two containers"},
		{
			"gateway", ranged(`"subnet": "10.88.0.0/16", "gateway": "10.89.0.1"`),
			`invalid gateway "10.89.0.1" of its IPAM (valid: an address in 10.88.0.0/16)`,
		},
		{
			"backwards", ranged(`"subnet": "10.88.0.0/16", "rangeStart": "10.88.0.9", "rangeEnd": "10.88.0.3"`),
			"range from 10.88.0.9 to 10.88.0.3 of its IPAM is empty",
		},
		{
			"two of a family", ranged(`"ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "10.89.0.0/16"}]]`),
			"an address of 10.88.0.0/16 and one of 10.89.0.0/16 (valid: one of each family)",
		},
		{
			"families in a set", ranged(`"ranges": [[{"subnet": "10.88.0.0/16"}, {"subnet": "fd00:88::/64"}]]`),
			"ranges 10.88.0.0/16 and fd00:88::/64 of one set are of two families",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := parse([]byte(c.text)); err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("parse = %v, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

// The addresses of a plan are those that host-local may hand out: neither the gateway nor beyond a range.
func TestPick(t *testing.T) {
	c, err := parse([]byte(ranged(`"ranges": [[{"subnet": "10.88.0.0/29", "gateway": "10.88.0.2"},
		{"subnet": "10.99.0.0/24", "rangeStart": "10.99.0.7", "rangeEnd": "10.99.0.8"}], [{"subnet": "fd00:88::/64"}]]`)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range 8 {
		a, err := pick(c.sets[0], i)
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, a.String())
	}
	want := "10.88.0.1/29 10.88.0.3/29 10.88.0.4/29 10.88.0.5/29 10.88.0.6/29 10.99.0.7/24 10.99.0.8/24 the range from " +
		"10.88.0.1 to 10.99.0.8 of its IPAM has no address for container 8 (hint: a larger range)"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("addresses:\n%s\nwant\n%s", text, want)
	}
	if a, err := pick(c.sets[1], 300); err != nil || a.String() != "fd00:88::12e/64" {
		t.Errorf("address 300 of IPv6: %v, %v", a, err)
	}
}

// conflistOf writes a conflist to a file.
func conflistOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.conflist")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each host but the first has the next range of the same size, and a family that the conflist lacks gets a range.
func TestHosts(t *testing.T) {
	p := part.Params{conf: conflistOf(t, ranged(`"subnet": "10.88.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]`))}
	lab := network.NewLab(2, 1500)
	lab.Params = p
	for i := range lab.Hosts {
		lab.Hosts[i].Containers = []network.Container{{Name: fmt.Sprintf("c%d", i)}}
	}
	plans, ends, err := Network{}.Build(lab)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"10.88.0.2 fd00:10:1::1:0", "10.88.1.2 fd00:10:2::1:0"} {
		if got := fmt.Sprint(ends[i][0].IPv4, " ", ends[i][0].IPv6); got != want {
			t.Errorf("host %d: addresses %s, want %s", i+1, got, want)
		}
	}
	const want = `"ranges":[[{"gateway":"10.88.1.1","rangeEnd":"10.88.1.254","rangeStart":"10.88.1.1",` +
		`"subnet":"10.88.1.0/24"}],[{"gateway":"fd00:10:2::1"`
	for _, s := range plans[1].Steps {
		if a, ok := s.(Add); ok && (!strings.Contains(a.Conf, want) || !strings.Contains(a.Conf, `{"dst":"::/0"}`)) {
			t.Errorf("conflist of host 2 without %s or a route of IPv6:\n%s", want, a.Conf)
		}
	}
	if got := fmt.Sprint(Network{}.Serves(lab, lab.Hosts[1])); got != "[10.88.1.0/24 fd00:10:2::/64]" {
		t.Errorf("host 2 serves %s", got)
	}
}

// A range that is too small, or that of the underlay, is refused when a lab is planned.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, ranges, want string
		hosts              int
	}{
		{"small", `"subnet": "10.88.0.0/30"`, "has no address for container 2 (hint: a larger range)", 1},
		{"underlay", `"subnet": "198.18.7.0/24"`, "subnet 198.18.7.0/24 of the conflist is that of the underlay", 2},
		{"no next", `"subnet": "255.255.255.0/24"`, "there is no range of the size of 255.255.255.0/24 for host 2", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			lab := network.NewLab(c.hosts, 1500)
			lab.Params = part.Params{conf: conflistOf(t, ranged(c.ranges))}
			lab.Hosts[0].Containers = []network.Container{{Name: "a"}, {Name: "b", Index: 1}}
			if _, _, err := (Network{}).Build(lab); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Build = %v, want %q", err, c.want)
			}
		})
	}
}

// TestExclude wants a reason for labs that show nothing of the plugins, or whose containers do not reach each other.
func TestExclude(t *testing.T) {
	mine := func(text string) part.Params { return part.Params{conf: conflistOf(t, text)} }
	for _, c := range []struct {
		name  string
		p     part.Params
		hosts int
		want  string // "": the lab is not left out
	}{
		{"bridge", part.Params{}, 1, ""},
		{"published on one host", part.Params{chain: "portmap"}, 1, "plugin portmap sees none of them"},
		{"published", part.Params{chain: "portmap"}, 2, ""},
		{"ptp", part.Params{plugin: ptp, chain: "firewall"}, 1, ""},
		{"past the host", part.Params{plugin: macvlan, chain: "bandwidth"}, 2, "plugin bandwidth acts on what the host passes"},
		{"flannel on one host", part.Params{plugin: flannel}, 1, "its daemon has nothing to do"},
		{"flannel", part.Params{plugin: flannel}, 2, ""},
		{"own flannel", mine(list(`{"type": "flannel"}`)), 2, ""},
		{"own flannel masks", mine(list(`{"type": "flannel", "delegate": {"ipMasq": true}}`)), 2, "with ipMasq other hosts see"},
		{"own chain", mine(list(`{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.88.0.0/16"}},
			{"type": "portmap"}`)), 1, ""},
		{"own masks", mine(list(`{"type": "bridge", "isDefaultGateway": true, "ipMasq": true,
			"ipam": {"type": "host-local", "subnet": "10.88.0.0/16"}}`)), 2, "with ipMasq other hosts see"},
		{"own without route", mine(ranged(`"subnet": "10.88.0.0/16"`)), 2, "its containers have no default route"},
		{"own private", mine(list(`{"type": "macvlan", "mode": "private", "ipam": {"type": "host-local",
			"subnet": "10.88.0.0/16"}}`)), 1, `with mode "private" of macvlan`},
		{
			"unknown", mine(list(`{"type": "mine", "ipam": {"type": "host-local", "subnet": "10.88.0.0/16"}}`)), 2,
			`nettoll does not know how containers of plugin "mine" reach other hosts`,
		},
		{
			"unknown on one host", mine(list(`{"type": "mine", "ipam": {"type": "host-local", "subnet": "10.88.0.0/16"}}`)), 1,
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Network{}.Exclude(c.hosts, c.p)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("Exclude = %q, want %q", got, c.want)
			}
		})
	}
}

// FuzzConflist wants a conflist or an error, and of a conflist different addresses for the containers of two hosts.
func FuzzConflist(f *testing.F) {
	f.Add([]byte(ranged(`"subnet": "10.88.0.0/16"`)))
	f.Add([]byte(ranged(`"ranges": [[{"subnet": "10.88.0.0/29", "gateway": "10.88.0.2"}], [{"subnet": "fd00:88::/64"}]]`)))
	f.Add([]byte(list(`{"type": "flannel", "delegate": {"isDefaultGateway": true}}, {"type": "portmap"}`)))
	f.Add([]byte(list(`{"type": "macvlan", "mode": "bridge", "args": {"cni": 3}, "ipam": {"type": "host-local",
		"subnet": "ff00::/8", "rangeEnd": "ff00::3", "routes": [3]}}, {"type": "tuning"}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parse(text)
		if (c == nil) == (err == nil) {
			t.Fatalf("parse = %v, %v", c, err)
		}
		if err != nil {
			return
		}
		lab := network.NewLab(2, 1500)
		for i := range lab.Hosts {
			lab.Hosts[i].Containers = []network.Container{{Name: "a"}, {Name: "b", Index: 1}}
		}
		seen := map[netip.Addr]bool{}
		for _, h := range lab.Hosts {
			l, err := lay(c, lab, h)
			if err != nil {
				return
			}
			_, ends, err := l.build()
			if err != nil {
				return
			}
			for _, e := range ends {
				if seen[e.IPv4] || e.IPv6.IsValid() && seen[e.IPv6] {
					t.Fatalf("an address twice: %v of %v", ends, seen)
				}
				seen[e.IPv4], seen[e.IPv6] = true, true
			}
		}
	})
}

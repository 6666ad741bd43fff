package iptables_test

import (
	"maps"
	"regexp"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/filter/iptables"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
	"github.com/nettoll/nettoll/part"
)

// state is what iptables-save prints in both families, without comments and counters.
func state(variant string) func(k *host.Kernel, ns string) (string, error) {
	figures := regexp.MustCompile(`(?m)^#.*\n| \[\d+:\d+\]`)
	return func(k *host.Kernel, ns string) (string, error) {
		var all string
		for _, ip := range []string{"iptables-", "ip6tables-"} {
			args := []string{ip + variant + "-save"}
			if variant == "legacy" {
				args = append(args, "-t", "filter") // which makes the table
			}
			out, err := filtertest.Run(k, ns, args...)
			if err != nil {
				return "", err
			}
			all += figures.ReplaceAllString(out, "")
		}
		return all, nil
	}
}

func TestConformance(t *testing.T) {
	stateless, stateful := map[string]string{"rules": "3"}, map[string]string{
		"stateful": "true", "rules": "2", "fillers": "after",
	}
	for _, c := range []struct {
		variant string
		on      []filtertest.On
		with    map[string]string
	}{
		{"nft", []filtertest.On{{Network: bridge.Network{}}, {Network: routed.Network{}}}, stateless},
		{"nft", []filtertest.On{{Network: macvlan.Network{}}, {Network: nat.Network{}, Hosts: 2}}, stateful},
		{
			"nft",
			[]filtertest.On{{Network: nat.Network{}, Hosts: 2}, {Network: bridge.Network{}}},
			map[string]string{"stateful": "true", "antispoof": "true"},
		},
		{"legacy", []filtertest.On{{Network: macvlan.Network{}}}, stateless},
		{"legacy", []filtertest.On{{Network: bridge.Network{}}}, stateful},
	} {
		t.Run(c.variant, func(t *testing.T) {
			t.Parallel()
			with := maps.Clone(c.with)
			with["variant"] = c.variant
			tampers := filtertest.HookTampers(c.variant)
			if c.with["stateful"] != "" { // all of them once for each variant
				tampers = tampers[:2]
			}
			filtertest.Conformance(t, filtertest.Subject{Filter: iptables.Filter{}, State: state(c.variant), Tampers: tampers},
				c.on, with)
		})
	}
}

func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		network string
		at      network.Point
		want    string
	}{
		{"bridge", network.AtBridge, ""},
		{"nat", network.AtForward, ""},
		{"macvlan", network.InContainer, ""},
		{
			"ovs", network.AtOpenFlow,
			"under ovs packets do not pass iptables, because they are forwarded by OpenFlow in the host's Open vSwitch",
		},
		{"ebpf", network.AtTCX, "under ebpf packets do not pass iptables, because they are forwarded on tcx at the host's end of " +
			"each container's link"},
	} {
		if got := (iptables.Filter{}).Refuse(filter.Where{Network: c.network, Point: c.at, Hosts: 1}, nil); got != c.want {
			t.Errorf("Refuse %s = %q, want %q", c.at, got, c.want)
		}
	}
}

func TestRefuseTranslated(t *testing.T) {
	for _, c := range []struct {
		hosts    int
		stateful string
		refused  bool
	}{{1, "false", false}, {2, "true", false}, {2, "false", true}} {
		reason := iptables.Filter{}.Refuse(filter.Where{
			Network: "nat", Point: network.AtForward, Hosts: c.hosts, Translated: true,
		}, part.Params{filter.Stateful: c.stateful})
		if (reason != "") != c.refused {
			t.Errorf("%d hosts, stateful %s: refused because %q, want %t", c.hosts, c.stateful, reason, c.refused)
		}
	}
}

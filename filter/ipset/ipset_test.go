package ipset_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/filter/ipset"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/network/routed"
)

// state is what iptables-save prints in both families, without comments and counters, and the sets.
func state(variant string) func(k *host.Kernel, ns string) (string, error) {
	figures := regexp.MustCompile(`(?m)^#.*\n| \[\d+:\d+\]| initval 0x[0-9a-f]+`)
	return func(k *host.Kernel, ns string) (string, error) {
		var all string
		commands := [][]string{{"ipset", "save", "-sorted"}}
		for _, ip := range []string{"iptables-", "ip6tables-"} {
			args := []string{ip + variant + "-save"}
			if variant == "legacy" {
				args = append(args, "-t", "filter") // which makes the table
			}
			commands = append(commands, args)
		}
		for _, args := range commands {
			out, err := filtertest.Run(k, ns, args...)
			if err != nil {
				return "", err
			}
			all += figures.ReplaceAllString(out, "")
		}
		return all, nil
	}
}

// tampers change entries and rules behind the back of the plan.
func tampers(variant string) []filtertest.Tamper {
	swap := filtertest.Tamper{Text: "swap a set for another", Do: func(k *host.Kernel, s filter.Site) error {
		ns, _ := filtertest.Hook(s)
		for _, args := range []string{
			"-exist create other hash:ip,port,ip", "-exist add other 10.0.0.1,udp:7,10.0.0.2", "swap nettoll4 other",
		} {
			if _, err := filtertest.Run(k, ns, append([]string{"ipset"}, strings.Fields(args)...)...); err != nil {
				return err
			}
		}
		return nil
	}}
	list := []filtertest.Tamper{swap}
	for _, line := range []string{
		"ipset flush nettoll4", "ipset flush", "ipset add nettoll6 fd00::1,udp:7,fd00::2",
		"iptables-VARIANT -I HOOK -j ACCEPT", "ip6tables-VARIANT -D HOOK -j nettoll-own",
	} {
		list = append(list, filtertest.Command(strings.ReplaceAll(line, "VARIANT", variant)))
	}
	if variant == "nft" {
		list = append(list, filtertest.Dormant()...)
	}
	return list
}

func TestConformance(t *testing.T) {
	stateless, stateful := map[string]string{"rules": "3"}, map[string]string{"stateful": "true", "rules": "2"}
	for _, c := range []struct {
		variant string
		on      []filtertest.On
		with    map[string]string
	}{
		{"nft", []filtertest.On{{Network: bridge.Network{}, Hosts: 2}, {Network: macvlan.Network{}}}, stateless},
		{"nft", []filtertest.On{{Network: routed.Network{}}}, stateful},
		{"nft", []filtertest.On{{Network: routed.Network{}, Hosts: 2}}, map[string]string{"antispoof": "true"}},
		{"legacy", []filtertest.On{{Network: nat.Network{}, Params: map[string]string{"hairpin": "true"}}}, stateless},
		{"legacy", []filtertest.On{{Network: macvlan.Network{}}, {Network: bridge.Network{}}}, stateful},
	} {
		t.Run(c.variant, func(t *testing.T) {
			t.Parallel()
			with := maps.Clone(c.with)
			with["variant"] = c.variant
			tampers := tampers(c.variant)
			if c.with["stateful"] != "" { // all of them once for each variant
				tampers = tampers[:2]
			}
			filtertest.Conformance(t, filtertest.Subject{Filter: ipset.Filter{}, State: state(c.variant), Tampers: tampers},
				c.on, with)
		})
	}
}

func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		at     network.Point
		decoys string
		want   string
	}{
		{network.AtBridge, "before", ""},
		{network.AtForward, "before", ""},
		{network.InContainer, "before", ""},
		{network.InContainer, "after", "the entries of a set have no order, so fillers=after equals fillers=before"},
		{
			network.AtTCX, "before",
			"under x packets do not pass iptables, because they are forwarded on tcx at the host's end of each container's link",
		},
	} {
		params := map[string]string{filter.Decoys: c.decoys}
		if got := (ipset.Filter{}).Refuse(filter.Where{Network: "x", Point: c.at, Hosts: 1}, params); got != c.want {
			t.Errorf("Refuse %s, decoys %s = %q, want %q", c.at, c.decoys, got, c.want)
		}
	}
}

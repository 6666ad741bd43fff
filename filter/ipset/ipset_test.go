package ipset_test

import (
	"fmt"
	"maps"
	"os/exec"
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

// run runs a program in a namespace of a host.
func run(k *host.Kernel, ns string, args ...string) (out string, err error) {
	err = k.Do(ns, func() error {
		b, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if out = string(b); err != nil {
			return fmt.Errorf("%s: %w: %s", args, err, out)
		}
		return nil
	})
	return out, err
}

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
			out, err := run(k, ns, args...)
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
	var list []filtertest.Tamper
	for _, command := range []string{
		"iptables-" + variant + " -I HOOK -j ACCEPT",
		"ip6tables-" + variant + " -D nettoll-hook 1",
		"ipset flush nettoll4",
		"ipset add nettoll6 fd00::1,udp:7,fd00::2",
	} {
		list = append(list, filtertest.Tamper{Text: command, Do: func(k *host.Kernel, s filter.Site) error {
			ns, hook := "", "FORWARD"
			if s.Point == network.InContainer {
				ns, hook = s.Containers[0].Namespace, "OUTPUT"
			}
			_, err := run(k, ns, strings.Fields(strings.NewReplacer("HOOK", hook, "hook", strings.ToLower(hook)).Replace(command))...)
			return err
		}})
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
		{"legacy", []filtertest.On{{Network: nat.Network{}, Params: map[string]string{"hairpin": "true"}}}, stateless},
		{"legacy", []filtertest.On{{Network: macvlan.Network{}}, {Network: bridge.Network{}}}, stateful},
	} {
		t.Run(c.variant, func(t *testing.T) {
			t.Parallel()
			with := maps.Clone(c.with)
			with["variant"] = c.variant
			filtertest.Conformance(t, filtertest.Subject{Filter: ipset.Filter{}, State: state(c.variant), Tampers: tampers(c.variant)}, c.on, with)
		})
	}
}

func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		at      network.Point
		fillers string
		want    string
	}{
		{network.AtBridge, "before", ""},
		{network.AtForward, "before", ""},
		{network.InContainer, "before", ""},
		{network.InContainer, "after", "the entries of a set have no order, and fillers=after is fillers=before"},
		{network.AtTCX, "before", "under x packets do not pass iptables: they are forwarded on tcx at the host's end of each container's link"},
	} {
		params := map[string]string{filter.Fillers: c.fillers}
		if got := (ipset.Filter{}).Refuse(filter.Where{Network: "x", Point: c.at, Hosts: 1}, params); got != c.want {
			t.Errorf("Refuse %s, fillers %s = %q, want %q", c.at, c.fillers, got, c.want)
		}
	}
}

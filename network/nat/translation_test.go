package nat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network/nat"
)

// translation returns a step with every field, but for its namespace.
func translation() nat.Translation {
	return nat.Translation{
		Table: "translate", Public: []string{"10.7.0.1", "fd00:7::1"}, Sources: []string{"10.1.0.0/16", "fd00:10:1::/64"},
		Published: []nat.Publication{{First: 20000, Last: 20009, To: []string{"10.1.1.0", "fd00:10:1::1:0"}}},
	}
}

func kernel(t *testing.T) (*host.Kernel, *testnet.Machine) {
	t.Helper()
	m := testnet.New(t)
	return steptest.Kernel(t, m, host.KernelConfig{}), m
}

func TestTranslationString(t *testing.T) {
	published := func(n int) (list []nat.Publication) {
		for i := range n {
			list = append(list, nat.Publication{
				First: uint16(100 * i), Last: uint16(100*i + 9), To: []string{fmt.Sprintf("10.1.1.%d", i)},
			})
		}
		return list
	}
	steps := []host.Step{
		nat.Translation{
			NS: "@host1", Table: "nettoll", Public: []string{"198.18.0.1", "fd00:198:18::1"}, Sources: []string{"10.1.0.0/16"},
			Published: published(5),
		},
		nat.Translation{Table: "nettoll", Public: []string{"198.18.0.1"}, Published: published(6)},
	}
	want := "  1 nat nettoll in @host1 behind 198.18.0.1, fd00:198:18::1, from 10.1.0.0/16; ports 0-9 to 10.1.1.0; ports " +
		"100-109 to 10.1.1.1; ports 200-209 to 10.1.1.2; ports 300-309 to 10.1.1.3; ports 400-409 to 10.1.1.4\n" +
		"  2 nat nettoll behind 198.18.0.1; ports 0-9 to 10.1.1.0; ports 100-109 to 10.1.1.1; ports 200-209 to 10.1.1.2; " +
		"ports 300-309 to 10.1.1.3; and 2 more port ranges\n"
	plan := host.Plan{Steps: steps}
	if diff := cmp.Diff(want, plan.String()); diff != "" {
		t.Errorf("plan as text (-want +got):\n%s", diff)
	}
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.Decoder{Kinds: nat.Network{}.Steps()}.Decode(data)
	if diff := cmp.Diff(plan, got); err != nil || diff != "" {
		t.Errorf("%v; plan after a round trip (-want +got):\n%s", err, diff)
	}
}

func TestTranslationTampering(t *testing.T) {
	k, m := kernel(t)
	for name, c := range map[string]struct {
		change func(*nat.Translation) // nil deletes the table
		want   string
	}{
		"table gone": {nil, "table translate: want present, got absent"},
		"sources of others": {
			func(n *nat.Translation) { n.Sources = n.Sources[1:] },
			`rule "ip saddr 10.1.0.0/16 snat ip to 10.7.0.1" of chain postrouting: want present, got absent`,
		},
		"public address": {
			func(n *nat.Translation) { n.Public[1] = "fd00:7::2" },
			`rule "ip6 daddr fd00:7::1 dnat ip6 to udp dport map @ports6" of chain prerouting: want present, got absent`,
		},
		"nothing published": {
			func(n *nat.Translation) { n.Published = nil },
			`entry "20000-20009 : 10.1.1.0" of map ports4: want present, got absent`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			steptest.Noticed(t, k, host.Plan{Steps: []host.Step{translation()}}, func() error {
				if err := m.Do(func() error { return nft.Delete("translate") }); err != nil || c.change == nil {
					return err
				}
				n := translation()
				c.change(&n)
				return n.Apply(t.Context(), k)
			}, c.want)
		})
	}
}

func TestTranslationErrors(t *testing.T) {
	k, _ := kernel(t)
	for name, c := range map[string]struct {
		step nat.Translation
		want string
	}{
		"public address of none": {nat.Translation{Table: "t", Public: []string{"10.0.0"}}, `public address "10.0.0"`},
		"public addresses": {
			nat.Translation{Table: "t", Public: []string{"10.0.0.1", "10.0.0.2"}},
			`public address "10.0.0.2": 10.0.0.1 is of the same family`,
		},
		"sources of none": {
			nat.Translation{Table: "t", Public: []string{"10.0.0.1"}, Sources: []string{"10.0.0.0"}}, `sources "10.0.0.0"`,
		},
		"sources of the other family": {
			nat.Translation{Table: "t", Public: []string{"10.0.0.1"}, Sources: []string{"fd00::/64"}},
			`no public address of this family`,
		},
		"published nowhere": {
			nat.Translation{Table: "t", Published: []nat.Publication{{First: 1, Last: 2, To: []string{"c"}}}},
			`publish ports 1-2 at "c"`,
		},
		"published twice": {
			nat.Translation{Table: "t", Public: []string{"10.0.0.1"}, Published: []nat.Publication{
				{First: 1, Last: 2, To: []string{"10.0.0.2"}}, {First: 2, Last: 3, To: []string{"10.0.0.3"}},
			}}, `"2-3 : 10.0.0.3" overlaps "1-2 : 10.0.0.2"`,
		},
		"no such namespace": {nat.Translation{NS: "d", Table: "t"}, `open namespace "d"`},
	} {
		t.Run(name, func(t *testing.T) {
			var s host.Stack
			err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{c.step}})
			if errors.Is(err, errors.ErrUnsupported) {
				testnet.Skip(t, err)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || s.Len() > 0 {
				t.Errorf("Apply = %v and %d steps\nwant %q", err, s.Len(), c.want)
			}
		})
	}
}

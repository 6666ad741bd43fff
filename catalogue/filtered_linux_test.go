package catalogue_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/filter/filtertest"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// A filtered is a filter on a network, with what carries packets between hosts.
type filtered struct {
	filter  filter.Filter
	params  part.Params
	network network.Network
	between stack.Stack // a tunnel, an encryption or both
}

// String names it as a test: "ebpf/bridge/vxlan+wireguard, ipv4".
func (f *filtered) String() string {
	var ids, outer []string
	for _, c := range f.between {
		ids = append(ids, c.ID())
		if o := c.Params["outer"]; o != "" {
			outer = append(outer, o)
		}
	}
	return fmt.Sprintf("%s/%s/%s, %s", f.filter.Describe().Params.Short(f.filter.Describe().Name, f.params),
		f.network.Describe().Name, strings.Join(ids, "+"), strings.Join(outer, " on "))
}

// between returns every tunnel and every encryption alone, by each of who can be told to make it and in packets of
// each family, and every tunnel on every encryption as they are by default.
func between(t *testing.T) (list []stack.Stack) {
	t.Helper()
	kinds := catalogue.New().Kinds
	chosen := func(kind, name string, given part.Params) stack.Choice {
		c, err := kinds.Choose(kind, name, given)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	of := map[string][]stack.Part{}
	for _, kind := range []string{"tunnel", "encryption"} {
		k, err := kinds.Find(kind)
		if err != nil {
			t.Fatal(err)
		}
		of[kind] = k.Parts()
		for _, p := range k.Parts() {
			for _, given := range implementations(p.Description) {
				for _, family := range families(p.Description) {
					given := maps.Clone(given)
					if family != "" {
						given["outer"] = family
					}
					list = append(list, stack.Stack{chosen(kind, p.Description.Name, given)})
				}
			}
		}
	}
	for _, u := range of["tunnel"] {
		for _, e := range of["encryption"] {
			list = append(list, stack.Stack{
				chosen("tunnel", u.Description.Name, nil), chosen("encryption", e.Description.Name, nil),
			})
		}
	}
	return list
}

// products returns every filter on every network that it can be on, with all carriers that this machine has.
func products(t *testing.T) (list []*filtered) {
	t.Helper()
	kinds := catalogue.New().Kinds
	between := slices.DeleteFunc(between(t), func(s stack.Stack) bool { return s.Check() != nil })
	for _, f := range stack.PartsOf[filter.Filter](kinds) {
		d := f.Describe()
		variants := []part.Params{{}, {filter.Stateful: "true", filter.Antispoof: "true"}}
		for _, p := range d.Params {
			for _, v := range p.Values {
				if p.Name == "match" && v != p.Default {
					variants = append(variants, part.Params{"match": v})
				}
			}
		}
		for _, given := range variants {
			params, err := d.Params.Resolve("filter "+d.Name, given)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range stack.PartsOf[network.Network](kinds) {
				for _, b := range between {
					one := &filtered{filter: f, params: params, network: n, between: b}
					if one.whole(t, kinds).Refuse(2) == "" {
						list = append(list, one)
					}
				}
			}
		}
	}
	return list
}

// whole is the stack of all of its parts.
func (f *filtered) whole(t *testing.T, kinds stack.Kinds) stack.Stack {
	t.Helper()
	n, err := kinds.Choose("network", f.network.Describe().Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := kinds.Choose("filter", f.filter.Describe().Name, f.params)
	if err != nil {
		t.Fatal(err)
	}
	return append(stack.Stack{n, own}, f.between...)
}

// some leaves a tunnel on an encryption for each filter, and a tunnel and an encryption alone, each for one of the
// filters: other ones each hour.
func some(list []*filtered, hour int) (left []*filtered) {
	by := map[string][]*filtered{}
	for _, f := range list {
		id := f.between[0].Kind.Describe().Name
		if len(f.between) > 1 {
			id = f.filter.Describe().Name
		}
		by[id] = append(by[id], f)
	}
	for i, id := range slices.Sorted(maps.Keys(by)) {
		const step = 11 // so that neighbours in the list do not follow each other
		left = append(left, by[id][(hour*step+i)%len(by[id])])
	}
	return left
}

// Filters decide what arrives from other hosts, whatever carries it. By default each is tried with a tunnel on an
// encryption, other ones each hour, and not attacked: make test-filtered tries all.
func TestFiltered(t *testing.T) {
	testnet.Root(t)
	list := products(t)
	if *onlyPairs != "" {
		only := regexp.MustCompile(*onlyPairs)
		list = slices.DeleteFunc(list, func(f *filtered) bool { return !only.MatchString(f.String()) })
	} else {
		list = some(list, testnet.Hour())
	}
	if len(list) == 0 {
		t.Fatal("nothing to try")
	}
	for _, f := range list {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel() // each has namespaces of its own, and most of it is waiting
			if reason := filtertest.Between(t, f.filter, f.params, filtertest.On{
				Network: f.network, Between: f.between,
			}, *onlyPairs != ""); reason != "" {
				t.Error(reason)
			}
		})
	}
}

package catalogue_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// Flags of go test, behind -args: see the target test-between of the Makefile.
var (
	onlyPairs = flag.String("only", "", "try all pairs whose names match this regular expression")
	pairTable = flag.String("table", "", "write the table to this file")
)

// A pair is a tunnel on an encryption, with the network above them.
type pair struct {
	stack stack.Stack // the tunnel and the encryption
	outer [2]string   // the families of their packets; "" of an encryption of frames
	under network.Network

	keys   bool // whether keys that differ are tried, too
	mtu    int
	result string
}

// String names it as a test: "vxlan+wireguard/bridge, ipv4 on ipv6".
func (p *pair) String() string {
	return fmt.Sprintf("%s+%s/%s, %s on %s", p.stack[0].ID(), p.stack[1].ID(), p.under.Describe().Name, p.outer[0],
		cmp.Or(p.outer[1], "ethernet"))
}

// implementations returns the parameters of a part, for each implementation that it can be told to take, for IP packets
// and frames inside if it can carry both, and for each of its modes. Some do not fit together, see [unfit].
func implementations(d part.Description) []part.Params {
	list := []part.Params{{}}
	for _, p := range d.Params {
		if !slices.Contains([]string{"impl", "inner", "mode"}, p.Name) {
			continue
		}
		var more []part.Params
		for _, given := range list {
			for _, v := range p.Values {
				if v != "auto" {
					with := maps.Clone(given)
					with[p.Name] = v
					more = append(more, with)
				}
			}
		}
		list = more
	}
	return list
}

// unfit says whether the carriers of a stack, or the parameters of one, do not fit together on any machine.
func unfit(s stack.Stack) bool {
	const roomy = 9000
	_, err := network.Compose(network.NewLab(2, roomy), s)
	_, is := errors.AsType[*network.UnfitError](err)
	return is
}

// families are those of the packets of a part, as far as one can choose.
func families(d part.Description) []string {
	if i := slices.IndexFunc(d.Params, func(p part.Param) bool { return p.Name == "outer" }); i >= 0 {
		return d.Params[i].Values
	}
	return []string{""}
}

// pairs returns all of them: equal families under each network, and different ones under the first.
func pairs(t *testing.T) (list []*pair) {
	t.Helper()
	kinds := catalogue.New().Kinds
	networks := map[string]network.Network{}
	for _, n := range stack.PartsOf[network.Network](kinds) {
		networks[n.Describe().Name] = n
	}
	chosen := func(kind, name string, given part.Params, family string) stack.Choice {
		given = maps.Clone(given)
		if family != "" {
			given["outer"] = family
		}
		c, err := kinds.Choose(kind, name, given)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	of := func(kind string) []stack.Part {
		k, err := kinds.Find(kind)
		if err != nil {
			t.Fatal(err)
		}
		return k.Parts()
	}
	for _, e := range of("encryption") {
		for _, eimpl := range implementations(e.Description) {
			for _, u := range of("tunnel") {
				for _, uimpl := range implementations(u.Description) {
					for i, n := range []string{"bridge", "routed", "ebpf"} {
						for _, fu := range families(u.Description) {
							for _, fe := range families(e.Description) {
								if i > 0 && fu != fe && fu != "" && fe != "" {
									continue
								}
								p := &pair{
									under: networks[n], outer: [2]string{fu, fe}, keys: i == 0 && (fu == fe || fe == ""),
									stack: stack.Stack{
										chosen("tunnel", u.Description.Name, uimpl, fu), chosen("encryption", e.Description.Name, eimpl, fe),
									},
								}
								if !unfit(p.stack) {
									list = append(list, p)
								}
							}
						}
					}
				}
			}
		}
	}
	return list
}

// modules says whether a pair has something that only a kernel with modules can have, see [testnet.Lacking].
func (p *pair) modules() bool {
	return slices.ContainsFunc(p.stack, func(c stack.Choice) bool {
		return c.Params["impl"] == "kernel" || c.Part.Name == "geneve" || c.Part.Name == "macsec"
	})
}

// turn leaves one pair of each encryption that this machine has, another one each hour.
func turn(list []*pair, hour int) []*pair {
	by := map[string][]*pair{}
	for _, p := range list {
		if p.stack.Check() == nil {
			id := p.stack[1].Part.Name
			by[id] = append(by[id], p)
		}
	}
	var left []*pair
	for _, id := range slices.Sorted(maps.Keys(by)) {
		left = append(left, by[id][hour%len(by[id])])
	}
	return left
}

// Every tunnel stands on every encryption. By default one pair of each encryption is tried, another one each hour:
// make test-between tries all.
func TestBetween(t *testing.T) {
	testnet.Root(t)
	list := pairs(t)
	switch only := regexp.MustCompile(*onlyPairs); {
	case *onlyPairs != "":
		list = slices.DeleteFunc(list, func(p *pair) bool { return !only.MatchString(p.String()) })
	case testnet.Guest():
		list = slices.DeleteFunc(list, func(p *pair) bool { return !p.modules() })
	default:
		const step = 7 // has no divisor in common with the numbers of pairs, so that all have their turn
		list = turn(list, testnet.Hour()*step)
	}
	began := time.Now()
	t.Run("on", func(t *testing.T) {
		for _, p := range list {
			p.result = "not tried"
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel() // each has namespaces of its own, and most of it is waiting
				p.try(t)
			})
		}
	})
	slices.SortStableFunc(list, func(a, b *pair) int { return cmp.Compare(a.String(), b.String()) })
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, "%s | MTU %d | %s\n", p, p.mtu, p.result)
	}
	t.Logf("%d in %.0f s:\n%s", len(list), time.Since(began).Seconds(), b.String())
	if *pairTable != "" {
		if err := os.WriteFile(*pairTable, []byte(b.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// try runs the suite on a pair and keeps what came of it.
func (p *pair) try(t *testing.T) {
	if err := p.stack.Check(); err != nil {
		p.result = "refused: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		testnet.Skip(t, err)
		t.Fatal(err)
	}
	begun := time.Now()
	lab, stood := carriertest.Between(t, p.under, p.stack, p.keys)
	p.mtu, p.result = lab.MTU, "passed"
	switch {
	case t.Failed():
		p.result = "failed"
	case !stood:
		p.result = "did not stand"
	}
	p.result += fmt.Sprintf(", %.1f s", time.Since(begun).Seconds())
}

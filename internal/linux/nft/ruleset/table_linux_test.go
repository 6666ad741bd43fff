package ruleset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/nft"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// do calls f in a machine of its own.
func do(t testing.TB, f func() error) {
	t.Helper()
	testnet.Skip(t, testnet.New(t).Do(f))
}

func elements(n int, chain string) iter.Seq[Element] {
	return func(yield func(Element) bool) {
		for i := range n {
			key := binary.BigEndian.AppendUint32([]byte{10, 1, 1, 0}, uint32(i))
			if !yield(Element{Key: key, Chain: chain}) {
				return
			}
		}
	}
}

func numbered(n int) iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for i := range n {
			if !yield(Rule(nil).Load(Word(0), NetworkHeader, 12, 4).Equal(Word(0),
				binary.BigEndian.AppendUint32(nil, uint32(i))...).Goto("other")) {
				return
			}
		}
	}
}

// table returns a table with something of everything, and this many additional rules and elements.
func table(family string, more int) Table {
	w := Word(0)
	hook := &Hook{Name: "forward", Priority: -5}
	if family == "netdev" {
		hook = &Hook{Name: "ingress", Link: "lo"}
	}
	first := questions()
	if family == "inet" {
		first = Rule(nil).LoadState(w).Mask(w, 6, 0, 0, 0).Differ(w, 0, 0, 0, 0).Goto("other")
	}
	return Table{
		Family: family, Name: "t",
		Sets: []Set{
			{Name: "set", Fields: []Field{IPv4, IPv4, Port}, Size: 10, Elements: func(func(Element) bool) {}},
			{Name: "other", Fields: []Field{IPv4, IPv4}, Size: more + 10, Elements: elements(more, "")},
			{Name: "map", Map: true, Fields: []Field{IPv6}, Size: 10, Elements: func(yield func(Element) bool) {
				yield(Element{Key: make([]byte, 16), Chain: "other"})
			}},
		},
		Chains: []Chain{
			{Name: "from", Hook: hook, Rules: All(first, questions(), Rule(nil).Jump("many"), Rule(nil).Count().Drop())},
			{Name: "many", Rules: numbered(more)},
			{Name: "other", Rules: All(Rule(nil).Count().Accept())},
			{Name: "by map", Rules: All(Rule(nil).Load(w, NetworkHeader, 8, 16).Map("map", w))},
		},
	}
}

// TestTable makes tables of every family, in one and in many transactions, and reads them back.
func TestTable(t *testing.T) {
	for _, family := range []string{"inet", "bridge", "netdev"} {
		for _, most := range []int{maxTransaction, 64 << 10} {
			t.Run(fmt.Sprint(family, " ", most), func(t *testing.T) {
				do(t, func() error {
					want := table(family, 1000)
					if err := Delete(family, "t"); !errors.Is(err, nft.ErrNotFound) {
						t.Errorf("Delete of none = %v, want %v", err, nft.ErrNotFound)
					}
					if got, err := Compare(want); err != nil ||
						!cmp.Equal(got, []linux.Difference{{What: "table t", Want: linux.Present, Got: linux.Absent}}) {
						t.Errorf("Compare with none = %v, %v", got, err)
					}
					if err := add(want, most); err != nil {
						return err
					}
					if got, err := Compare(want); err != nil || len(got) > 0 {
						t.Errorf("Compare = %v, %v", got, err)
					}
					if err := add(want, most); !errors.Is(err, nft.ErrExists) {
						t.Errorf("Add twice = %v, want %v", err, nft.ErrExists)
					}
					if got, err := Compare(want); err != nil || len(got) > 0 {
						t.Errorf("after a second Add, Compare = %v, %v", got, err)
					}
					return Delete(family, "t")
				})
			})
		}
	}
}

// TestCompareNames changes one thing of a table, and checks that the difference names it.
func TestCompareNames(t *testing.T) {
	chain := func(name string) func(*Batch) { return func(b *Batch) { b.AddChain(name) } }
	for _, c := range []struct {
		name string
		do   func(*Batch)
		want string
	}{
		{"nothing", func(*Batch) {}, ""},
		{"rule more", func(b *Batch) { b.AddRule("other", Rule(nil).Accept()) }, "rules of chain other: want 1, got 2"},
		{"rule gone", func(b *Batch) {
			b.DeleteRule("many", handles(t, "many")[19])
		}, "rule 20 of chain many: want present, got absent"},
		{"chain more", chain("x"), "chain x: want absent, got present"},
		{"element gone", func(b *Batch) {
			b.DeleteElements("other", elements(1, ""))
		}, "element 0a01010000000000 of set other: want present, got absent"},
		{"element more", func(b *Batch) {
			b.AddElements("set", slices.Values([]Element{{Key: []byte{10, 1, 1, 1, 10, 1, 1, 2, 0, 7, 0, 0}}}))
		}, "element 0a0101010a01010200070000 of set set: want absent, got present"},
		{"element elsewhere", func(b *Batch) {
			b.DeleteElements("map", table("inet", 0).Sets[2].Elements)
			b.AddElements("map", slices.Values([]Element{{Key: make([]byte, 16), Chain: "many"}}))
		}, "element 00000000000000000000000000000000 : many of set map: want absent, got present"},
		{"set more", func(b *Batch) {
			b.addSet(Set{Name: "x", Fields: []Field{IPv4}, Size: 1}, 9)
		}, "set x: want absent, got present"},
		{"table gone", func(b *Batch) { b.deleteTable() }, "table t: want present, got absent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			do(t, func() error {
				want := table("inet", 20)
				if err := Add(want); err != nil {
					return err
				}
				b := NewBatch("inet", "t")
				c.do(b)
				if _, err := b.Commit(); err != nil {
					return fmt.Errorf("change: %w", err)
				}
				list, err := Compare(want)
				var got []string
				for _, d := range list {
					got = append(got, fmt.Sprintf("%s: want %s, got %s", d.What, d.Want, d.Got))
				}
				if (c.want == "") != (len(got) == 0) || c.want != "" && !slices.Contains(got, c.want) {
					t.Errorf("differences %q, want %q", got, c.want)
				}
				return err
			})
		})
	}
}

func handles(t *testing.T, chain string) []uint64 {
	rules, err := Read("inet", "t", chain)
	if err != nil {
		t.Error(err)
	}
	var list []uint64
	for _, r := range rules {
		list = append(list, r.Handle)
	}
	return list
}

// TestChange adds rules and removes them by their handles.
func TestChange(t *testing.T) {
	do(t, func() error {
		want := table("inet", 20)
		if err := Add(want); err != nil {
			return err
		}
		b := NewBatch("inet", "t")
		b.Echo = true
		b.AddRule("many", Rule(nil).Accept())
		b.AddRule("other", Rule(nil).Drop())
		placed, err := b.Commit()
		if err != nil {
			return err
		}
		if len(placed) != 2 || placed[0].Chain != "many" || placed[0].Handle != handles(t, "many")[20] ||
			placed[1].Chain != "other" || placed[1].Handle != handles(t, "other")[1] {
			t.Errorf("placed %v", placed)
		}
		back := NewBatch("inet", "t")
		for _, p := range placed {
			back.DeleteRule(p.Chain, p.Handle)
		}
		if _, err := back.Commit(); err != nil {
			return err
		}
		if got, err := Compare(want); err != nil || len(got) > 0 {
			t.Errorf("Compare = %v, %v", got, err)
		}
		if _, err := NewBatch("inet", "t").Commit(); err != nil {
			t.Errorf("a batch of nothing: %v", err)
		}
		// A change that fails undoes those before it.
		fails := NewBatch("inet", "t")
		fails.AddRule("many", Rule(nil).Accept())
		fails.DeleteRule("other", 12345)
		if _, err := fails.Commit(); err == nil {
			t.Error("a rule that is not there was removed")
		}
		if got, err := Compare(want); err != nil || len(got) > 0 {
			t.Errorf("after a transaction that failed, Compare = %v, %v", got, err)
		}
		return nil
	})
}

// TestAddFails checks that the error names the problem, and that no table is left.
func TestAddFails(t *testing.T) {
	do(t, func() error {
		for _, most := range []int{maxTransaction, 64 << 10} {
			wrong := table("inet", 1000)
			wrong.Chains[0].Rules = All(Rule(nil).expression("none", func(b []byte) []byte { return b }))
			err := add(wrong, most)
			if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != "what this rule of nftables needs" {
				t.Errorf("Add with an unknown expression = %v", err)
			}
		}
		if err := Add(Table{Family: "none"}); err == nil ||
			!strings.Contains(err.Error(), "unknown family (known: inet, bridge, netdev)") {
			t.Errorf("Add of an unknown family = %v", err)
		}
		got, err := nft.List()
		if len(got) > 0 {
			t.Errorf("List = %v, want nothing", got)
		}
		return err
	})
}

// TestLarge loads a hundred thousand rules and as many elements.
func TestLarge(t *testing.T) {
	do(t, func() error {
		large := table("inet", 100_000)
		large.Chains[1].Rules = numbered(100_000)
		if err := Add(large); err != nil {
			return err
		}
		c := &comparison{family: families()["inet"], table: large}
		var err error
		if c.socket, err = dial(); err != nil {
			return err
		}
		defer c.close()
		if err := c.sets(); err != nil || len(c.list) > 0 {
			t.Errorf("sets: %v, %v", c.list, err)
		}
		return Delete("inet", "t")
	})
}

// TestRead reads the tables with nft(8).
func TestRead(t *testing.T) {
	testnet.Program(t, "nft", "nftables")
	do(t, func() error {
		if err := Add(table("inet", 1)); err != nil {
			return err
		}
		out, err := exec.Command("nft", "list", "table", "inet", "t").CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		for _, want := range []string{
			"type ipv4_addr . ipv4_addr . inet_service", "type filter hook forward priority filter - 5; policy drop;",
			"ct state established,related goto other", "ip saddr 10.1.1.0 ip saddr . ip daddr . th dport @set",
			"th dport 20000-20063 counter",
			"counter packets 0 bytes 0 drop", "vmap @map",
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("nft does not say %q:\n%s", want, out)
			}
		}
		return nil
	})
}

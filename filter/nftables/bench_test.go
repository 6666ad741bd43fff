package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/internal/testnet"
)

// BenchmarkLoad loads lists of one family with so many decoy rules in a namespace, reads them back, changes one rule,
// and removes them, and prints the medians. The aim: 10,000 rules or elements in half a second.
func BenchmarkLoad(b *testing.B) {
	for _, m := range []string{linear, set, chains} {
		for _, decoys := range []int{0, 10_000, 100_000} {
			for _, family := range []string{"ipv4", "ipv6"} {
				b.Run(fmt.Sprintf("%s/%d/%s", m, decoys, family), func(b *testing.B) { load(b, m, decoys, family) })
			}
		}
	}
}

func load(b *testing.B, match string, decoys int, family string) {
	k := machine(b)
	r := filter.Rule{
		Source: netip.MustParseAddr("10.1.1.0"), Sink: netip.MustParseAddr("10.1.1.1"), First: 20_000,
		Last: 20_062,
	}
	if family == "ipv6" {
		r.Source, r.Sink = netip.MustParseAddr("fd00:10:1::1:0"), netip.MustParseAddr("fd00:10:1::1:1")
	}
	more := r
	more.First, more.Last = 20_063, 20_063
	t := Tables{
		Match: match, Places: []Place{{Family: inet, Hooks: []string{hookForward}}},
		List: filter.List{Families: []string{family}, Allowed: []filter.Rule{r}, Decoys: decoys},
	}
	took := map[string][]time.Duration{}
	of := func(what string, f func() error) {
		began := time.Now()
		if err := f(); err != nil {
			testnet.Skip(b, err)
		}
		took[what] = append(took[what], time.Since(began))
	}
	for b.Loop() {
		of("load", func() error { return t.Apply(b.Context(), k) })
		of("verify", func() error { return t.Verify(k) })
		of("allow", func() error { return t.UpdateRule(k, more, true) })
		of("forbid", func() error { return t.UpdateRule(k, more, false) })
		of("undo", func() error { return t.Remove(b.Context(), k) })
	}
	for what, list := range took {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2].Seconds()*1000, what+"-ms")
	}
}

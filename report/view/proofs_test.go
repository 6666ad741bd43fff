package view_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/markdown"
	"github.com/nettoll/nettoll/report/text"
)

// Claims that held at the same times share a line. Claims of fewer labs have another, and one that did not hold has its
// own. A lab that was proved once counts as one proof, whatever the number of its claims.
func TestProofs(t *testing.T) {
	made := func(change func(log *measure.Log)) *made {
		m := start(t, []load{udprr("same-host", 1)}, "host", "bridge")
		for g := range 2 {
			for _, when := range []string{"before", "after"} {
				for _, lab := range []string{"host/same-host/1", "bridge+nftables/same-host/1"} {
					for _, c := range [][2]string{
						{"passes", "every pair passes"}, {"path", "packets go that way"}, {"refuses", "nobody else is answered"},
					} {
						if c[0] == "refuses" && !strings.Contains(lab, "+") {
							continue
						}
						m.log.Proofs = append(m.log.Proofs, measure.Proof{
							Generation: g, Lab: lab, Name: c[0], Claim: c[1], When: when, OK: true,
							Expected: "something", Tried: map[string]int{"ipv4": 3}, Seen: map[string]int{"ipv4": 3},
						})
					}
				}
			}
		}
		change(&m.log)
		return m
	}
	for _, c := range []struct {
		name     string
		change   func(log *measure.Log)
		text     []string
		markdown string
	}{
		{"all hold", func(*measure.Log) {}, []string{
			"proof: every pair passes; packets go that way (before and after; 2 labs, 2 generations)",
			"proof: nobody else is answered (before and after; 1 lab, 2 generations)",
			"1 failed; 8 proofs hold",
		}, "8 proofs made, none failed."},
		{"two claims of one time do not", func(log *measure.Log) {
			for _, i := range []int{3, 4} {
				log.Proofs[i].OK, log.Proofs[i].Detail = false, "it was seen (and 2 more)"
			}
		}, []string{
			"proof: every pair passes (before and after; 2 labs, 2 generations)",
			"✗ proof failed 1 of 8 times: packets go that way (2 labs, 2 generations)",
			"    lab bridge+nftables/same-host/1, generation 1, before: it was seen (and 2 more)",
			"✗ proof failed 1 of 4 times: nobody else is answered (1 lab, 2 generations)",
			"    lab bridge+nftables/same-host/1, generation 1, before: it was seen (and 2 more)",
			"1 failed; 1 of 8 proofs failed",
		}, "1 proof failed: see below"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := made(c.change)
			var said, marked strings.Builder
			if err := text.Write(&said, m.data(), report.Options{}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(said.String()) {
				if strings.Contains(line, "proof") || strings.HasPrefix(line, "    lab ") {
					got = append(got, strings.TrimRight(line, "\n"))
				}
			}
			if diff := cmp.Diff(c.text, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if err := markdown.Write(&marked, m.data(), report.Options{}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(marked.String(), c.markdown) {
				t.Errorf("Markdown does not say %q", c.markdown)
			}
		})
	}
}

package view_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/markdown"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
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
							Generation: g + 1, Lab: lab, Name: c[0], Claim: c[1], When: when, OK: true,
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
		{"one cannot be told", func(log *measure.Log) {
			log.Proofs[3].Untold = "too much happened"
		}, []string{
			"proof: every pair passes (before and after; 2 labs, 2 generations)",
			"? proof cannot be told 1 of 8 times: packets go that way (2 labs, 2 generations)",
			"    lab bridge+nftables/same-host/1, generation 1, before: too much happened",
			"proof: nobody else is answered (before and after; 1 lab, 2 generations)",
			"1 failed; 1 of 8 proofs cannot be told",
		}, "8 proofs made, none failed, 1 cannot be told: see below."},
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

// A stack of which something was read on the wire leaks, in every view. It has its figures, and nothing is compared
// with them; those of the generation do not count.
func TestLeak(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	for _, leak := range []struct {
		name  string
		proof measure.Proof
		want  measure.Verdict
	}{
		{"it leaks", measure.Proof{Name: measure.Hidden, Tried: map[string]int{"ipv4": 2}}, measure.Leaks},
		{"it was not tried", measure.Proof{Name: measure.Hidden}, measure.Slower},
		{"it arrived between blocks", measure.Proof{Name: measure.Sampled}, measure.Leaks},
		{"a port is open", measure.Proof{
			Name: "refuses", Tried: map[string]int{"ipv4": 2}, Seen: map[string]int{"ipv4": 1},
		}, measure.Leaks},
		{"a try could not be made", measure.Proof{
			Name: "refuses", Tried: map[string]int{"ipv4": 1}, Seen: map[string]int{"ipv4": 1},
		}, measure.Slower},
		{"something changed", measure.Proof{Name: "watched"}, measure.Slower},
		{"packets take another way", measure.Proof{Name: "path", Tried: map[string]int{"ipv4": 2}}, measure.Slower},
	} {
		t.Run(leak.name, func(t *testing.T) {
			m := start(t, loads, "host", "bridge", "macvlan")
			m.measure(loads, 7, 8, map[string]map[string]float64{"bridge": bridge(), "macvlan": bridge()})
			p := leak.proof
			p.Lab, p.Generation, p.Claim, p.When, p.Detail = "bridge/same-host/1", 3, "nothing is read", "after", "read"
			m.log.Proofs = append(m.log.Proofs, p)
			for _, r := range m.analysis().Rows {
				if r.Metric != r.Cell.Primary || r.Cell.Baseline == "" || r.Cell.Twin {
					continue
				}
				want, generations := measure.Slower, 7
				if r.Cell.Part("network") == "bridge" {
					want, generations = leak.want, 6
				}
				if r.Verdict != want || r.Generations != generations || r.HasRatio == (want == measure.Leaks) {
					t.Errorf("%s: %s after %d generations, with a ratio: %t; want %s after %d", r.Cell.ID, r.Verdict, r.Generations,
						r.HasRatio, want, generations)
				}
			}
			for _, format := range view.Formats() {
				var said strings.Builder
				if err := view.Write(&said, format, m.data(), report.Options{}); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(said.String(), "leaks") != (leak.want == measure.Leaks) {
					t.Errorf("%s: it says that something leaks: %t", format, leak.want != measure.Leaks)
				}
			}
		})
	}
	// nothing is compared with a baseline that leaks
	m := start(t, loads, "host", "bridge")
	m.measure(loads, 7, 8, map[string]map[string]float64{"bridge": bridge()})
	m.log.Proofs = append(m.log.Proofs, measure.Proof{
		Name: measure.Hidden, Tried: map[string]int{"ipv4": 2}, Lab: "host/same-host/1", Generation: 3,
	})
	for _, r := range m.analysis().Rows {
		if r.Metric == r.Cell.Primary && r.Cell.Part("network") == "bridge" && (r.HasRatio || r.Verdict != measure.NotPrecise) {
			t.Errorf("%s: %s, with a ratio: %t, and its baseline leaks", r.Cell.ID, r.Verdict, r.HasRatio)
		}
	}
}

// --fail-on leak fails because of what leaks in the newer run, whatever the older one did.
func TestGateLeak(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	run := func(leaks bool) *made {
		m := start(t, loads, "host", "bridge")
		m.measure(loads, 7, 8, map[string]map[string]float64{"bridge": bridge()})
		if leaks {
			m.log.Proofs = append(m.log.Proofs, measure.Proof{
				Name: measure.Hidden, Tried: map[string]int{"ipv4": 2}, Lab: "bridge/same-host/1", Generation: 3,
			})
		}
		return m
	}
	gates, err := report.ParseGates([]string{"leak"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ older, newer bool }{{false, false}, {true, false}, {false, true}} {
		l := against(measure.Comparing{}, run(c.older), run(c.newer))
		if err := l.Judge(gates); err != nil {
			t.Fatal(err)
		}
		failures := l.Failures()
		if (len(failures) == 1) != c.newer {
			t.Errorf("the older run leaks: %t, the newer: %t: %q", c.older, c.newer, failures)
		}
		if c.newer && !strings.Contains(failures[0], " leak: bridge/same-host/1/udp-rr") {
			t.Errorf("it does not name the cell: %q", failures)
		}
	}
}

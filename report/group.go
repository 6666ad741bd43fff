package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// Title returns the heading of a group: "udp-rr payload 64, mode wait · same host · 1 pair".
func (g *Group) Title() string { return title(g.one(), "") }

// title returns the traits that a cell shares with its group, without one of its parameters.
func title(c *measure.Cell, without string) string {
	text := Printable(c.Workload)
	list := slices.DeleteFunc(spoken(c), func(p string) bool { return without != "" && strings.HasPrefix(p, without+" ") })
	if len(list) > 0 {
		text += "  " + strings.Join(list, ", ")
	}
	text += " · " + Printable(strings.ReplaceAll(c.Placement, "-", " "))
	if without != pairsParam {
		text += " · " + pairsOf(c)
	}
	if b := mixedWith(c); b != "" {
		text += " · " + b
	}
	if c.Family != "ipv4" && c.Family != "" {
		text += " · " + Printable(c.Family)
	}
	if c.Affinity != "split" && c.Affinity != "" {
		text += " · affinity " + Printable(c.Affinity)
	}
	if c.Idle == "deep" {
		text += " · CPUs sleep when idle"
	}
	return text
}

// Heading returns the title as part of a sentence.
func (g *Group) Heading() string { return strings.Replace(g.Title(), "  ", ": ", 1) }

// Over returns the heading of the column of changes.
func (g *Group) Over() string {
	const longest = 12
	if g.Base == nil || utf8.RuneCountInString(g.baseAs) > longest {
		return "over baseline"
	}
	return "over " + g.baseAs
}

// FloorText returns the noise floor of the primary metric in words, or the reason why there is none.
func (g *Group) FloorText() string {
	f := g.Floor(g.Primary.Name)
	switch {
	case !math.IsNaN(f) && !math.IsInf(f, 0):
		return "floor " + noise(f, g.Primary) + " (twins of the baseline differ by no more than this)"
	case len(g.Twinned) == 0:
		return "floor unknown (no twin of the baseline was measured)"
	}
	return "floor unknown (too few results from the baseline's twin)"
}

func (g *Group) implementationTexts() []string {
	said := func(c *measure.Cell) string {
		var list []string
		for _, kind := range slices.Sorted(maps.Keys(c.Implementation)) {
			if by := c.Implementation[kind]; by != "kernel" {
				list = append(list, Printable(kind+" by "+by))
			}
		}
		if c.Enforced != "" {
			at := "enforced " + Printable(c.Enforced)
			if i := slices.IndexFunc(list, func(s string) bool { return strings.HasPrefix(s, "filter by ") }); i >= 0 {
				list = slices.Insert(list, i+1, at)
			} else {
				list = append(list, "filter "+at)
			}
		}
		return strings.Join(list, ", ")
	}
	var texts []string
	cells := map[string][]*measure.Cell{} // the cells that a text is about
	for _, c := range g.Cells {
		text := said(c)
		if text == "" {
			continue
		}
		if cells[text] == nil {
			texts = append(texts, text)
		}
		cells[text] = append(cells[text], c)
	}
	for i, text := range texts {
		alike := map[string]int{}
		for _, c := range cells[text] {
			alike[bareName(c)]++
		}
		var names []string
		for _, c := range cells[text] {
			who := StackName(c)
			// If a text is about all stacks with the same parts, it names them once, without parameters.
			all := bareName(c)
			others := slices.ContainsFunc(g.Cells, func(o *measure.Cell) bool {
				return bareName(o) == all && said(o) != text
			})
			if alike[all] > 1 && !others {
				who = all
			}
			if !slices.Contains(names, who) {
				names = append(names, who)
			}
		}
		texts[i] = strings.Join(names, ", ") + ": " + text
	}
	return texts
}

// limitText returns the limits of all cells of a group: "limited by the sender: loopback (98 % of trials); by the path:
// bridge (all trials)".
func (g *Group) limitText() string {
	by := map[string][]string{}
	for _, c := range g.Cells {
		r := g.Row(c, g.Primary.Name)
		if r == nil || r.Limit == "" {
			continue
		}
		share := "all trials"
		if r.LimitShare < 1 {
			share = fmt.Sprintf("%.0f %% of trials", 100*r.LimitShare)
		}
		by[r.Limit] = append(by[r.Limit], StackName(c)+" ("+share+")")
	}
	var texts []string
	for _, limit := range []string{"sender", "path", "receiver"} {
		if len(by[limit]) > 0 {
			texts = append(texts, "by the "+limit+": "+strings.Join(by[limit], ", "))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return "limited " + strings.Join(texts, "; ")
}

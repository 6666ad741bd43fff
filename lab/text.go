package lab

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	// maxShown is the largest number of containers of a host that are drawn. If there are more, only the first fewShown
	// are drawn.
	maxShown, fewShown = 8, 4
	// maxText is the largest number of lines of rules that are printed per namespace and program.
	maxText = 40
)

// underlay is the name of the network between hosts.
const underlay = "underlay"

// tree is text with more text below.
type tree struct {
	text  string
	lines []string // that belong to it, unchanged
	below []*tree
}

func (t *tree) add(format string, args ...any) *tree {
	b := &tree{text: fmt.Sprintf(format, args...)}
	t.below = append(t.below, b)
	return b
}

// print prints the text and its branches.
func (t *tree) print(w io.Writer, indent string) {
	for i, b := range t.below {
		branch, next := "├─ ", "│  "
		if i == len(t.below)-1 {
			branch, next = "└─ ", "   "
		}
		fmt.Fprintf(w, "%s%s%s\n", indent, branch, b.text)
		for _, line := range b.lines {
			fmt.Fprintf(w, "%s%s  %s\n", indent, next, line)
		}
		b.print(w, indent+next)
	}
}

// shown returns the containers to draw, and how many more there are.
func shown(all []GraphContainer) (those []GraphContainer, more int) {
	if len(all) <= maxShown {
		return all, 0
	}
	return all[:fewShown], len(all) - fewShown
}

// what describes the kind of lab, and how long it will be kept.
func (g *Graph) what() string {
	return fmt.Sprintf("experiment %s, %s, %s, until %s", g.Experiment, strings.ReplaceAll(g.Placement, "-", " "),
		several(g.Pairs, "pair"), g.Until.Format(time.TimeOnly))
}

// several writes a number of things.
func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// state says whether the kernel matches the plan.
func (h *GraphHost) state() string {
	if len(h.Drift) > 0 {
		return "DRIFTED"
	}
	return "verified"
}

// Text prints the lab as trees, one for each host. With briefly, it leaves out routes, rules and link-layer addresses.
func (g *Graph) Text(w io.Writer, briefly bool) {
	fmt.Fprintf(w, "lab %s: %s of %s\nmtu %d; proved: %s\n", g.Name, g.Stack, g.what(), g.MTU, g.Proof)
	if g.Enforced != "" {
		fmt.Fprintf(w, "filter: enforced %s\n", g.Enforced)
	}
	if g.Rights != "" {
		fmt.Fprintf(w, "root in containers: %s\n", g.Rights)
	}
	if len(g.Between) > 0 {
		fmt.Fprintf(w, "\nbetween hosts\n")
		var root tree
		for _, l := range slices.Backward(g.Between) {
			one := root.add("%s: %s", l.Name, l)
			if l.Source != "" && !briefly {
				one.add("%d bytes for a packet of %d: %s", l.Size, l.Size-l.Added, l.Source)
			}
		}
		root.print(w, "")
	}
	for i := range g.Hosts {
		h := &g.Hosts[i]
		fmt.Fprintf(w, "\n%s, %s: %s\n", h.Name, h.state(), several(h.Steps, "step"))
		var root tree
		if len(h.Drift) > 0 {
			drift := root.add("the kernel does not agree with the plan")
			for _, d := range h.Drift {
				drift.add("%s", d)
			}
		}
		if len(h.Rules) > 0 {
			planned := root.add("rules of the plan")
			for i, r := range h.Rules {
				if i == maxText {
					planned.add("and %d more", len(h.Rules)-i)
					break
				}
				planned.add("%s", r)
			}
		}
		h.Own.text(&root, briefly)
		those, more := shown(h.Containers)
		for j := range those {
			c := &those[j]
			if c.Shared {
				root.add("%s in the network namespace of %s, %s", c.Name, h.Name, strings.Join(c.Addresses, " "))
				continue
			}
			c.Space.text(root.add("%s", c.Name), briefly)
		}
		if more > 0 {
			what := "container"
			if h.Name == underlay {
				what = "router"
			}
			root.add("and %s more", several(more, what))
		}
		root.print(w, "")
	}
}

// text adds the contents of a namespace. Ports are below their bridge.
func (s *Space) text(root *tree, briefly bool) {
	bridges := map[string]*tree{}
	ports := map[string]int{}
	for _, l := range s.Links {
		if l.Master == "" && (!briefly || l.Name != "lo") {
			bridges[l.Name] = root.add("%s", l.text(briefly))
		}
	}
	for _, l := range s.Links {
		at := bridges[l.Master]
		switch {
		case l.Master == "":
		case at == nil:
			root.add("%s, port of %s", l.text(briefly), l.Master)
		case ports[l.Master] < maxShown+1: // and the uplink
			ports[l.Master]++
			at.add("%s", l.text(briefly))
		default:
			ports[l.Master]++
		}
	}
	for name, n := range ports {
		if more := n - maxShown - 1; more > 0 {
			bridges[name].add("and %s more", several(more, "port"))
		}
	}
	if briefly {
		return
	}
	if len(s.Routes) > 0 {
		routes := root.add("routes")
		for i, r := range s.Routes {
			if i == maxText {
				routes.add("and %d more", len(s.Routes)-i)
				break
			}
			routes.add("%s", r)
		}
	}
	for _, f := range s.Filters {
		listing := root.add("%s", f.Program)
		for i, line := range f.Lines {
			if i == maxText {
				listing.lines = append(listing.lines, fmt.Sprintf("and %s more", several(len(f.Lines)-i+f.More, "line")))
				break
			}
			listing.lines = append(listing.lines, strings.ReplaceAll(line, "\t", "  "))
		}
	}
}

// text describes a link in one line.
func (l *GraphLink) text(briefly bool) string {
	words := []string{l.Name + " " + l.Type}
	if l.Type == "device" {
		words[0] = l.Name
	}
	if l.Mode != "" {
		words[0] += " " + l.Mode
	}
	if l.Peer != nil {
		words[0] += " ⇄ " + l.Peer.String()
	}
	if l.Lower != nil {
		words[0] += " over " + l.Lower.String()
	}
	words = append(words, l.Addresses...)
	if !briefly {
		words = append(words, fmt.Sprintf("mtu %d", l.MTU))
		if l.MAC != "" {
			words = append(words, l.MAC)
		}
	}
	switch {
	case !l.Up:
		words = append(words, "down")
	case !l.Running:
		words = append(words, "no carrier")
	}
	return strings.Join(words, ", ")
}

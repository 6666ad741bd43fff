package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/cli"
)

// Markers of what is written in docs/security.md: all between them.
const (
	begins = "<!-- attacks: make security writes what follows -->\n"
	ends   = "<!-- attacks: end -->\n"
)

// proved is a lab as nettoll prove --format json prints it, as far as it is read here.
type proved struct {
	Stack     string   `json:"stack"`
	Placement string   `json:"placement"`
	Attacks   []result `json:"attacks"`
	NotTried  string   `json:"not_tried"`
	Control   string   `json:"control"`
	NoControl string   `json:"no_control"`
	kernel    string
}

type result struct {
	Attack     string   `json:"attack"`
	Verdict    string   `json:"verdict"`
	Why        string   `json:"why"`
	NotClaimed []string `json:"not_claimed"`
	Lab        []counts `json:"outcomes"`
	Control    []counts `json:"control"`
}

type counts struct {
	Arrived int `json:"arrived"`
}

// security writes the tables of docs/security.md.
func security(file string, given []string, of origin) error {
	var all []proved
	for _, arg := range given {
		kernel, output, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("want KERNEL=OUTPUT, got %q", arg)
		}
		b, err := os.ReadFile(output)
		if err != nil {
			return err
		}
		var list []proved
		if err := json.Unmarshal(b, &list); err != nil {
			return fmt.Errorf("read %s: %w", output, err)
		}
		for i := range list {
			list[i].kernel = kernel
			list[i].Attacks = slices.DeleteFunc(list[i].Attacks, func(r result) bool { // they have a section of their own
				return strings.HasPrefix(r.Attack, "wire-")
			})
		}
		all = append(all, list...)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	made, err := between(string(text), securitySection(all, of))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(made), 0o666)
}

// between puts a section between the markers of a text.
func between(text, section string) (string, error) {
	before, rest, ok := strings.Cut(text, begins)
	_, after, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		return "", errors.New("the markers of the tables of attacks are missing")
	}
	return before + begins + section + ends + after, nil
}

// marks are what the tables say of a verdict.
func marks() map[string]string {
	return map[string]string{
		"withstood": passed, "broken": failed, "open": "○", "closed": "·", "not tried": skipped, "cannot be told": "?",
	}
}

// securitySection is the tables: attacks and networks, attacks and filters.
func securitySection(all []proved, of origin) string {
	var b strings.Builder
	var kernels []string
	var bare, filtered []proved
	for _, l := range all {
		if !slices.Contains(kernels, l.kernel) {
			kernels = append(kernels, l.kernel)
		}
		switch {
		case len(l.Attacks) == 0:
		case l.Control == "" && l.NoControl == "":
			bare = append(bare, l)
		default:
			filtered = append(filtered, l)
		}
	}
	fmt.Fprintf(&b, `
These tables are what %s found (%s), with Linux %s: %d stacks, each with two pairs
of containers, in both families.

- ✓ claimed and held; ✗ claimed and broken
- ○ not claimed and open; · not claimed, and nothing arrived
- – not tried, for a reason below; ? cannot be told, because packets that are allowed did not arrive either, or because
  nothing arrived on the control, the same stack without its filter

*Works on* names a stack of these tables on which something arrived, which shows that the attack works.

`, "`make security`", of, strings.Join(kernels, " and "), len(bare)+len(filtered))
	b.WriteString("### Networks without a filter\n\n")
	securityTable(&b, bare, all)
	b.WriteString("\n### Filters\n\n")
	securityTable(&b, filtered, all)
	b.WriteString("\n### Why it is not claimed\n\n")
	byReason(&b, all, func(_ proved, r result) []string { return r.NotClaimed }, func(_ proved, r result) string {
		return "`" + r.Attack + "`"
	})
	b.WriteString("\n### What was not tried\n\n")
	byReason(&b, all, func(_ proved, r result) []string {
		if r.Why == "" {
			return nil
		}
		return []string{"`" + r.Attack + "`: " + r.Why}
	}, func(l proved, _ result) string { return "`" + l.Stack + "`" + hosts(l) })
	for _, l := range all {
		if len(l.Attacks) == 0 {
			fmt.Fprintf(&b, "- `%s`%s: %s\n", l.Stack, hosts(l), l.NotTried)
		}
	}
	b.WriteString("\n")
	return cli.WrapDocument(b.String())
}

// hosts says whether a lab has two hosts.
func hosts(l proved) string {
	if l.Placement == "cross-host" {
		return ", 2 hosts"
	}
	return ""
}

// securityTable has a row for each attack and a column for each stack.
func securityTable(b *strings.Builder, list, all []proved) {
	b.WriteString("| attack |")
	for _, l := range list {
		fmt.Fprintf(b, " `%s`%s |", l.Stack, hosts(l))
	}
	b.WriteString(" works on |\n| --- |" + strings.Repeat(" :-: |", len(list)) + " --- |\n")
	var attacks []string
	for _, l := range list {
		for _, r := range l.Attacks {
			if !slices.Contains(attacks, r.Attack) {
				attacks = append(attacks, r.Attack)
			}
		}
	}
	for _, a := range attacks {
		fmt.Fprintf(b, "| `%s` |", a)
		for _, l := range list {
			mark := skipped
			if i := slices.IndexFunc(l.Attacks, func(r result) bool { return r.Attack == a }); i >= 0 {
				mark = marks()[l.Attacks[i].Verdict]
			}
			fmt.Fprintf(b, " %s |", mark)
		}
		fmt.Fprintf(b, " %s |\n", worksOn(all, a))
	}
}

// worksOn names the first stack on which something of an attack arrived.
func worksOn(all []proved, attack string) string {
	some := func(list []counts) bool {
		return slices.ContainsFunc(list, func(c counts) bool { return c.Arrived > 0 })
	}
	for _, l := range all {
		for _, r := range l.Attacks {
			if r.Attack == attack && some(r.Lab) {
				return "`" + l.Stack + "`" + hosts(l)
			}
		}
	}
	return "none of these: see `proof/attack/control_test.go`"
}

// byReason lists reasons and to what they apply, each once.
func byReason(b *strings.Builder, all []proved, reasons func(proved, result) []string, to func(proved, result) string) {
	apply := map[string][]string{}
	for _, l := range all {
		for _, r := range l.Attacks {
			for _, why := range reasons(l, r) {
				if what := to(l, r); !slices.Contains(apply[why], what) {
					apply[why] = append(apply[why], what)
				}
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(apply)) {
		fmt.Fprintf(b, "- %s: %s\n", why, strings.Join(apply[why], ", "))
	}
}

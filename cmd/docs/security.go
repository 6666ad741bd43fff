package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/cli"
)

// Names of what is written in docs/security.md, each between markers.
const (
	inside   = "attacks"
	fromWire = "wire attacks"
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
	var wire, others []proved
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
		}
		if onlyWire(list) {
			wire = append(wire, list...)
			continue
		}
		for i := range list {
			list[i].Attacks = slices.DeleteFunc(list[i].Attacks, isWire)
		}
		others = append(others, list...)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	made := string(text)
	for _, s := range []struct {
		name string
		labs []proved
		text func([]proved, origin) string
	}{{inside, others, securitySection}, {fromWire, wire, wireSection}} {
		if len(s.labs) == 0 {
			continue // what is there stays
		}
		if made, err = between(made, s.name, s.text(s.labs, of)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, []byte(made), 0o666)
}

// isWire says whether an attack is from the wire.
func isWire(r result) bool { return strings.HasPrefix(r.Attack, "wire-") }

// onlyWire says whether labs were attacked from the wire only.
func onlyWire(list []proved) bool {
	attacked := false
	for _, l := range list {
		attacked = attacked || len(l.Attacks) > 0
		if slices.ContainsFunc(l.Attacks, func(r result) bool { return !isWire(r) }) {
			return false
		}
	}
	return attacked
}

// between puts a section between the markers of its name in a text.
func between(text, name, section string) (string, error) {
	begins, ends := "<!-- "+name+": make security writes what follows -->\n", "<!-- "+name+": end -->\n"
	before, rest, ok := strings.Cut(text, begins)
	_, after, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		return "", fmt.Errorf("the markers of the tables of %s are missing", name)
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
	var bare, filtered []proved
	for _, l := range all {
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

%s
*Works on* names a stack of these tables on which something arrived, which shows that the attack works.

`, "`make security`", of, strings.Join(kernels(all), " and "), len(bare)+len(filtered),
		legend("nothing arrived on the control, the same stack without its filter"))
	b.WriteString("### Networks without a filter\n\n")
	securityTable(&b, bare, all)
	b.WriteString("\n### Filters\n\n")
	securityTable(&b, filtered, all)
	b.WriteString("\n### Why it is not claimed\n\n")
	byReason(&b, all, func(_ proved, r result) []string { return r.NotClaimed }, func(_ proved, r result) string {
		return "`" + r.Attack + "`"
	})
	b.WriteString("\n### What was not tried\n\n")
	notTried(&b, all)
	b.WriteString("\n")
	return cli.WrapDocument(b.String())
}

// wireSection is the table of attacks from the wire.
func wireSection(all []proved, of origin) string {
	all = slices.Clone(all)
	for i := range all {
		all[i].Placement = "" // the heading says it
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
This table is what %s found (%s), with Linux %s: %d stacks across two hosts, in both families.

%s
`, "`make security`", of, strings.Join(kernels(all), " and "), len(all),
		legend("nothing arrived on the control, the same stack without its encryption"))
	securityTable(&b, slices.DeleteFunc(slices.Clone(all), func(l proved) bool { return len(l.Attacks) == 0 }), all)
	b.WriteString("\nWhat was not tried, or cannot be told:\n\n")
	notTried(&b, all)
	b.WriteString("\n")
	return cli.WrapDocument(b.String())
}

// legend explains the marks of a table. control says what it is when a control does not show anything.
func legend(control string) string {
	return `- ✓ claimed and held; ✗ claimed and broken
- ○ not claimed and open; · not claimed, and nothing arrived
- – not tried, for a reason below; ? cannot be told, because packets that are allowed did not arrive either, or because
  ` + control + "\n"
}

// kernels are those that labs were attacked with.
func kernels(all []proved) (list []string) {
	for _, l := range all {
		if !slices.Contains(list, l.kernel) {
			list = append(list, l.kernel)
		}
	}
	return list
}

// notTried lists what was not tried or cannot be told, by reason.
func notTried(b *strings.Builder, all []proved) {
	byReason(b, all, func(_ proved, r result) []string {
		if r.Why == "" {
			return nil
		}
		return []string{"`" + r.Attack + "`: " + r.Why}
	}, func(l proved, _ result) string { return "`" + l.Stack + "`" + hosts(l) })
	for _, l := range all {
		if len(l.Attacks) == 0 {
			fmt.Fprintf(b, "- `%s`%s: %s\n", l.Stack, hosts(l), l.NotTried)
		}
	}
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
	test := "proof/attack/control_test.go"
	if attack == "wire-weaker" {
		test = "encryption/ipsec/offers_test.go"
	}
	return "none of these: see `" + test + "`"
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

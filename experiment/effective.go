package experiment

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// effective returns an experiment, including changes from the command line, as YAML that can be saved and run. Read
// again, it is the same experiment. A comment at its top lists the changes. If there are none, the text is returned
// unchanged.
func effective(text string, n *node, settings []Setting) string {
	if len(settings) == 0 {
		return text
	}
	var b strings.Builder
	b.WriteString("# This is the experiment with what the command line changed in it:\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "#   %s: %s\n", s.Path, strings.Join(strings.Fields(s.Value), " "))
	}
	n.write(&b, 0)
	return b.String()
}

// plain matches scalars that YAML reads as written, with or without quotes: words and numbers with a unit, but not the
// empty value in any of its spellings.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._%/+-]*$`)

// word returns a scalar in YAML.
func (n *node) word() string {
	switch strings.ToLower(n.text) {
	case "null", "nan", "inf":
		return strconv.Quote(n.text)
	}
	if plain.MatchString(n.text) {
		return n.text
	}
	return quotedYAML(n.text)
}

// quotedYAML quotes a text. YAML's double quotes have the escapes of Go for every character that can occur here (YAML
// 1.2.2, 5.7).
func quotedYAML(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"`
}

// flat reports whether a value is written in one line.
func (n *node) flat() bool {
	for _, v := range n.values {
		if v.kind == object && len(v.keys) > 0 || !v.flat() {
			return false
		}
	}
	return n.kind != object || len(n.keys) == 0
}

// inline writes a value in one line.
func (n *node) inline() string {
	switch n.kind {
	case scalar:
		return n.word()
	case list:
		var all []string
		for _, v := range n.values {
			all = append(all, v.inline())
		}
		return "[" + strings.Join(all, ", ") + "]"
	case object:
		var all []string
		for i, k := range n.keys {
			all = append(all, strings.TrimSpace(k.word()+": "+n.values[i].inline()))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	return "null"
}

// write writes a value over several lines, with objects and lists indented.
func (n *node) write(b *strings.Builder, depth int) {
	indent := strings.Repeat("  ", depth)
	switch {
	case n.kind == object && len(n.keys) > 0:
		for i, k := range n.keys {
			v := n.values[i]
			if v.kind == object && len(v.keys) > 0 || !v.flat() {
				b.WriteString(indent + k.word() + ":\n")
				v.write(b, depth+1)
				continue
			}
			b.WriteString(indent + k.word() + ": " + v.inline() + "\n")
		}
	case n.kind == list && !n.flat():
		for _, v := range n.values {
			b.WriteString(indent + "- " + v.inline() + "\n")
		}
	default:
		b.WriteString(indent + n.inline() + "\n")
	}
}

package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// Flow translates a part in command-line syntax, such as "nftables(rules=[10,100])", into YAML on one line:
// {"nftables": {"rules": ["10", "100"]}}.
func Flow(kind, text string) (string, error) { return flow(kind, text, strconv.Quote) }

// FlowLoad translates a workload, or a mix of several.
func FlowLoad(text string) (string, error) { return flowLoad(text, strconv.Quote) }

// FlowChoice writes a part with its parameters as YAML on one line.
func FlowChoice(name string, params part.Params) string {
	given := make(map[string][]string, len(params))
	for key, value := range params {
		given[key] = []string{value}
	}
	return "{" + flowPart(name, given, strconv.Quote) + "}"
}

func flow(kind, text string, quote func(string) string) (string, error) {
	name, given, err := part.ParseLists(kind, strings.TrimSpace(text))
	if err != nil || len(given) == 0 {
		return quote(name), err
	}
	return "{" + flowPart(name, given, quote) + "}", nil
}

func flowPart(name string, given map[string][]string, quote func(string) string) string {
	var inside []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		values := make([]string, len(given[key]))
		for i, v := range given[key] {
			values[i] = quote(v)
		}
		value := strings.Join(values, ", ")
		if len(values) > 1 {
			value = "[" + value + "]"
		}
		inside = append(inside, quote(key)+": "+value)
	}
	return quote(name) + ": {" + strings.Join(inside, ", ") + "}"
}

func flowLoad(text string, quote func(string) string) (string, error) {
	text = strings.TrimSpace(text)
	if !IsMix(text) {
		return flow("workload", text, quote)
	}
	members, err := splitMix(text)
	if err != nil {
		return "", err
	}
	var list []string
	for _, m := range members {
		name, given, err := part.ParseLists("workload", m.text)
		if err != nil {
			return "", fmt.Errorf("workload %q: %w", text, err)
		}
		switch {
		case m.share == 1 && len(given) == 0:
			list = append(list, quote(name))
		case m.share == 1:
			list = append(list, "{"+flowPart(name, given, quote)+"}")
		default:
			list = append(list, fmt.Sprintf("{%s, share: %d}", flowPart(name, given, quote), m.share))
		}
	}
	return "{mix: [" + strings.Join(list, ", ") + "]}", nil
}

// readable quotes a YAML word if necessary, also between braces.
func readable(s string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if s != "" && strings.Trim(s, letters+"._/%+-") == "" && strings.IndexByte(letters, s[0]) >= 0 {
		return s
	}
	return strconv.Quote(s)
}

// written returns how to write command-line syntax in a file, and the right place for something that is not a part of
// this kind; "" if it does not know.
func (p *partShape) written(text string) string {
	write := func(text string) (string, error) { return flow(p.kind, text, readable) }
	name, given, err := part.ParseLists(p.kind, text)
	if p.mix != nil && IsMix(text) {
		name, given, err = Mix, map[string][]string{Mix: nil}, nil
		write = func(text string) (string, error) { return flowLoad(text, readable) }
	}
	if err == nil && len(given) > 0 && slices.Contains(p.names(), name) {
		in, err := write(text)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%q is command-line syntax; in a file write %s", text, in)
	}
	if p.hint != nil {
		if hint := p.hint(text); hint != "" {
			return hint
		}
	}
	if err != nil && strings.Contains(text, "(") {
		return err.Error()
	}
	return ""
}

// unknown returns the error about an unknown part, with a suggestion.
func (p *partShape) unknown(text string) error {
	if name, given, err := part.ParseLists(p.kind, text); err == nil && len(given) > 0 {
		text = name // without its parameters
	}
	err := &UnknownError{Kind: p.kind, Name: text, Known: p.names()}
	for _, d := range p.parts {
		if near := part.Nearest(text, d.name, d.near); near != "" {
			return fmt.Errorf("%w%s", err, near)
		}
	}
	return fmt.Errorf("%w%s", err, part.Meant(text, err.Known))
}

// elsewhere returns the kind of something that is not a part of this kind, and where to give it; "" if it is of no
// kind.
func (p Parts) elsewhere(kind, text string) string {
	name, _, err := part.ParseLists(kind, text)
	if err != nil {
		return ""
	}
	for _, k := range p.Kinds {
		d := k.Describe()
		if d.Name == kind || !slices.ContainsFunc(k.Parts(), func(p stack.Part) bool { return p.Name == name }) {
			continue
		}
		return fmt.Sprintf("%s is a %s, not a %s: give it in the key %s (--%s on the command line)", name, d.Name, kind,
			d.Name, d.Name)
	}
	if _, err := p.Workload(name); err == nil && kind != "workload" {
		return fmt.Sprintf("%s is a workload, not a %s: give it in the key workloads (--workload on the command line)", name,
			kind)
	}
	d, err := p.Driver(name)
	if err != nil {
		return ""
	}
	var served []string
	in := ""
	for _, w := range p.Workloads {
		of := w.Describe()
		params, err := of.Resolve(d.Describe().Needs[of.Name])
		if err == nil && d.Serves(of, params) == nil {
			served = append(served, fmt.Sprintf("'%s(driver=%s)'", of.Name, name))
			in = cmp.Or(in, fmt.Sprintf("{%s: {driver: %s}}", of.Name, name))
		}
	}
	if len(served) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is a driver, not a %s: write %s; in a file such as %s", name, kind,
		strings.Join(served, " or "), in)
}

package experiment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nettoll/nettoll/part"
)

// A shape describes a value of an experiment. The decoder reads by it, and the schema is generated from it, so that the
// two agree.
type shape struct {
	doc string // a sentence for the schema and for people

	// One of these determines the kind of value.
	fields []field                 // a map
	items  *shape                  // a list of such values
	parts  *partShape              // parts of one kind, and their parameters
	take   func(text string) error // a single value
	either []shape                 // several kinds of value: the first whose kind is that of the node

	// For a single value.
	values  []choice // the valid values; nil for any that take accepts
	pattern string   // regular expression of its text
	number  bool     // it may also be a number
	example string

	// For a list.
	lone        bool // one item may stand without its list
	least, most int  // number of items; 0: any number except none

	done func(n *node) error // called when all of it has been read
}

// A field is a key of a map.
type field struct {
	name     string
	alias    string // another accepted name; "" for none
	required bool
	shape
}

// is reports whether a key of a map is the field's.
func (f field) is(key string) bool { return key == f.name || key == f.alias && key != "" }

// A choice is one of the values of a parameter or a kind.
type choice struct{ name, doc string }

func choices(names ...string) []choice {
	list := make([]choice, len(names))
	for i, n := range names {
		list[i] = choice{name: n}
	}
	return list
}

func names(list []choice) []string {
	all := make([]string, len(list))
	for i, c := range list {
		all[i] = c.name
	}
	return all
}

// read reads a node with the functions of the shape. The path is that of the node: "design.time".
func (s shape) read(path string, n *node) error {
	if err := s.readAs(path, n); err != nil {
		return err
	}
	if s.done != nil {
		return s.done(n)
	}
	return nil
}

func (s shape) readAs(path string, n *node) error {
	switch {
	case s.either != nil:
		for _, e := range s.either {
			if e.kind() == n.kind {
				return e.read(path, n)
			}
		}
		return n.wrong("%s is %s (valid: %s)", path, n.kind, s.wanted())
	case s.fields != nil:
		return s.readFields(path, n)
	case s.items != nil:
		return s.readItems(path, n)
	case s.parts != nil:
		return s.parts.read(path, n)
	}
	if n.kind != scalar {
		return n.wrong("%s is %s (valid: %s)", path, n.kind, s.wanted())
	}
	if s.values != nil && !slices.Contains(names(s.values), n.text) {
		err := &UnknownError{Kind: lastWord(path), Name: n.text, Known: names(s.values)}
		return n.wrong("%w%s", err, part.Meant(n.text, err.Known))
	}
	if s.take != nil {
		if err := s.take(n.text); err != nil {
			return n.wrong("%s: %w", path, err)
		}
	}
	return nil
}

// kind returns the kind of node that a shape reads.
func (s shape) kind() nodeKind {
	switch {
	case s.fields != nil:
		return object
	case s.items != nil:
		return list
	}
	return scalar
}

// wanted describes a valid value.
func (s shape) wanted() string {
	switch {
	case s.either != nil:
		var list []string
		for _, e := range s.either {
			list = append(list, e.wanted())
		}
		return strings.Join(list, ", or ")
	case s.fields != nil:
		return "a map with " + strings.Join(s.keys(), ", ")
	case s.parts != nil:
		return s.parts.wanted()
	case s.items != nil && s.lone:
		return s.items.wanted() + ", or a list of those"
	case s.items != nil:
		return "a list"
	case s.values != nil:
		return "one of " + strings.Join(names(s.values), ", ")
	case s.example != "":
		return "a value such as " + s.example
	}
	return "a single value"
}

func (s shape) keys() []string {
	list := make([]string, len(s.fields))
	for i, f := range s.fields {
		list[i] = f.name
	}
	return list
}

func (s shape) readFields(path string, n *node) error {
	in, within := path, path+": "
	if path == "" {
		in, within = "an experiment", ""
	}
	if n.kind != object {
		return n.wrong("%s is %s (valid: %s)", in, n.kind, s.wanted())
	}
	for _, key := range n.keys {
		if !slices.ContainsFunc(s.fields, func(f field) bool { return f.is(key.text) }) {
			known := s.keys()
			where := ""
			if path != "" {
				where = " in " + path
			}
			return key.wrong("unknown key %q%s (known: %s)%s", key.text, where, strings.Join(known, ", "),
				part.Meant(key.text, known))
		}
	}
	for _, f := range s.fields { // in this order: later fields may need what earlier ones read
		i := slices.IndexFunc(n.keys, func(key *node) bool { return f.is(key.text) })
		if i < 0 {
			if f.required {
				return n.wrong("%smissing key %q (%s)", within, f.name, sentence(f.doc))
			}
			continue
		}
		if n.values[i].kind == null {
			return n.keys[i].wrong("%s is empty (valid: %s)", join(path, f.name), f.wanted())
		}
		if err := f.read(join(path, f.name), n.values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s shape) readItems(path string, n *node) error {
	if n.kind != list && s.lone {
		return s.items.read(path, n)
	}
	if n.kind != list {
		return n.wrong("%s is %s (valid: %s)", path, n.kind, s.wanted())
	}
	if len(n.values) == 0 {
		return n.wrong("%s is empty (valid: at least one: %s)", path, s.items.wanted())
	}
	if len(n.values) < s.least || s.most > 0 && len(n.values) > s.most {
		return n.wrong("%s lists %d (valid: %d to %d)", path, len(n.values), s.least, s.most)
	}
	known := map[string]int{}
	for _, item := range n.values {
		if item.kind == scalar && s.items.parts == nil {
			if line, twice := known[item.text]; twice {
				return item.wrong("%s: %q is listed twice%s", path, item.text, first(line))
			}
			known[item.text] = item.line
		}
		if err := s.items.read(path, item); err != nil {
			return err
		}
	}
	return nil
}

// A partShape reads parts of one kind: NAME, or {NAME: {parameter: value}}. A list of values stands for each of them.
type partShape struct {
	kind  string // "network"
	parts []described
	own   func(name string) []field // further keys next to the parameters that are not the part's: driver, placement
	// beside are keys next to the name: {NAME: {parameter: value}, share: 3}.
	beside []field
	// mix is the shape of an entry with the key "mix" instead of a name; nil if that is not valid.
	mix *shape
	// refused returns why a name or a key is not valid here; "" if it is valid or unknown. nil: everything is valid.
	refused func(word string) string
	// take receives one part with one combination of its parameters, after the further keys have been read.
	take func(n *node, name string, params part.Params) error
	// hint returns how to write something that is not a part of this kind; "" if it does not know. nil: there are no
	// hints.
	hint func(text string) string
	// begin is called before the parameters of a part are read.
	begin func()
}

// described is a part in a shape.
type described struct {
	name, summary string
	params        part.List
	near          func() []part.Near
}

func (p *partShape) names() []string {
	var list []string
	for _, d := range p.parts {
		list = append(list, d.name)
	}
	if p.mix != nil {
		list = append(list, Mix)
	}
	return list
}

func (p *partShape) wanted() string {
	return fmt.Sprintf("the name of a %s, or {NAME: {parameter: value}}", p.kind)
}

// entry finds the name of a part and the node below it, and reads the keys next to it.
func (p *partShape) entry(path string, n *node) (key, value *node, err error) {
	if n.kind == scalar {
		return n, nil, nil
	}
	if n.kind != object {
		return nil, nil, n.wrong("%s is %s (valid: %s)", path, n.kind, p.wanted())
	}
	for i, k := range n.keys {
		if f := slices.IndexFunc(p.beside, func(f field) bool { return f.name == k.text }); f >= 0 {
			if err := p.beside[f].read(join(path, k.text), n.values[i]); err != nil {
				return nil, nil, err
			}
			continue
		}
		if key != nil {
			return nil, nil, k.wrong("%s: %q and %q in one entry (valid: one %s per entry, with its parameters below it)", path,
				k.text, key.text, p.kind)
		}
		key, value = k, n.values[i]
	}
	if key == nil {
		return nil, nil, n.wrong("%s is %s without a name (valid: %s)", path, n.kind, p.wanted())
	}
	return key, value, nil
}

func (p *partShape) read(path string, n *node) error {
	if p.mix != nil && (n.kind == object && n.index(Mix) >= 0 || n.kind == scalar && n.text == Mix) {
		return p.mix.read(path, n)
	}
	if p.begin != nil {
		p.begin()
	}
	key, value, err := p.entry(path, n)
	if err != nil {
		return err
	}
	if p.refused != nil && p.refused(key.text) != "" {
		return key.wrong("%s: %s", path, p.refused(key.text))
	}
	i := slices.IndexFunc(p.parts, func(d described) bool { return d.name == key.text })
	if i < 0 {
		if hint := p.written(key.text); hint != "" {
			return key.wrong("%s: %s", path, hint)
		}
		return key.wrong("%w", p.unknown(key.text))
	}
	d := p.parts[i]
	path += "." + d.name
	combinations := []part.Params{{}}
	if value != nil && value.kind != null {
		if value.kind != object {
			return value.wrong("%s is %s (valid: a map of its parameters: %s)", path, value.kind, strings.Join(p.keys(d), ", "))
		}
		var own []field
		if p.own != nil {
			own = p.own(d.name)
		}
		for j, k := range value.keys {
			if f := slices.IndexFunc(own, func(f field) bool { return f.name == k.text }); f >= 0 {
				if err := own[f].read(join(path, k.text), value.values[j]); err != nil {
					return err
				}
				continue
			}
			if p.refused != nil && p.refused(k.text) != "" {
				return k.wrong("%s: %s", join(path, k.text), p.refused(k.text))
			}
			param, err := d.params.Find(p.kind+" "+d.name, parameter(k.text))
			if err != nil {
				known := p.keys(d)
				return k.wrong("%s %s has no parameter %q (known: %s)%s", p.kind, d.name, k.text, orNone(known),
					part.Meant(k.text, known))
			}
			texts, err := values(param, join(path, k.text), value.values[j])
			if err != nil {
				return err
			}
			if many := len(combinations) * len(texts); many > maxCells {
				return k.wrong("%s: too many combinations of parameters: %d (limit %d)", path, many, maxCells)
			}
			if _, twice := combinations[0][param.Name]; twice {
				return k.wrong("%s is given twice, as %s too", join(path, param.Name), k.text)
			}
			combinations = cross(combinations, param.Name, texts)
		}
	}
	for _, c := range combinations {
		if err := p.take(key, d.name, c); err != nil {
			if _, placed := errors.AsType[*Error](err); placed {
				return err
			}
			return key.wrong("%w", err)
		}
	}
	return nil
}

// values reads a parameter: one value or a list of values, and checks each in its place.
func values(param part.Param, path string, n *node) ([]string, error) {
	one := shape{doc: param.Summary, example: param.Default}
	var texts []string
	known := map[string]bool{}
	one.take = func(text string) error {
		v, err := param.Value(text)
		if known[v] && err == nil {
			return fmt.Errorf("%q is listed twice", text)
		}
		texts, known[v] = append(texts, v), true
		return err
	}
	if n.kind == null {
		return nil, n.wrong("%s is empty (valid: %s)", path, param.Summary)
	}
	err := shape{items: &one, lone: true}.read(path, n)
	return texts, err
}

// keys lists the valid keys of a part.
func (p *partShape) keys(d described) []string {
	list := d.params.Names()
	if p.own != nil {
		for _, f := range p.own(d.name) {
			list = append(list, f.name)
		}
	}
	return list
}

// first names the line of an earlier value; "" if it is from a flag.
func first(line int) string {
	if line <= 0 {
		return ""
	}
	return fmt.Sprintf(" (first at line %d)", line)
}

// sentence turns the first sentence of a doc into a part of another sentence.
func sentence(doc string) string {
	doc, _, _ = strings.Cut(doc, ". ")
	r, size := utf8.DecodeRuneInString(doc)
	return strings.TrimSuffix(string(unicode.ToLower(r))+doc[size:], ".")
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// cross combines every set of parameters with every value.
func cross(all []part.Params, name string, values []string) []part.Params {
	var list []part.Params
	for _, c := range all {
		for _, v := range values {
			one := maps.Clone(c)
			one[name] = v
			list = append(list, one)
		}
	}
	return list
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func lastWord(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

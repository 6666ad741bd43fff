package experiment

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// Schema returns the JSON Schema (draft 2020-12) of experiment files, for editors and for checks without nettoll. It is
// generated from the decoder's shapes and from the parts, so the decoder also refuses whatever the schema refuses.
func Schema(parts Parts) ([]byte, error) {
	for i, kind := range parts.Kinds {
		if there, err := parts.Cluster.Find(kind.Describe().Name); err == nil {
			parts.Kinds = slices.Clone(parts.Kinds)
			parts.Kinds[i] = anywhere{kind, there}
		}
	}
	e := Base(parts)
	s := grammar(&e, parts).schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "nettoll experiment"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(text, '\n'), nil
}

// anywhere is a kind whose parts are those on this machine and those on a cluster: a schema does not know which hosts a
// file has.
type anywhere struct {
	stack.Kind
	there stack.Kind
}

// Parts lists those on this machine first.
func (k anywhere) Parts() []stack.Part {
	list := slices.Clone(k.Kind.Parts())
	for _, p := range k.there.Parts() {
		if !slices.ContainsFunc(list, func(other stack.Part) bool { return other.Name == p.Name }) {
			list = append(list, p)
		}
	}
	return list
}

// schema returns the schema of a shape.
func (s shape) schema() map[string]any {
	m := s.core()
	if s.doc != "" {
		m["description"] = s.doc
	}
	if s.example != "" {
		m["examples"] = []string{s.example}
	}
	return m
}

func (s shape) core() map[string]any {
	switch {
	case s.either != nil:
		var list []any
		for _, e := range s.either {
			list = append(list, e.schema())
		}
		return map[string]any{"anyOf": list}
	case s.fields != nil:
		properties, required := map[string]any{}, []string{}
		var either []any // of two names of a required key
		for _, f := range s.fields {
			properties[f.name] = f.schema()
			if f.alias != "" {
				properties[f.alias] = f.schema()
			}
			switch {
			case f.required && f.alias != "":
				either = append(either, map[string]any{"anyOf": []any{
					map[string]any{"required": []string{f.name}}, map[string]any{"required": []string{f.alias}},
				}})
			case f.required:
				required = append(required, f.name)
			}
		}
		m := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		if either != nil {
			m["allOf"] = either
		}
		if len(required) > 0 {
			m["required"] = required
		}
		return m
	case s.items != nil:
		item := s.items.schema()
		array := map[string]any{"type": "array", "minItems": max(1, s.least), "items": item}
		if s.most > 0 {
			array["maxItems"] = s.most
		}
		if s.lone {
			return map[string]any{"anyOf": []any{item, array}}
		}
		return array
	case s.parts != nil:
		return s.parts.schema()
	case s.values != nil:
		return enum(s.values)
	}
	m := map[string]any{"type": "string"}
	if s.number {
		m["type"] = []string{"string", "number"}
	}
	if s.pattern != "" {
		m["pattern"] = s.pattern
	}
	return m
}

// enum returns the schema of one of some values. YAML has several words for true and false.
func enum(values []choice) map[string]any {
	if slices.ContainsFunc(values, func(c choice) bool { return c.doc != "" }) {
		var list []any
		for _, c := range values {
			list = append(list, map[string]any{"const": c.name, "description": c.doc})
		}
		return map[string]any{"anyOf": list}
	}
	var list []any
	for _, c := range values {
		list = append(list, c.name)
		if same := part.Switches(c.name); same != nil { // the decoder accepts these as equal
			for _, word := range same {
				list = append(list, word)
			}
			list = append(list, c.name == "true" || slices.Contains(same, "true"))
		}
	}
	return map[string]any{"enum": list}
}

// schema returns the schema of a part's name, or of a map of the name and its parameters.
func (p *partShape) schema() map[string]any {
	var bare []choice
	var list []any
	for _, d := range p.parts {
		bare = append(bare, choice{d.name, d.summary})
		properties := map[string]any{}
		for _, param := range d.params {
			one := map[string]any{"type": []string{"string", "number"}}
			if param.Values != nil {
				one = enum(choices(param.Values...))
			}
			for _, name := range named(param) {
				properties[name] = map[string]any{
					"description": param.Summary, "default": param.Default,
					"anyOf": []any{one, map[string]any{"type": "array", "minItems": 1, "items": one}},
				}
			}
		}
		if p.own != nil {
			for _, f := range p.own(d.name) {
				properties[f.name] = f.schema()
			}
		}
		whole := map[string]any{d.name: map[string]any{
			"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false,
		}}
		for _, f := range p.beside {
			whole[f.name] = f.schema()
		}
		list = append(list, map[string]any{
			"type": "object", "required": []string{d.name}, "additionalProperties": false, "description": d.summary,
			"properties": whole,
		})
	}
	if p.mix != nil {
		list = append(list, p.mix.schema())
	}
	return map[string]any{"anyOf": append([]any{enum(bare)}, list...)}
}

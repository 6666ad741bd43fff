package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/nettoll/nettoll/part"
)

// Limits of a document. They are far beyond what a person writes, and low enough that garbage costs nothing.
const (
	MaxSize  = 256 << 10 // bytes
	maxLines = 3000      // the time that the parser takes grows with their square
	maxWord  = 1000      // characters of a single value; commands are the longest values
	maxDepth = 40        // of nested brackets
)

// A node is a value of a document, with its place.
type node struct {
	kind   nodeKind
	text   string  // of a scalar
	keys   []*node // of an object: scalars, each only once
	values []*node // the items of a list, the values of an object
	place
}

type nodeKind int

const (
	scalar nodeKind = iota
	null
	list
	object
)

func (k nodeKind) String() string {
	return []string{"a single value", "empty", "a list", "a map"}[k]
}

// A place is a position in a source.
type place struct {
	source *source
	line   int // from 1; 0 means the source as a whole
	column int // from 1, in characters
}

// A source is a file, or a flag of the command line.
type source struct {
	name string // as errors show it
	text []byte
}

// An Error describes an error in an experiment, and its place.
type Error struct {
	Source  string // name of the file, or the flag
	Line    int    // from 1; 0: no particular line
	Column  int    // from 1, in characters
	Err     error
	excerpt []string
}

// Error returns the place and the problem, in one line.
func (e *Error) Error() string {
	at := e.Source
	if e.Line > 0 {
		at += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	return at + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Excerpt returns up to five lines around the place; none if there is nothing to show.
func (e *Error) Excerpt() []string { return e.excerpt }

// wrong makes an error with this place.
func (p place) wrong(format string, args ...any) *Error {
	e := &Error{Source: p.source.name, Line: p.line, Column: p.column, Err: fmt.Errorf(format, args...)}
	if p.line > 0 {
		e.excerpt = p.source.excerpt(p.line, p.column)
	}
	return e
}

// excerpt returns a line, the two lines before it and the one after it, and a line that points at a column.
func (s *source) excerpt(line, column int) []string {
	const before, after, width = 2, 1, 100
	lines := strings.Split(string(s.text), "\n")
	if line > len(lines) {
		return nil
	}
	var shown []string
	first, last := max(1, line-before), min(len(lines), line+after)
	digits := len(strconv.Itoa(last))
	for n := first; n <= last; n++ {
		text := visible(lines[n-1])
		if n == len(lines) && text == "" && n != line {
			break
		}
		from := 0
		if column > width { // the place is to the right of what can be shown
			from = column - width/2
		}
		shown = append(shown, strings.TrimRight(fmt.Sprintf("%*d | %s", digits, n, cut(text, from, width)), " "))
		if n == line {
			shown = append(shown, strings.Repeat(" ", digits)+" | "+strings.Repeat(" ", max(0, column-from-1))+"^")
		}
	}
	return shown
}

// cut returns up to n characters of a text.
func cut(s string, from, n int) string {
	r := []rune(s)
	return string(r[min(from, len(r)):min(from+n, len(r))])
}

// visible replaces characters that could control a terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return '→'
		case !strconv.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, strings.TrimSuffix(s, "\r"))
}

// TooLarge returns the error about an experiment of more than [MaxSize] bytes.
func TooLarge(name string, size int64) error {
	return place{source: &source{name: name}}.wrong("too large: %s (limit %s)", part.SizeText(size),
		part.SizeText(MaxSize))
}

// parse reads a document into nodes. It returns a node or an [Error], never both. It refuses anchors, aliases, tags and
// merge keys: experiments have lists for repetition, and without aliases a small file cannot expand without limit.
func parse(s *source) (*node, error) {
	whole := place{source: s}
	if len(s.text) > MaxSize {
		return nil, TooLarge(s.name, int64(len(s.text)))
	}
	if n := bytes.Count(s.text, []byte("\n")); n > maxLines {
		return nil, whole.wrong("too long: %d lines (limit %d)", n, maxLines)
	}
	if err := s.readable(); err != nil {
		return nil, err
	}
	// parse refuses duplicate keys below, with a better explanation
	file, err := parser.ParseBytes(s.text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, s.syntax(err)
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			bodies = append(bodies, d.Body)
		}
	}
	switch {
	case len(bodies) == 0:
		return nil, whole.wrong("the file is empty (nettoll init writes an experiment to start from)")
	case len(bodies) > 1:
		second, err := s.node(bodies[1], 0)
		if err != nil {
			return nil, err
		}
		return nil, second.wrong("a second document begins here (a file holds one experiment)")
	}
	return s.node(bodies[0], 0)
}

// readable refuses text that is not YAML and about which the parser's error would be less clear.
func (s *source) readable() error {
	at := func(i int) place {
		line := bytes.Count(s.text[:i], []byte("\n")) + 1
		return place{s, line, utf8.RuneCount(s.text[bytes.LastIndexByte(s.text[:i], '\n')+1:i]) + 1}
	}
	if i := bytes.IndexByte(s.text, 0); i >= 0 {
		return at(i).wrong("invalid character: a NUL byte (valid: UTF-8 text)")
	}
	if !utf8.Valid(s.text) {
		for i := 0; i < len(s.text); {
			r, size := utf8.DecodeRune(s.text[i:])
			if r == utf8.RuneError && size <= 1 {
				return at(i).wrong("invalid character: the byte 0x%02x (valid: UTF-8 text)", s.text[i])
			}
			i += size
		}
	}
	depth := 0
	start := 0
	for i, c := range s.text {
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				return at(i).wrong("too many nested brackets: %d (limit %d)", depth, maxDepth)
			}
		case ']', '}':
			depth = max(0, depth-1)
		case '\n':
			start = i + 1
		case '\t':
			if len(bytes.TrimLeft(s.text[start:i], " -")) == 0 {
				return at(i).wrong("invalid indentation: a tab (valid: spaces)")
			}
		}
	}
	// Lists and maps nest by indentation as well; each level takes a column.
	for line := range bytes.Lines(s.text) {
		if n := len(line) - len(bytes.TrimLeft(line, " -?:")); n > 4*maxDepth {
			i := bytes.Index(s.text, line)
			return at(i).wrong("too much indentation: %d columns (limit %d)", n, 4*maxDepth)
		}
	}
	return nil
}

// syntax turns an error of the parser into an [Error].
func (s *source) syntax(err error) error {
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		at := place{source: s}
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			at.line, at.column = t.Position.Line, t.Position.Column
		}
		return at.wrong("this is not YAML: %s", visible(firstLine(syntax.GetMessage())))
	}
	return place{source: s}.wrong("this is not YAML: %s", visible(firstLine(err.Error())))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (s *source) at(n ast.Node) place {
	p := place{source: s}
	var t *token.Token
	if t = n.GetToken(); t == nil || t.Position == nil {
		return p
	}
	p.line, p.column = t.Position.Line, t.Position.Column
	return p
}

// node converts a node of the parser.
func (s *source) node(from ast.Node, depth int) (*node, error) {
	n := &node{place: s.at(from)}
	if depth > 2*maxDepth {
		return nil, n.wrong("too many nested levels (limit %d)", 2*maxDepth)
	}
	if t := from.GetToken(); t != nil && from.Type() != ast.MappingType && from.Type() != ast.SequenceType {
		if l := utf8.RuneCountInString(t.Value); l > maxWord {
			return nil, n.wrong("the value is too long: %d characters (limit %d)", l, maxWord)
		}
	}
	switch from := from.(type) {
	case *ast.NullNode:
		n.kind = null
	case *ast.StringNode:
		n.text = from.Value
	case *ast.LiteralNode:
		if l := utf8.RuneCountInString(from.Value.Value); l > maxWord {
			return nil, n.wrong("the value is too long: %d characters (limit %d)", l, maxWord)
		}
		n.text = from.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.text = from.GetToken().Value
	case *ast.SequenceNode:
		n.kind = list
		for _, v := range from.Values {
			item, err := s.node(v, depth+1)
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, item)
		}
	case *ast.MappingNode:
		n.kind = object
		lines := map[string]int{}
		for _, v := range from.Values {
			if err := n.add(s, v, depth, lines); err != nil {
				return nil, err
			}
		}
		if len(n.keys) > 0 && !from.IsFlowStyle {
			n.place = n.keys[0].place
		}
	case *ast.MappingValueNode:
		n.kind = object
		if err := n.add(s, from, depth, map[string]int{}); err != nil {
			return nil, err
		}
		n.place = n.keys[0].place
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return nil, n.wrong("anchors, aliases and merge keys are not supported (write the values out; a list crosses them)")
	case *ast.TagNode:
		return nil, n.wrong("tags such as %q are not supported", visible(from.Start.Value))
	default:
		return nil, n.wrong("this is not supported here")
	}
	for _, r := range n.text { // ids, records and terminals will contain it
		if !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) && r != '\n' && r != '\t' {
			return nil, n.wrong("the control character %U in %q (valid: printable text)", r, n.text)
		}
	}
	return n, nil
}

// add adds a key and its value to an object. lines holds the lines of the keys that it already has.
func (n *node) add(s *source, from *ast.MappingValueNode, depth int, lines map[string]int) error {
	key, err := s.node(from.Key, depth+1)
	if err != nil {
		return err
	}
	if key.kind != scalar {
		return key.wrong("the key is %s (valid: a word)", key.kind)
	}
	if first, known := lines[key.text]; known {
		return key.wrong("key %q is given twice (first at line %d)", key.text, first)
	}
	lines[key.text] = key.line
	value := &node{kind: null, place: key.place}
	if from.Value != nil {
		if value, err = s.node(from.Value, depth+1); err != nil {
			return err
		}
	}
	if value.line == 0 {
		value.place = key.place
	}
	n.keys, n.values = append(n.keys, key), append(n.values, value)
	return nil
}

// index returns the index of a key; -1 if there is none.
func (n *node) index(key string) int {
	return slices.IndexFunc(n.keys, func(k *node) bool { return k.text == key })
}

// key returns the last of a path of keys; nil if there is none.
func (n *node) key(path ...string) *node {
	i := n.index(path[0])
	switch {
	case i < 0:
		return nil
	case len(path) == 1:
		return n.keys[i]
	}
	return n.values[i].key(path[1:]...)
}

// A Setting changes one value of an experiment, like a flag.
type Setting struct {
	Flag  string // as errors show it: "--set", "--time"
	Path  string // "design.time", "workloads.0.udp-rr.payload"
	Value string // YAML: "30s", "[bridge, nat]"
}

// set changes a value of a document. It makes the parts of the path that do not exist.
func (n *node) set(s Setting) error {
	name := s.Flag
	if s.Flag == "--set" {
		name += " " + s.Path + "=" + s.Value
	}
	src := &source{name: visible(name), text: []byte(s.Value)}
	value, err := parse(src)
	if err != nil {
		if strings.TrimSpace(s.Value) == "" {
			return place{source: src}.wrong("the value is empty")
		}
		return err
	}
	value.from(src)
	at := n
	steps := strings.Split(s.Path, ".")
	for i, step := range steps {
		last := i == len(steps)-1
		key := &node{text: step, place: place{source: src}}
		if step == "" {
			return key.wrong("invalid path %q (valid: words with dots between them, such as design.time)", s.Path)
		}
		if at.kind == list {
			index, err := strconv.Atoi(step)
			if err != nil || index < 0 || index >= len(at.values) {
				return key.wrong("%q is not an item of %s (valid: 0 to %d)", step, strings.Join(steps[:i], "."), len(at.values)-1)
			}
			if last {
				at.values[index] = value
			}
			at = at.values[index]
			continue
		}
		if at.kind != object {
			*at = node{kind: object, place: key.place}
		}
		index := at.index(step)
		if index < 0 {
			at.keys, at.values = append(at.keys, key), append(at.values, &node{kind: object, place: key.place})
			index = len(at.keys) - 1
		}
		if last {
			at.keys[index], at.values[index] = key, value
		}
		at = at.values[index]
	}
	return nil
}

// from removes the line numbers of a value that was given in a flag: they would be lines of the flag's text.
func (n *node) from(s *source) {
	n.place = place{source: s}
	for _, k := range n.keys {
		k.from(s)
	}
	for _, v := range n.values {
		v.from(s)
	}
}

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// A figure is the place of a number in a program's output: a path in a JSON document, or a match of a regular
// expression.
type figure struct {
	path         []step
	re           *regexp.Regexp
	number, unit int // groups of re; 0: none
}

// maxOutput is how much of the output is read.
const maxOutput = 16 << 20 // bytes

func figureCheck(s string) (string, error) {
	_, err := parseFigure(s)
	return s, err
}

func parseFigure(s string) (f figure, err error) {
	kind, text, _ := strings.Cut(s, ":")
	switch kind {
	case "json":
		f.path, err = parsePath(text)
		return f, err
	case "regexp":
		if f.re, err = regexp.Compile(text); err != nil {
			return f, err
		}
		f.number, f.unit = f.re.SubexpIndex("number"), max(0, f.re.SubexpIndex("unit"))
		switch {
		case f.number > 0:
		case f.re.NumSubexp() != 1 || f.unit > 0:
			return f, fmt.Errorf("%q has %d groups (valid: one, or one named number: (?P<number>…))", text, f.re.NumSubexp())
		default:
			f.number = 1
		}
		return f, nil
	}
	return f, fmt.Errorf("%q is neither json:PATH nor regexp:RE", s)
}

// find returns the number, in the base unit of the metric.
func (f figure) find(printed io.Reader, m measure.Metric, unit string) (float64, error) {
	text, err := io.ReadAll(io.LimitReader(printed, maxOutput))
	if err != nil {
		return 0, fmt.Errorf("printed unreadable output: %w", err)
	}
	var number string
	if f.re != nil {
		number, unit, err = f.match(string(text), unit)
	} else {
		number, err = f.at(text)
	}
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(x >= 0) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("printed %.40q instead of a number", number)
	}
	factor := 1.0
	if unit != auto {
		if factor, err = unitFactor(m, unit); err != nil {
			return 0, fmt.Errorf("printed an unsuitable unit: %w", err)
		}
	}
	if x *= factor; math.IsInf(x, 0) {
		return 0, fmt.Errorf("printed %.40q instead of a number", number)
	}
	return x, nil
}

// match returns the number in the last match, because summaries come last.
func (f figure) match(text, unit string) (number, of string, err error) {
	all := f.re.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return "", "", fmt.Errorf("printed nothing that matches %q", f.re)
	}
	last := all[len(all)-1]
	if f.unit > 0 {
		unit = last[f.unit]
	}
	return last[f.number], unit, nil
}

// A step is a name in a map, or an index in a list; a negative index counts from the end.
type step struct {
	name  string
	index int
	list  bool
}

func (s step) String() string {
	if s.list {
		return fmt.Sprintf("[%d]", s.index)
	}
	return strconv.Quote(s.name)
}

// at returns the number at the path in the last JSON document of the output.
func (f figure) at(text []byte) (string, error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var doc any
	for n := 0; ; n++ {
		var next any
		err := d.Decode(&next)
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if err != nil {
			return "", fmt.Errorf("did not print JSON: %w", err)
		}
		doc = next
	}
	for i, s := range f.path {
		where := "it"
		if i > 0 {
			where = f.path[i-1].String()
		}
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[s.name]
			if s.list || !ok {
				return "", fmt.Errorf("printed JSON without %v in %s (it has %s)", s, where, some(v))
			}
			doc = next
		case []any:
			index := s.index
			if index < 0 {
				index += len(v)
			}
			if !s.list || index < 0 || index >= len(v) {
				return "", fmt.Errorf("printed JSON without %v in %s (it is a list of %d)", s, where, len(v))
			}
			doc = v[index]
		default:
			return "", fmt.Errorf("printed JSON without %v in %s (it is a single value)", s, where)
		}
	}
	switch v := doc.(type) {
	case json.Number:
		return v.String(), nil
	case string:
		return v, nil
	}
	return "", errors.New("printed JSON with no number at the path of its figure")
}

// some lists the first keys of a map.
func some(m map[string]any) string {
	const few = 8
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if len(keys) > few {
		keys = append(keys[:few], "…")
	}
	return strings.Join(keys, ", ")
}

// parsePath reads a singular query (RFC 9535, section 2.3.5.1): names after dots, or in brackets and quotes, and
// indices in brackets. The initial $ is optional, and a name after a dot may contain any character except a dot and a
// bracket.
func parsePath(s string) ([]step, error) {
	wrong := func(at int) error {
		return fmt.Errorf("invalid path %q at %q (valid: names and indices such as end.streams[0].rate or $['p 99'][-1])", s,
			s[at:])
	}
	rest := strings.TrimPrefix(s, "$")
	var steps []step
	for begin := len(rest) == len(s); rest != ""; begin = false {
		at := len(s) - len(rest)
		if rest[0] == '[' {
			one, n := parseBracket(rest)
			if n == 0 {
				return nil, wrong(at)
			}
			steps, rest = append(steps, one), rest[n:]
			continue
		}
		if !begin {
			if rest[0] != '.' {
				return nil, wrong(at)
			}
			rest = rest[1:]
		}
		n := strings.IndexAny(rest, ".[]")
		if n < 0 {
			n = len(rest)
		}
		if n == 0 || rest[0] == '*' {
			return nil, wrong(at)
		}
		steps, rest = append(steps, step{name: rest[:n]}), rest[n:]
	}
	if len(steps) == 0 && s != "$" {
		return nil, wrong(0)
	}
	return steps, nil
}

// parseBracket reads [3], ['name'] or ["name"], and returns its length; 0 if it is none of these.
func parseBracket(s string) (step, int) {
	if len(s) < 3 {
		return step{}, 0
	}
	if q := s[1]; q == '\'' || q == '"' {
		var name strings.Builder
		for i := 2; i+1 < len(s); i++ {
			switch {
			case s[i] == '\\' && (s[i+1] == q || s[i+1] == '\\'):
				i++
				name.WriteByte(s[i])
			case s[i] == q && s[i+1] == ']':
				return step{name: name.String()}, i + 2
			case s[i] == q:
				return step{}, 0
			default:
				name.WriteByte(s[i])
			}
		}
		return step{}, 0
	}
	inside, _, ok := strings.Cut(s[1:], "]")
	index, err := strconv.Atoi(inside)
	if !ok || err != nil || strconv.Itoa(index) != inside {
		return step{}, 0
	}
	return step{index: index, list: true}, len(inside) + 2
}

package part

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Param is one parameter of a part.
type Param struct {
	Name    string
	Default string
	Summary string                       // with unit and range
	Values  []string                     // the only valid ones; nil if Check decides
	Check   func(string) (string, error) // returns the value as cell ids show it: a number in base units
	Why     func(string) string          // why a value is not among Values; "" if there is nothing to add; nil for most
	Quiet   bool                         // left out of ids if it has its default
	Long    bool                         // never in ids: another parameter identifies it
}

// Params are the values of all parameters of a part.
type Params map[string]string

// Size returns a parameter that holds a number of bytes, already checked.
func (p Params) Size(name string) int {
	n, _ := ParseSize(p[name])
	return n
}

// On reports whether a parameter made by [Switch] is "true".
func (p Params) On(name string) bool { return p[name] == "true" }

// Switch returns a parameter that is true or false.
func Switch(name, summary string) Param {
	return Param{Name: name, Default: "false", Summary: summary, Values: []string{"true", "false"}}
}

// Value checks one value and returns it as cell ids show it. The error lists what is valid.
func (p Param) Value(s string) (string, error) {
	if p.Values != nil && !slices.Contains(p.Values, s) {
		if same, ok := p.sameSwitch(s); ok {
			return same, nil
		}
		why := ""
		if p.Why != nil {
			why = p.Why(s)
		}
		if why != "" {
			why = ": " + why
		}
		valid := p.Values
		if !slices.ContainsFunc(valid, func(v string) bool { return Switches(v) == nil }) {
			valid = []string{"true", "false", "on", "off", "yes", "no"} // whichever of them it stores
		}
		return "", fmt.Errorf("invalid value %q%s (valid: %s)", s, why, strings.Join(valid, ", "))
	}
	if p.Check != nil {
		return p.Check(s)
	}
	return s, nil
}

// Switches returns the other YAML words with the same meaning as a word for true or false; it returns none for any
// other word. A parameter that has one of these words as a value accepts all of them.
func Switches(word string) []string {
	for _, same := range [][]string{{"true", "on", "yes"}, {"false", "off", "no"}} {
		if slices.Contains(same, word) {
			return slices.DeleteFunc(same, func(s string) bool { return s == word })
		}
	}
	return nil
}

// sameSwitch returns the value of the parameter that has the same meaning as a word for true or false.
func (p Param) sameSwitch(s string) (string, bool) {
	for _, same := range Switches(strings.ToLower(s)) {
		if slices.Contains(p.Values, same) {
			return same, true
		}
	}
	lower := strings.ToLower(s) // True and TRUE are YAML booleans too
	return lower, Switches(lower) != nil && slices.Contains(p.Values, lower)
}

// A List holds the parameters of one part, in the order of ids and help.
type List []Param

// Find returns the parameter with that name. If there is none, the error lists all parameters; owner is the part in
// words, "workload udp-rr".
func (l List) Find(owner, name string) (Param, error) {
	i := slices.IndexFunc(l, func(p Param) bool { return p.Name == name })
	switch {
	case i >= 0:
		return l[i], nil
	case len(l) == 0:
		return Param{}, fmt.Errorf("%s has no parameter %q (it has no parameters)", owner, name)
	}
	return Param{}, fmt.Errorf("%s has no parameter %q (valid: %s)", owner, name, strings.Join(l.Names(), ", "))
}

// Names returns the names of all parameters.
func (l List) Names() []string {
	names := make([]string, len(l))
	for i, p := range l {
		names[i] = p.Name
	}
	return names
}

// Resolve adds defaults to the given parameters and checks them. For an unknown name or an invalid value, the error
// lists the alternatives.
func (l List) Resolve(owner string, given map[string]string) (Params, error) {
	p := make(Params, len(l))
	for _, param := range l {
		p[param.Name] = param.Default
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		param, err := l.Find(owner, name)
		if err != nil {
			return nil, err
		}
		if p[name], err = param.Value(given[name]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", owner, name, err)
		}
	}
	return p, nil
}

// ID writes a part with its parameters: "udp-rr(payload=64,mode=wait)". It leaves out a Quiet parameter that has its
// default, and every Long one.
func (l List) ID(name string, p Params) string {
	return write(name, l, func(param Param) (string, bool) { return p[param.Name], param.named(p[param.Name]) })
}

// Unnamed returns the names of the parameters that [List.ID] leaves out.
func (l List) Unnamed(p Params) []string {
	var names []string
	for _, param := range l {
		if !param.named(p[param.Name]) {
			names = append(names, param.Name)
		}
	}
	return names
}

// named reports whether ids have the parameter if it has this value.
func (p Param) named(value string) bool { return !p.Long && (!p.Quiet || value != p.Default) }

// Short writes a part with the parameters that do not have their default: "nat", "nat(hairpin=true)".
func (l List) Short(name string, p Params) string {
	return write(name, l, func(param Param) (string, bool) { return p[param.Name], p[param.Name] != param.Default })
}

func write(name string, l List, value func(Param) (string, bool)) string {
	var list []string
	for _, param := range l {
		if v, ok := value(param); ok {
			list = append(list, param.Name+"="+quoted(v))
		}
	}
	if len(list) == 0 {
		return name
	}
	return name + "(" + strings.Join(list, ",") + ")"
}

// Parse splits "udp-rr(payload=64,mode=spin)" into a name and parameters. Quotes work as in a shell; a value needs them
// if it contains commas or parentheses or begins with a bracket. Between single quotes every character stands for
// itself; between double quotes \" and \\ are a quote and a backslash. Parse ignores spaces and tabs around a key or a
// value. Parse knows no parts: the catalogue and [List.Resolve] check names. Errors name the kind, such as "workload".
func Parse(kind, s string) (string, map[string]string, error) {
	name, lists, err := ParseLists(kind, s)
	if err != nil {
		return "", nil, err
	}
	given := make(map[string]string, len(lists))
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		if n := len(lists[key]); n > 1 {
			return "", nil, fmt.Errorf("invalid %s %q: %s lists %d values (valid here: one)", kind, s, key, n)
		}
		given[key] = lists[key][0]
	}
	return name, given, nil
}

// ParseLists is like [Parse], but a parameter may have several values: "tcp-stream(share=[10%,50%])". Each list has at
// least one.
func ParseLists(kind, s string) (string, map[string][]string, error) {
	name, rest, open := strings.Cut(s, "(")
	given := map[string][]string{}
	inside, closed := strings.CutSuffix(rest, ")")
	switch {
	case name == "" || strings.ContainsAny(name, ")=, "):
		return "", nil, fmt.Errorf("invalid %s %q (valid: NAME or NAME(parameter=value,…))", kind, s)
	case !open:
		return s, given, nil
	case !closed:
		return "", nil, fmt.Errorf("invalid %s %q: the closing parenthesis is missing (valid: NAME(parameter=value,…))", kind,
			s)
	}
	for more := true; more; {
		var key string
		var values []string
		var err error
		if key, values, inside, more, err = cutParam(inside); err != nil {
			return "", nil, fmt.Errorf("invalid %s %q: %w", kind, s, err)
		}
		if _, twice := given[key]; twice {
			return "", nil, fmt.Errorf("invalid %s %q: parameter %q is given twice", kind, s, key)
		}
		given[key] = values
	}
	return name, given, nil
}

const (
	quotes = `"'`  // characters that can quote a value
	blanks = " \t" // ignored around a key or a value
)

// quoted writes a value so that [Parse] reads it back. It adds double quotes if the value would otherwise end early or
// lose a character.
func quoted(s string) string {
	plain := !strings.ContainsAny(s, ",()") && strings.Trim(s, blanks) == s
	if plain && (s == "" || strings.IndexByte(quotes+"[", s[0]) < 0) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// cutParam cuts the first parameter off a list of parameters, and unquotes its value or values.
func cutParam(s string) (key string, values []string, rest string, more bool, err error) {
	parentheses := errors.New("a value with parentheses needs quotes")
	item, _, _ := strings.Cut(s, ",")
	eq := strings.IndexAny(s, "=,()")
	switch {
	case eq < 0 || s[eq] == ',':
		return "", nil, "", false, fmt.Errorf("%q is not parameter=value", item)
	case s[eq] != '=':
		return "", nil, "", false, parentheses
	}
	key, rest = strings.Trim(s[:eq], blanks), strings.TrimLeft(s[eq+1:], blanks)
	after := ""
	switch {
	case strings.HasPrefix(rest, "["):
		after = "bracket"
		values, rest, err = cutList(rest[1:])
	case rest != "" && strings.IndexByte(quotes, rest[0]) >= 0:
		after = "quote"
		values = []string{""}
		values[0], rest, err = cutQuoted(rest)
	default:
		end := strings.IndexAny(rest, ",()")
		switch {
		case end < 0:
			end = len(rest)
		case rest[end] != ',':
			return "", nil, "", false, parentheses
		}
		values, rest = []string{strings.TrimRight(rest[:end], blanks)}, rest[end:]
	}
	if err != nil {
		return "", nil, "", false, err
	}
	if rest = strings.TrimLeft(rest, blanks); rest != "" && rest[0] != ',' {
		return "", nil, "", false, fmt.Errorf("%q follows a closing %s", rest, after)
	}
	if key == "" || slices.Contains(values, "") {
		return "", nil, "", false, fmt.Errorf("%q is not parameter=value", item)
	}
	rest, more = strings.CutPrefix(rest, ",")
	return key, values, rest, more, nil
}

// cutList cuts a list off a text that begins after the opening bracket, and unquotes its values.
func cutList(s string) (values []string, rest string, err error) {
	for {
		s = strings.TrimLeft(s, blanks)
		var value string
		if s != "" && strings.IndexByte(quotes, s[0]) >= 0 {
			if value, s, err = cutQuoted(s); err != nil {
				return nil, "", err
			}
			s = strings.TrimLeft(s, blanks)
		} else {
			end := strings.IndexAny(s, ",()[]")
			if end < 0 {
				end = len(s)
			}
			value, s = strings.TrimRight(s[:end], blanks), s[end:]
		}
		switch {
		case s == "":
			return nil, "", errors.New("the closing bracket is missing (valid: parameter=[value,value])")
		case s[0] != ',' && s[0] != ']':
			return nil, "", errors.New("a value of a list with parentheses or brackets needs quotes")
		case value == "":
			return nil, "", errors.New("a value of a list is empty (valid: parameter=[value,value])")
		}
		values = append(values, value)
		if s[0] == ']' {
			return values, s[1:], nil
		}
		s = s[1:]
	}
}

// cutQuoted cuts a quoted value off the start of a text, and returns it without its quotes.
func cutQuoted(s string) (value, rest string, err error) {
	quote := s[0]
	var text []byte
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return string(text), s[i+1:], nil
		case c == '\\' && quote == '"' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
		}
		text = append(text, s[i])
	}
	return "", "", fmt.Errorf("a quote (%c) is not closed", quote)
}

// ParseSize reads a number of bytes written as "64", "64B", "128KiB" or "1MB".
func ParseSize(s string) (int, error) {
	number, factor := s, 1
	for _, u := range []struct {
		suffix string
		factor int
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"kB", 1000}, {"MB", 1000 * 1000}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			number, factor = rest, u.factor
			break
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > (1<<30)/factor {
		if unit, ok := map[string]string{
			"KB": "kB (1000 bytes) or KiB (1024 bytes)", "kb": "kB (1000 bytes) or KiB (1024 bytes)",
			"K": "kB (1000 bytes) or KiB (1024 bytes)",
			"k": "kB (1000 bytes) or KiB (1024 bytes)", "mb": "MB (1000² bytes) or MiB (1024² bytes)",
			"M": "MB (1000² bytes) or MiB (1024² bytes)",
		}[strings.TrimLeft(s, "0123456789")]; ok {
			return 0, fmt.Errorf("invalid size %q (write %s)", s, unit)
		}
		return 0, fmt.Errorf("invalid size %q (valid: bytes such as 64, 64B, 128KiB or 1MB, at most 1GiB)", s)
	}
	return n * factor, nil
}

// ParseRate reads a number of events per second written as "500/s", "10k/s" or "1.5M/s".
func ParseRate(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "/s")
	factor := 1.0
	for suffix, f := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9} {
		if rest, found := strings.CutSuffix(number, suffix); found {
			number, factor = rest, f
			break
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || x != x || x*factor <= 0 || x*factor > 1e9 {
		return 0, fmt.Errorf("invalid rate %q (valid: a number per second, such as 500/s, 10k/s or 1.5M/s)", s)
	}
	return x * factor, nil
}

// RateOr returns a [Param] check that accepts a rate, or a word that stands for no fixed rate. Ids show a rate in
// events per second.
func RateOr(word string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s == word {
			return s, nil
		}
		x, err := ParseRate(s)
		if err != nil {
			return "", fmt.Errorf("%w, or %s", err, word)
		}
		return strconv.FormatFloat(x, 'f', -1, 64) + "/s", nil
	}
}

// Rate returns a parameter that holds a rate, already checked; 0 if it holds a word.
func (p Params) Rate(name string) float64 {
	x, _ := ParseRate(p[name])
	return x
}

// ParseBitRate reads bits per second written as "500kbit/s", "50Mbit/s" or "8000bit/s".
func ParseBitRate(s string) (float64, error) {
	if number, ok := strings.CutSuffix(s, "bit/s"); ok {
		factor := 1.0
		for suffix, f := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9} {
			if rest, found := strings.CutSuffix(number, suffix); found {
				number, factor = rest, f
				break
			}
		}
		if x, err := strconv.ParseFloat(number, 64); err == nil && x*factor > 0 && x*factor <= 1e12 {
			return x * factor, nil
		}
	}
	return 0, fmt.Errorf("invalid bit rate %q (valid: values such as 500kbit/s, 50Mbit/s or 1Gbit/s)", s)
}

// BitRateOr returns a [Param] check that accepts a bit rate, or a word that stands for no fixed rate; "" means that no
// word is valid. Ids use the largest unit that gives a whole number.
func BitRateOr(word string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s == word && word != "" {
			return s, nil
		}
		x, err := ParseBitRate(s)
		switch {
		case err != nil && word != "":
			return "", fmt.Errorf("%w, or %s", err, word)
		case err != nil:
			return "", err
		}
		unit := 0
		for units := []string{"", "k", "M", "G"}; ; unit++ {
			if y := x / 1000; unit == len(units)-1 || y != math.Trunc(y) {
				return strconv.FormatFloat(x, 'f', -1, 64) + units[unit] + "bit/s", nil
			}
			x /= 1000
		}
	}
}

// BitRate returns a parameter that holds a bit rate, already checked; 0 if it holds a word.
func (p Params) BitRate(name string) float64 {
	x, _ := ParseBitRate(p[name])
	return x
}

// CountBetween returns a [Param] check for a whole number in a range.
func CountBetween(lo, hi int) func(string) (string, error) {
	return func(s string) (string, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < lo || n > hi {
			return "", fmt.Errorf("invalid value %q (valid: a whole number from %d to %d)", s, lo, hi)
		}
		return strconv.Itoa(n), nil
	}
}

// Count returns a parameter that holds a whole number, already checked.
func (p Params) Count(name string) int {
	n, _ := strconv.Atoi(p[name])
	return n
}

// DurationBetween returns a [Param] check for a duration in a range. Ids show it as Go does: "1.5ms".
func DurationBetween(lo, hi time.Duration) func(string) (string, error) {
	return func(s string) (string, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < lo || d > hi {
			return "", fmt.Errorf("invalid duration %q (valid: %s to %s, with the units ns, us, ms, s, m and h)", s,
				DurationText(lo), DurationText(hi))
		}
		return d.String(), nil
	}
}

// DurationText writes a duration as people do: "168h", not "168h0m0s".
func DurationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// SizeText writes a number of bytes with the largest unit that gives at least 1. It uses binary units for whole
// multiples, as in "256 KiB", and decimal ones otherwise, as in "10 MB".
func SizeText(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0 && n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 1000*1000:
		return fmt.Sprintf("%.3g kB", float64(n)/1e3)
	case n < 1000*1000*1000:
		return fmt.Sprintf("%.3g MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.3g GB", float64(n)/1e9)
}

// Duration returns a parameter that holds a duration, already checked.
func (p Params) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(p[name])
	return d
}

// ParseShare reads a share written as "50%" or "0.5".
func ParseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	if err != nil || x != x {
		return 0, fmt.Errorf("invalid share %q (valid: values such as 50%% or 0.5)", s)
	}
	return x, nil
}

// ShareBetween returns a [Param] check for a share in a range. Ids show it in percent.
func ShareBetween(lo, hi float64) func(string) (string, error) {
	return func(s string) (string, error) {
		x, err := ParseShare(s)
		if err != nil {
			return "", err
		}
		if x < lo || x > hi {
			return "", fmt.Errorf("%q is out of range (valid: %g%% to %g%%)", s, 100*lo, 100*hi)
		}
		return strconv.FormatFloat(100*x, 'g', 6, 64) + "%", nil
	}
}

// Share returns a parameter that holds a share, already checked.
func (p Params) Share(name string) float64 {
	x, _ := ParseShare(p[name])
	return x
}

// SizeBetween returns a [Param] check for a number of bytes in a range.
func SizeBetween(lo, hi int) func(string) (string, error) {
	return func(s string) (string, error) {
		n, err := ParseSize(s)
		if err != nil {
			return "", err
		}
		if n < lo || n > hi {
			return "", fmt.Errorf("%q is out of range (valid: %d to %d bytes)", s, lo, hi)
		}
		return strconv.Itoa(n), nil
	}
}

// Equal reports whether two sets of parameters are the same.
func Equal(a, b Params) bool { return maps.Equal(a, b) }

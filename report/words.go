package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// Label is what people call a metric: "latency p99".
func Label(m measure.Metric) string {
	if m.Label != "" {
		return Printable(m.Label)
	}
	return label(m.Name)
}

// label is what people call a metric that has no label of its own.
func label(metric string) string {
	metric = Printable(metric)
	if rest, ok := strings.CutSuffix(metric, "_per_pair"); ok {
		return label(rest) + " per pair"
	}
	if rest, ok := strings.CutPrefix(metric, "oneway_"); ok {
		return "one-way " + label(rest)
	}
	if digits, ok := strings.CutPrefix(metric, "latency_p"); ok && len(digits) > 2 &&
		strings.Trim(digits, "0123456789") == "" {
		return "latency p" + digits[:2] + "." + digits[2:]
	}
	text := strings.ReplaceAll(metric, "_", " ")
	if rest, ok := strings.CutPrefix(text, "cpu "); ok {
		return "CPU " + rest
	}
	return text
}

// Number prints a value for people, with a unit that does not repeat the metric's label, and with three digits where
// these were measured: 13.0 µs, not 13 µs.
func Number(value float64, unit string) string {
	switch unit {
	case measure.UnitSecondsPacket, measure.UnitSecondsTransaction:
		return digits(measure.Format(value, measure.UnitSecond))
	case measure.UnitSecondsByte:
		return digits(measure.Format(value*1000, measure.UnitSecond)) // for 1000 bytes
	case measure.UnitShare:
		return minus(measure.Format(value, unit))
	case measure.UnitCores:
		if math.Abs(value) < smallest {
			return minus(strconv.FormatFloat(value, 'f', 3, 64)) + " cores"
		}
	case measure.UnitSegment, measure.UnitMessage, measure.UnitPort, measure.UnitStall, measure.UnitOpen:
		n, _, _ := strings.Cut(measure.Format(value, unit), " ")
		return minus(n)
	}
	return digits(measure.Format(value, unit))
}

// smallest is the share of a core below which three digits would say more than was measured.
const smallest = 0.1

// digits gives back the zeros that Format takes away at the end of a number of three significant digits.
func digits(s string) string {
	n, unit, ok := strings.Cut(s, " ")
	if x, err := strconv.ParseFloat(n, 64); err == nil && x != 0 && ok {
		n = strconv.FormatFloat(x, 'f', max(0, 2-int(math.Floor(math.Log10(math.Abs(x))))), 64)
	}
	if !ok {
		return minus(n)
	}
	return minus(n) + " " + unit
}

// minus makes a hyphen before a number the sign it stands for.
func minus(s string) string {
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		return "−" + rest
	}
	return s
}

// decimals says how many are worth printing of a number known to ±half.
func decimals(half float64) int {
	switch half = math.Abs(half); {
	case math.IsNaN(half) || half == 0:
		return 1
	case half >= 10:
		return 0
	case half >= 0.1:
		return 1
	case half >= 0.01:
		return 2
	}
	return 3
}

// signed prints a number with its sign.
func signed(x float64, decimals int) string {
	s := strconv.FormatFloat(math.Abs(x), 'f', decimals, 64)
	switch {
	case math.IsInf(x, 0):
		s = "∞"
	case strings.Trim(s, "0.") == "":
		return s // neither +0.0 nor −0.0
	}
	if x < 0 {
		return "−" + s
	}
	return "+" + s
}

// Change is a cell against its baseline, in words: "+9.1 %" and "+8.0 to +10.3 %"; "×3.42" and "×3.31 to ×3.50" where
// percents would be hard to grasp; "+0.4 points" for shares and "+0.4" for counts. Both are "" where there is none.
func Change(r *measure.Row) (point, interval string) {
	switch {
	case r.HasRatio:
		return ratio(r.Estimate.Ratio, r.Estimate.Lo, r.Estimate.Hi)
	case r.HasDifference:
		d := r.Difference
		scale, unit := 1.0, ""
		if r.Unit == measure.UnitShare {
			scale, unit = 100, " points"
		}
		n := decimals(scale * d.HalfWidth())
		return signed(scale*d.Points, n) + unit, signed(scale*d.Lo, n) + " to " + signed(scale*d.Hi, n) + unit
	}
	return "", ""
}

// Ratios below and above which a factor says more than a percentage.
const (
	half   = 0.5
	double = 2.0
	tenth  = 0.1
	tens   = 10.0
)

func ratio(x, lo, hi float64) (point, interval string) {
	n := decimals(100 * (hi - lo) / 2)
	point = signed(100*(x-1), n) + " %"
	if x <= half || x >= double {
		point = times(x, hi-lo)
	}
	if x <= half || x >= double || lo < tenth || hi > tens {
		return point, times(lo, hi-lo) + " to " + times(hi, hi-lo)
	}
	return point, signed(100*(lo-1), n) + " to " + signed(100*(hi-1), n) + " %"
}

// times prints a factor known to ±span/2, with the digits that are worth printing.
func times(x, span float64) string {
	if math.IsInf(x, 1) {
		return "×∞"
	}
	n := 2
	if span > 0 {
		n = int(-math.Floor(math.Log10(span / 2)))
	}
	if x > 0 {
		n = max(n, int(-math.Floor(math.Log10(x)))) // never ×0 for what is not 0
	}
	n = min(max(n, 0), 4)
	return "×" + strconv.FormatFloat(x, 'f', n, 64)
}

// margin prints a floor: "±0.6 %", "±0.1 points" of a share, "×505" where the twins could as well be that factor apart;
// "" where it is not known.
func margin(floor float64, m measure.Metric) string {
	if math.IsNaN(floor) || math.IsInf(floor, 0) {
		return ""
	}
	x, unit := 100*math.Expm1(floor), " %"
	switch {
	case m.Differs() && m.Unit == measure.UnitShare:
		x, unit = 100*floor, " points"
	case m.Differs():
		x, unit = floor, ""
	case floor >= math.Log(tens): // thousands of percent
		return times(math.Exp(floor), math.Exp(floor))
	}
	if x == 0 {
		return "±0" + unit
	}
	return "±" + strconv.FormatFloat(x, 'f', decimals(x), 64) + unit
}

// of names what a verdict of a metric is about: "adds 1.2 µs … to round trips".
func of(m measure.Metric) string {
	switch m.Name {
	case "latency_p50", "latency_mean":
		return "round trips"
	case "oneway_latency_p50", "oneway_latency_mean":
		return "one-way trips"
	}
	if strings.Contains(m.Name, "latency_p") || strings.Contains(m.Name, "latency_max") {
		return "the " + Label(m)
	}
	return Label(m)
}

// place says where the two ends of a pair are.
func place(placement string) string {
	switch placement {
	case "same-host":
		return "on one host"
	case "cross-host":
		return "across hosts"
	}
	return Printable(placement)
}

// StackName is what a cell's stack is called in its group.
func StackName(c *measure.Cell) string { return Printable(cmp.Or(c.Label, c.Stack, c.ID)) }

// partsOf is a name without the parameters of its parts: "routed+nftables" of "routed+nftables(rules=100,match=set)".
func partsOf(name string) string {
	var b strings.Builder
	depth := 0
	for _, r := range name {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// params lists the parameters of a workload: "payload 64, mode wait".
func params(c *measure.Cell) []string {
	keys := make([]string, 0, len(c.Params))
	for k := range c.Params {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	})
	for i, k := range keys {
		keys[i] = Printable(k + " " + c.Params[k])
	}
	return keys
}

// mixedWith names the other members of a cell's mix: "mixed with tcp-stream(message=131072)"; "" if it was not in one.
func mixedWith(c *measure.Cell) string {
	var others []string
	id := c.ID
	if c.Twin {
		id = c.Baseline
	}
	for _, m := range c.Mix {
		if at := strings.LastIndexByte(m, '*'); at > 0 {
			m = m[:at] // without its share
		}
		if !strings.HasSuffix(id, ":"+m) {
			others = append(others, Printable(m))
		}
	}
	switch n := len(others); n {
	case 0:
		return ""
	case 1:
		return "mixed with " + others[0]
	default:
		return "mixed with " + strings.Join(others[:n-1], ", ") + " and " + others[n-1]
	}
}

// pairsOf says how many pairs a cell has, and of how many in a mix.
func pairsOf(c *measure.Cell) string {
	if c.LabPairs > 0 {
		return strconv.Itoa(c.Pairs) + " of " + Count(c.LabPairs, "pair", "pairs")
	}
	return Count(c.Pairs, "pair", "pairs")
}

// load is the workload of a cell in a line: "udp-rr payload 64, mode wait, mixed with
// tcp-stream(message=131072)".
func load(c *measure.Cell) string {
	text := strings.TrimSpace(Printable(c.Workload) + " " + strings.Join(spoken(c), ", "))
	if b := mixedWith(c); b != "" {
		text += ", " + b
	}
	return text
}

// spoken lists the parameters that reports show. It omits what ids leave out because it is the default, such as "rate
// closed", or too long, such as a command. Numbers and payloads are always shown: "in-flight 1" belongs with "in-flight
// 16".
func spoken(c *measure.Cell) []string {
	return slices.DeleteFunc(params(c), func(p string) bool {
		name, value, _ := strings.Cut(p, " ")
		return name != "payload" && strings.Contains(c.ID, "(") && !strings.Contains(c.ID, name+"="+value) &&
			(value == "" || value[0] < '0' || value[0] > '9')
	})
}

// rank puts the payload first and the mode last.
func rank(param string) int {
	switch param {
	case "payload":
		return 0
	case "mode":
		return 2
	}
	return 1
}

// Count is a number and what it counts.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// duration prints seconds as people say them.
func duration(s float64) string {
	switch n := int(math.Round(s)); {
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case n < 120:
		return strconv.Itoa(n) + " s"
	case n < 7200:
		return fmt.Sprintf("%d min %d s", n/60, n%60)
	default:
		return fmt.Sprintf("%d h %d min", n/3600, n%3600/60)
	}
}

// Capital begins a sentence: a text with its first letter as a capital.
func Capital(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// PlainNumber prints a number at an axis.
func PlainNumber(x float64) string {
	if math.Abs(x) < 1e-12 {
		return "0"
	}
	if a := math.Abs(x); a >= 1e7 || a < 1e-4 {
		return minus(strconv.FormatFloat(x, 'g', 3, 64))
	}
	return minus(strconv.FormatFloat(x, 'f', -1, 64))
}

// Slug makes the name of a file of a text: lower-case ASCII letters and digits with single hyphens between them.
func Slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9'):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}

// Words splits a text where a line may be broken: not between a number and its unit or what it counts.
func Words(text string) []string {
	var list []string
	for w := range strings.FieldsSeq(text) {
		if n := len(list); n > 0 && endsInDigit(list[n-1]) && (strings.HasPrefix(w, "%") || strings.HasSuffix(w, "s")) {
			list[n-1] += " " + w
			continue
		}
		list = append(list, w)
	}
	return list
}

func endsInDigit(w string) bool { return w != "" && w[len(w)-1] >= '0' && w[len(w)-1] <= '9' }

// Printable replaces what could steer a terminal: names and messages come from files that anyone may have written.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

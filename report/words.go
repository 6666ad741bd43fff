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

// Label returns the name of a metric for people: "latency p99".
func Label(m measure.Metric) string {
	if m.Label != "" {
		return Printable(m.Label)
	}
	return label(m.Name)
}

// label returns the name for people of a metric without a label.
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

// Number returns a value for people. Its unit does not repeat the metric's label, and it has three digits if that many
// were measured: 13.0 µs, not 13 µs.
func Number(value float64, unit string) string { return number(value, unit, digits) }

// Difference returns the difference of a value from its baseline, base, that a ratio known to ±half makes: without
// digits below its uncertainty, but with those of a percent of the baseline, as the change has them beside it.
func Difference(base, ratio, half float64, unit string) string {
	const worth = 2 // two digits if half is 0.1 to 0.2, one if it is more
	value := base * (ratio - 1)
	if half > 0 && !math.IsInf(half, 0) {
		step := math.Pow(10, min(math.Floor(math.Log10(base*half/worth)), math.Round(math.Log10(base/100))))
		value = math.Round(value/step) * step
	}
	return number(value, unit, minus)
}

func number(value float64, unit string, digits func(string) string) string {
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

// smallest is the share of a core below which three digits would be more precise than the measurement.
const smallest = 0.1

// digits restores trailing zeros of a number with three significant digits, which Format removes.
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

// minus replaces a hyphen before a number by a minus sign.
func minus(s string) string {
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		return "−" + rest
	}
	return s
}

// decimals returns the number of decimals to print for a number known to ±half.
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

// signed returns a number with its sign.
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

// Change returns the change of a cell against its baseline in words: "+9.1 %" and "+8.0 to +10.3 %"; "×3.42" and "×3.31
// to ×3.50" if percents would be hard to grasp; "+0.4 points" for shares and "+0.4" for counts. Both are "" if there is
// none.
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

// Ratios below and above which views show a factor instead of a percentage.
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
	if lo < 1.0/most && hi > most {
		return point, "unknown"
	}
	if x <= half || x >= double || lo < tenth || hi > tens {
		return point, times(lo, hi-lo) + " to " + times(hi, hi-lo)
	}
	return point, signed(100*(lo-1), n) + " to " + signed(100*(hi-1), n) + " %"
}

// most is the factor beyond which, and below whose inverse, digits add nothing.
const most = 1000

// times returns a factor known to ±span/2, without digits below its uncertainty.
func times(x, span float64) string {
	switch {
	case x > most:
		return "more than ×1000"
	case x < 1.0/most:
		return "less than ÷1000"
	}
	n := 2
	if span > 0 {
		n = int(-math.Floor(math.Log10(span / 2)))
	}
	n = max(n, int(-math.Floor(math.Log10(x)))) // never ×0 for a number other than 0
	n = min(max(n, 0), 4)
	return "×" + strconv.FormatFloat(x, 'f', n, 64)
}

// even is the least ratio of the lower end of a floor to the upper one at which both are printed as one: up to 11 %.
const even = 0.9

// noise returns a floor, the distance that two equal stacks may have: "±0.6 %", "−33 to +49 %" if the ends differ in
// size, "÷505 to ×505", "±0.1 points" for a share; "unknown" if it is unknown.
func noise(floor float64, m measure.Metric) string {
	if math.IsNaN(floor) || math.IsInf(floor, 0) {
		return "unknown"
	}
	x, unit := 100*math.Expm1(floor), " %"
	switch {
	case m.Differs() && m.Unit == measure.UnitShare:
		x, unit = 100*floor, " points"
	case m.Differs():
		x, unit = floor, ""
	case floor > math.Log(most):
		return "more than ÷1000 to ×1000"
	case floor >= math.Log(tens): // would be thousands of percent
		factor := strings.TrimPrefix(times(math.Exp(floor), math.Exp(floor)), "×")
		return "÷" + factor + " to ×" + factor
	}
	if x == 0 {
		return "±0" + unit
	}
	n := decimals(x)
	up := strconv.FormatFloat(x, 'f', n, 64)
	if down := -100 * math.Expm1(-floor); !m.Differs() && down < even*x {
		return "−" + strconv.FormatFloat(down, 'f', n, 64) + " to +" + up + unit
	}
	return "±" + up + unit
}

// within returns the margin within which stacks count as equal: "±5 %", "±5 points" for a share.
func within(margin float64, m measure.Metric) string {
	text := "±" + PlainNumber(math.Round(100*margin*1e6)/1e6)
	switch {
	case m.Differs() && m.Unit == measure.UnitShare:
		return text + " points"
	case m.Differs():
		return "±" + PlainNumber(margin)
	}
	return text + " %"
}

// of returns the subject of a verdict in a metric: "adds 1.2 µs … to round trips".
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

// place returns a placement in words.
func place(placement string) string {
	switch placement {
	case "same-host":
		return "on one host"
	case "cross-host":
		return "across hosts"
	}
	return Printable(placement)
}

// StackName returns the name of a cell's stack within its group.
func StackName(c *measure.Cell) string { return Printable(cmp.Or(c.Label, c.Stack, c.ID)) }

// bareName returns the name of a cell's stack within its group without the parameters of its parts: "routed+nftables"
// for "routed+nftables(rules=100,match=set)". A stack with a name of its own has that.
func bareName(c *measure.Cell) string {
	var b strings.Builder
	for _, p := range c.Parts {
		b.WriteString(p.Label)
	}
	return cmp.Or(Printable(b.String()), StackName(c))
}

// params returns the parameters of a workload: "payload 64, mode wait".
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

// mixedWith names the other members of a cell's mix: "mixed with tcp-stream(message=131072)"; "" if it is not in a mix.
func mixedWith(c *measure.Cell) string {
	if len(c.Others) == 0 {
		return ""
	}
	return "mixed with " + Printable(inWords(c.Others))
}

// pairsOf returns the number of pairs of a cell and, in a mix, that of all its members.
func pairsOf(c *measure.Cell) string {
	if c.LabPairs > 0 {
		return strconv.Itoa(c.Pairs) + " of " + Count(c.LabPairs, "pair", "pairs")
	}
	return Count(c.Pairs, "pair", "pairs")
}

// load returns the workload of a cell in a line: "udp-rr payload 64, mode wait, mixed with tcp-stream(message=131072)".
func load(c *measure.Cell) string {
	text := strings.TrimSpace(Printable(c.Workload) + " " + strings.Join(spoken(c), ", "))
	if b := mixedWith(c); b != "" {
		text += ", " + b
	}
	return text
}

// spoken returns the parameters that reports show. It omits those that ids omit, such as "rate closed", which is the
// default, or a command, which is too long. Numbers are always shown, so that "in-flight 1" can be compared with
// "in-flight 16".
func spoken(c *measure.Cell) []string {
	return slices.DeleteFunc(params(c), func(p string) bool {
		name, value, _ := strings.Cut(p, " ")
		return slices.Contains(c.Unnamed, name) && (value == "" || value[0] < '0' || value[0] > '9')
	})
}

// rank orders parameters: the payload first and the mode last.
func rank(param string) int {
	switch param {
	case "payload":
		return 0
	case "mode":
		return 2
	}
	return 1
}

// Count returns a number and the noun it counts.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// duration returns a time (s) as people say it.
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

// Capital returns a text with its first letter as a capital.
func Capital(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// PlainNumber returns a number for an axis.
func PlainNumber(x float64) string {
	if math.Abs(x) < 1e-12 {
		return "0"
	}
	if a := math.Abs(x); a >= 1e7 || a < 1e-4 {
		return minus(strconv.FormatFloat(x, 'g', 3, 64))
	}
	return minus(strconv.FormatFloat(x, 'f', -1, 64))
}

// Slug returns a file name for a text: lower-case ASCII letters and digits, with single hyphens between them.
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

// Words splits a text where a line may break: not between a number and its unit, or the noun it counts.
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

// Printable replaces characters that could control a terminal: anyone may have written the names and messages in a
// file.
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

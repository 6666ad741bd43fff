package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// A scaled word is a unit or a prefix of a unit.
type scaled struct {
	word   string
	factor float64 // base units in one of it
}

// stems returns the words for a base unit, the preferred one first. A second is always "s" here.
func stems(base string) []scaled {
	switch base {
	case measure.UnitSecond:
		return []scaled{{"s", 1}, {"sec", 1}, {"secs", 1}, {"second", 1}, {"seconds", 1}}
	case measure.UnitBit:
		return []scaled{
			{"bit/s", 1},
			{"bits/s", 1},
			{"b/s", 1},
			{"bps", 1},
			{"B/s", 8},
			{"byte/s", 8},
			{"bytes/s", 8},
			{"Byte/s", 8},
			{"Bytes/s", 8},
			{"Bps", 8},
		}
	case measure.UnitPacket:
		return []scaled{{"packet/s", 1}, {"packets/s", 1}, {"pkt/s", 1}, {"pkts/s", 1}, {"pps", 1}, {"/s", 1}}
	case measure.UnitTransaction:
		return []scaled{
			{"/s", 1},
			{"transaction/s", 1},
			{"transactions/s", 1},
			{"request/s", 1},
			{"requests/s", 1},
			{"req/s", 1},
			{"op/s", 1},
			{"ops/s", 1},
			{"tps", 1},
			{"rps", 1},
			{"qps", 1},
		}
	case measure.UnitConnection:
		return []scaled{{"/s", 1}, {"connection/s", 1}, {"connections/s", 1}, {"conn/s", 1}, {"cps", 1}}
	case measure.UnitByte:
		return []scaled{{"B", 1}, {"byte", 1}, {"bytes", 1}, {"Byte", 1}, {"Bytes", 1}}
	}
	return []scaled{{base, 1}}
}

// prefixes returns the prefixes of a stem: fractions for seconds, multiples for anything else. (SI Brochure, table 7;
// IEC 80000-13, clause 4.)
func prefixes(base string) []scaled {
	if base == measure.UnitSecond {
		return []scaled{{"", 1}, {"m", 1e-3}, {"u", 1e-6}, {"µ", 1e-6}, {"μ", 1e-6}, {"n", 1e-9}} // micro sign and Greek mu
	}
	return []scaled{
		{"", 1},
		{"k", 1e3},
		{"K", 1e3},
		{"M", 1e6},
		{"G", 1e9},
		{"T", 1e12},
		{"Ki", 1 << 10},
		{"Mi", 1 << 20},
		{"Gi", 1 << 30},
		{"Ti", 1 << 40},
	}
}

// unitFactor returns the number of a metric's base units in one of a unit.
func unitFactor(m measure.Metric, unit string) (float64, error) {
	text := strings.TrimSpace(unit)
	for _, second := range []string{"/seconds", "/second", "/sec"} {
		if rest, ok := strings.CutSuffix(text, second); ok {
			text = rest + "/s"
			break
		}
	}
	for _, p := range prefixes(m.Unit) {
		for _, s := range stems(m.Unit) {
			if p.word+s.word == text {
				return p.factor * s.factor, nil
			}
		}
	}
	first := stems(m.Unit)[0].word
	var examples []string
	for _, p := range prefixes(m.Unit) {
		if !slices.Contains([]string{"K", "u", "μ"}, p.word) {
			examples = append(examples, p.word+first)
		}
	}
	return 0, fmt.Errorf("invalid unit %.40q of %s (valid: values such as %s)", unit, m.Name, strings.Join(examples, ", "))
}

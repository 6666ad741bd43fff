package report

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Gate is a condition on which a comparison fails: a word, or a bound on the change of a metric.
type Gate struct {
	Text string // as the user wrote it

	word   string // one of [GateWords]; "" for an expression
	metric string
	above  bool
	at     float64 // ln of a ratio, or points or units
	form   string  // "%", "x", "points" or ""
}

// Words of gates.
const (
	gateSlower    = "slower"
	gateWorse     = "worse" // the same as slower
	gateToll      = "toll"  // the same as slower, but without the baseline itself
	gateUndecided = "undecided"
	gateLeak      = "leak" // what is hidden was read on the wire, or what is refused arrived, in the newer run
)

// GateWords returns the valid words of gates.
func GateWords() []string { return []string{gateSlower, gateWorse, gateToll, gateUndecided, gateLeak} }

// gateForms shows valid expressions, for errors.
const gateForms = "METRIC>+5%, METRIC<-3%, METRIC>x1.2, METRIC>+0.5points"

// ErrGate is wrapped by errors about invalid gates.
var ErrGate = errors.New("unknown --fail-on")

// ParseGates reads gates. A text may have several, separated by commas. The error wraps [ErrGate].
func ParseGates(texts []string) ([]Gate, error) {
	var list []Gate
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			g, err := parseGate(strings.TrimSpace(one))
			if err != nil {
				return nil, err
			}
			list = append(list, g)
		}
	}
	return list, nil
}

func parseGate(text string) (Gate, error) {
	g := Gate{Text: text}
	if slices.Contains(GateWords(), text) {
		g.word = text
		return g, nil
	}
	// METRIC>BOUND or METRIC<BOUND
	expression := regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*([<>])` +
		`\s*([x×]?)\s*([+−-]?)\s*([0-9]*\.?[0-9]+)\s*(%|points?)?$`)
	m := expression.FindStringSubmatch(text)
	if m == nil {
		return g, fmt.Errorf("%w %q (known: %s; or an expression such as %s)", ErrGate, text,
			strings.Join(GateWords(), ", "), gateForms)
	}
	x, err := strconv.ParseFloat(m[5], 64)
	if err != nil {
		return g, fmt.Errorf("%w %q: %q is not a number: %w", ErrGate, text, m[5], err)
	}
	if m[4] == "-" || m[4] == "−" {
		x = -x
	}
	g.metric, g.above = m[1], m[2] == ">"
	switch {
	case m[3] != "" && (m[4] != "" || m[6] != "" || x == 0):
		return g, fmt.Errorf("%w %q: a factor is a number above 0 without sign and unit, such as x1.2", ErrGate, text)
	case m[3] != "":
		g.form, g.at = "x", math.Log(x)
	case m[6] == "%" && x <= -100:
		return g, fmt.Errorf("%w %q: nothing falls by 100 %% or more (valid: above -100%%)", ErrGate, text)
	case m[6] == "%":
		g.form, g.at = "%", math.Log1p(x/100)
	case m[6] != "":
		g.form, g.at = "points", x/100
	default:
		g.at = x
	}
	return g, nil
}

// fits returns an error if the form of the bound does not fit the metric.
func (g Gate) fits(m measure.Metric) error {
	want, valid := []string{"%", "x"}, g.metric+">+5% or "+g.metric+">x1.05"
	switch {
	case !m.Compares():
		return fmt.Errorf("%w %q: %s is shown, but not compared", ErrGate, g.Text, g.metric)
	case m.Differs() && m.Unit == measure.UnitShare:
		want, valid = []string{"points"}, g.metric+">+0.5points"
	case m.Differs():
		want, valid = []string{""}, g.metric+">+2"
	}
	if !slices.Contains(want, g.form) {
		return fmt.Errorf("%w %q: %s is compared %s (valid: %s)", ErrGate, g.Text, g.metric,
			map[bool]string{true: "by difference", false: "by ratio"}[m.Differs()], valid)
	}
	return nil
}

// Found is the finding of a gate about a change.
type Found struct {
	Gate   Gate
	Change *measure.Change
	// Finding is Holds if the gate fails because of the change. It is CannotTell if the change may or may not be beyond
	// the bound of an expression.
	Finding measure.Finding
}

// Judge applies gates to every comparison and fills Found. The bounds of all expressions are one family for Holm's
// procedure: see [measure.Exceed]. The error wraps [ErrGate].
func (l Comparisons) Judge(gates []Gate) error {
	metrics := map[string]measure.Metric{}
	var names []string
	for _, c := range l {
		for i := range c.Changes {
			m := c.Changes[i].About
			if _, known := metrics[m.Name]; !known && m.Compares() {
				names = append(names, m.Name)
			}
			metrics[m.Name] = m
		}
	}
	for _, g := range gates {
		if g.word != "" {
			continue
		}
		m, known := metrics[g.metric]
		if !known {
			return fmt.Errorf("%w %q: the runs have no metric %q (known: %s)", ErrGate, g.Text, g.metric,
				Printable(strings.Join(names, ", ")))
		}
		if err := g.fits(m); err != nil {
			return err
		}
	}
	var bounds []measure.Bound
	type place struct{ c, at int }
	var places []place
	for i, c := range l {
		c.gates, c.Found = gates, nil
		for _, g := range gates {
			for k := range c.Changes {
				x := &c.Changes[k]
				f := Found{Gate: g, Change: x, Finding: measure.DoesNotHold}
				switch g.word {
				case gateSlower, gateWorse, gateToll:
					switch {
					case !x.Primary || g.word == gateToll && x.Cell.Baseline == "":
						continue
					case x.Worse():
						f.Finding = measure.Holds
					case x.SeemsWorse():
						f.Finding = measure.CannotTell
					default:
						continue
					}
				case gateUndecided:
					if !x.Primary || !Undecided(x) {
						continue
					}
					f.Finding = measure.Holds
				case gateLeak:
					if !x.Primary || x.New == nil || x.New.Verdict != measure.Leaks {
						continue
					}
					f.Finding = measure.Holds
				default:
					if x.Metric != g.metric || x.Verdict == measure.IsTwin || x.Verdict == measure.IsProbed ||
						x.Verdict.Failed() {
						continue
					}
					bounds = append(bounds, measure.Bound{Change: x, At: g.at, Above: g.above})
					places = append(places, place{i, len(c.Found)})
				}
				c.Found = append(c.Found, f)
			}
		}
	}
	found := measure.Exceed(bounds)
	for i, p := range places {
		l[p.c].Found[p.at].Finding = found[i]
	}
	if !slices.ContainsFunc(gates, func(g Gate) bool { return g.word == gateUndecided }) {
		return nil
	}
	for _, p := range places { // "undecided" also applies to expressions
		c := l[p.c]
		if f := c.Found[p.at]; f.Finding == measure.CannotTell && !slices.ContainsFunc(c.Found, func(o Found) bool {
			return o.Change == f.Change && o.Gate.word == gateUndecided
		}) {
			c.Found = append(c.Found, Found{Gate{Text: gateUndecided, word: gateUndecided}, f.Change, measure.Holds})
		}
	}
	return nil
}

// Undecided reports whether a change is not decided.
func Undecided(c *measure.Change) bool {
	undecided := []measure.Verdict{measure.NotPrecise, measure.TooNoisy, measure.TooFew}
	return c.Unsure != "" || slices.Contains(undecided, c.Verdict)
}

// Gated reports whether gates decide if the comparison fails, instead of [Compared.Worse].
func (c *Compared) Gated() bool { return len(c.gates) > 0 }

// fewNamed is the number of changes that an error names at most.
const fewNamed = 3

// Failures returns a text for each gate that fails, with the reason and the comparisons.
func (l Comparisons) Failures() []string {
	return l.gated(measure.Holds, func(c *Compared, g Gate, named string, n, _ int) string {
		switch g.word {
		case gateSlower, gateWorse, gateToll:
			return fmt.Sprintf("--fail-on %s: %d of the cells in %q are worse than in %q: %s", g.Text, n, c.NewDir, c.OldDir,
				named)
		case gateUndecided:
			return fmt.Sprintf("--fail-on %s: %d of the cells in %q cannot be told from %q: %s", g.Text, n, c.NewDir,
				c.OldDir, named)
		case gateLeak:
			return fmt.Sprintf("--fail-on %s: %d of the cells in %q leak: %s", g.Text, n, c.NewDir, named)
		}
		return fmt.Sprintf("--fail-on %q: %s in %q beyond it, against %q: %s", g.Text, Count(n, "cell", "cells"),
			c.NewDir, c.OldDir, named)
	})
}

// Untold returns a text for each gate with an undecided expression or baseline, with the number of comparisons.
func (l Comparisons) Untold() []string {
	return l.gated(measure.CannotTell, func(c *Compared, g Gate, named string, n, of int) string {
		if g.word != "" { // the only cells of such a gate are those that are worse or seem to be
			return fmt.Sprintf("--fail-on %s: cannot be told of %s in %q, which the load of the machine may explain "+
				"(--fail-on undecided fails then): %s", g.Text, Count(n, "baseline", "baselines"), c.NewDir, named)
		}
		return fmt.Sprintf("--fail-on %q: cannot be told of %d of %s in %q (--fail-on undecided fails then): %s", g.Text, n,
			Count(of, "cell", "cells"), c.NewDir, named)
	})
}

// gated returns the text of say for each gate and pair of runs with at least one such finding.
func (l Comparisons) gated(what measure.Finding,
	say func(c *Compared, g Gate, named string, n, of int) string,
) []string {
	var list []string
	for _, c := range l {
		for _, g := range c.gates {
			var named []string
			n, of := 0, 0
			for _, f := range c.Found {
				if f.Gate.Text != g.Text {
					continue
				}
				of++
				if f.Finding != what {
					continue
				}
				if n++; n <= fewNamed {
					named = append(named, f.Named())
				}
			}
			if n > fewNamed {
				named = append(named, fmt.Sprintf("and %d more", n-fewNamed))
			}
			if n > 0 {
				list = append(list, say(c, g, strings.Join(named, "; "), n, of))
			}
		}
	}
	return list
}

// Named returns the change's name and size: "bridge/…, latency p50 +21.0 % (95 % interval +19.8 to +22.2 %)".
func (f Found) Named() string { return Named(f.Change) }

// Named returns the name and size of a change. For a baseline whose ratios are compared, it is the change of its value.
func Named(c *measure.Change) string {
	point, interval := Change(&c.Row)
	if c.Verdict == measure.IsBaseline {
		point, interval = Own(c)
	}
	text := Printable(c.Cell.ID) + ", " + Label(c.About)
	if point == "" {
		return text
	}
	return fmt.Sprintf("%s %s (95 %% interval %s)", text, point, interval)
}

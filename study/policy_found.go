package study

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/measure"
)

// Policies are the results of the study of policies.
type Policies struct {
	Plan    PolicyPlan
	Cluster map[string]any // its context, version and network plugins
	Nodes   []string
	Rounds  int // completed rounds
	Values  []PolicyValue
	// Survivals are what became of established flows.
	Survivals []Survival
	// Unenforced are the directions in which nothing was refused.
	Unenforced []kubernetes.Direction
	// Controls are fresh pods that no policy is about, and Births those that one is about.
	Controls, Births []kubernetes.Newborn
	Failed           []string // visits without values, each with the reason
}

// A PolicyValue is the result of one round, in base units.
type PolicyValue struct {
	Round      int                  `json:"round"` // from 1
	Direction  kubernetes.Direction `json:"direction"`
	Rules      int                  `json:"rules"`
	Metric     string               `json:"metric"`
	Value      float64              `json:"value"`
	Resolution float64              `json:"resolution"` // the value may be off by so much
	// Answer is how long the API's answer took. The cluster may have known of the change so much earlier, so a value may
	// be below zero.
	Answer float64 `json:"answer"`
}

// A Survival is what became of an established flow when a policy came that refuses new ones.
type Survival struct {
	Round     int                  `json:"round"` // from 1
	Direction kubernetes.Direction `json:"direction"`
	Kind      kubernetes.FlowKind  `json:"kind"`
	// WentOn says that it still went on when it was no longer watched.
	WentOn bool `json:"went_on"`
	// For is how long it went on after the API's answer, in s, and Resolution by how much that may be off; 0 if it went
	// on.
	For        float64 `json:"for"`
	Resolution float64 `json:"resolution"`
}

// A PolicyFigure sums up the rounds of a direction with a number of rules in one metric, in base units.
type PolicyFigure struct {
	Direction kubernetes.Direction `json:"direction"`
	Rules     int                  `json:"rules"`
	Metric    string               `json:"metric"`
	Unit      string               `json:"unit"`
	Mean      float64              `json:"mean"`
	// Lo and Hi are the 95 % interval of the mean; nil after one round.
	Lo         *float64 `json:"lo,omitempty"`
	Hi         *float64 `json:"hi,omitempty"`
	Median     float64  `json:"median"`
	Least      float64  `json:"least"`
	Most       float64  `json:"most"`
	Resolution float64  `json:"resolution"` // the largest one of a round
	Rounds     int      `json:"rounds"`
}

// An Exposure is what got through to or from fresh pods although a policy refuses it.
type Exposure struct {
	Direction kubernetes.Direction `json:"direction"`
	Pods      int                  `json:"pods"`
	// Exposed is the number of pods with at least one datagram that got through.
	Exposed int `json:"exposed"`
	// Lo and Hi are the 95 % interval of the share of exposed pods.
	Lo        float64 `json:"lo"`
	Hi        float64 `json:"hi"`
	Datagrams int     `json:"datagrams"` // that got through
	// Median and Most are when the last datagram got through, in s after the start of its pod: of exposed pods.
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
	// Open is the number of pods whose last datagram got through within the last half second of their life.
	Open int `json:"open"`
	// Seen is when the first datagram of a pod got through that no policy is about, in s after its start: the median.
	// What is earlier is not seen.
	Seen float64 `json:"seen"`
}

// atEnd is how long before the end of its life the last datagram of a pod may get through that is still exposed, in s.
const atEnd = 0.5

func (p *Policies) note(v PolicyValue) { p.Values = append(p.Values, v) }

// enforced says whether something was refused in a direction.
func (p *Policies) enforced(d kubernetes.Direction) bool {
	return slices.ContainsFunc(p.Values, func(v PolicyValue) bool { return v.Direction == d })
}

// Figures sums up the rounds: a figure for each metric, direction and number of rules that has a value.
func (p *Policies) Figures() []PolicyFigure {
	var list []PolicyFigure
	for _, m := range PolicyMetrics() {
		for _, direction := range directions() {
			for _, rules := range p.Plan.Rules {
				f := PolicyFigure{Direction: direction, Rules: rules, Metric: m.Name, Unit: m.Unit}
				var rounds [][]float64
				var values []float64
				for _, v := range p.Values {
					if v.Direction != direction || v.Rules != rules || v.Metric != m.Name {
						continue
					}
					f.Resolution = max(f.Resolution, v.Resolution)
					rounds, values = append(rounds, []float64{v.Value}), append(values, v.Value)
				}
				if len(rounds) == 0 {
					continue
				}
				f.Median, f.Least, f.Most = measure.Median(values), slices.Min(values), slices.Max(values)
				e, err := measure.EstimateDifference(rounds) // to 0: rounds are its generations
				if f.Mean, f.Rounds = e.Points, len(rounds); err == nil {
					f.Lo, f.Hi = &e.Lo, &e.Hi
				}
				list = append(list, f)
			}
		}
	}
	return list
}

// Exposures sums up the fresh pods, by direction.
func (p *Policies) Exposures() []Exposure {
	if len(p.Births) == 0 {
		return nil
	}
	list := make([]Exposure, 0, len(directions()))
	life := p.Plan.Life + p.Plan.Late
	for _, direction := range directions() {
		passed := func(n kubernetes.Newborn) kubernetes.Passed {
			if direction == kubernetes.Egress {
				return n.Egress
			}
			return n.Ingress
		}
		e := Exposure{Direction: direction, Pods: len(p.Births)}
		var lasts, firsts []float64
		for _, n := range p.Births {
			if one := passed(n); one.Arrived > 0 {
				e.Exposed++
				e.Datagrams += one.Arrived
				lasts = append(lasts, one.Last)
				if one.Last > life.Seconds()-atEnd {
					e.Open++
				}
			}
		}
		for _, n := range p.Controls {
			firsts = append(firsts, passed(n).First)
		}
		e.Lo, e.Hi = measure.ClopperPearson(e.Exposed, e.Pods, 1-measure.Level)
		if len(lasts) > 0 {
			e.Median, e.Most = measure.Median(lasts), slices.Max(lasts)
		}
		if len(firsts) > 0 {
			e.Seen = measure.Median(firsts)
		}
		list = append(list, e)
	}
	return list
}

// Text writes a table for each metric, sentences about established flows, and a table of fresh pods.
func (p *Policies) Text(w io.Writer) error {
	var b strings.Builder
	if p.Cluster != nil {
		fmt.Fprintf(&b, "Cluster %v, Kubernetes %v", p.Cluster["cluster"], p.Cluster["kubernetes"])
		if plugins, ok := p.Cluster["network_plugins"].([]string); ok {
			fmt.Fprintf(&b, ", %s", strings.Join(plugins, ", "))
		}
		fmt.Fprintf(&b, "; flows from node %s, a message each %v.\n\n", strings.Join(p.Nodes, " to "), p.Plan.Every)
	}
	for _, d := range p.Unenforced {
		fmt.Fprintf(&b, "Not enforced: %s. %v after the API's answer to a policy that refuses everything, nothing was "+
			"refused.\n", d, p.Plan.Patience)
	}
	p.figures(&b)
	p.established(&b)
	p.exposed(&b)
	for _, text := range p.Failed {
		fmt.Fprintf(&b, "Failed: %s.\n", text)
	}
	if len(p.Unenforced) < len(directions()) && p.Rounds < p.Plan.Rounds {
		fmt.Fprintf(&b, "Only %d of %d rounds were completed.\n", p.Rounds, p.Plan.Rounds)
	}
	if len(p.Unenforced) < len(directions()) && len(p.Births) < p.Plan.Pods {
		fmt.Fprintf(&b, "Only %d of %d fresh pods were measured.\n", len(p.Births), p.Plan.Pods)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// figures writes a table for each metric.
func (p *Policies) figures(b *strings.Builder) {
	all, widest := p.Figures(), 0
	for _, f := range all {
		widest = max(widest, len(visit{f.Direction, f.Rules}.String()))
	}
	for _, m := range PolicyMetrics() {
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
		some := false
		for _, f := range all {
			if f.Metric != m.Name {
				continue
			}
			if !some {
				fmt.Fprintf(b, "%s: %s\n", m.Name, m.Summary)
				fmt.Fprintf(t, "%s\tmean\t95 %% from\tto\tmedian\tleast\tmost\t± at most\trounds\t\n", left("", widest))
				some = true
			}
			at := func(x float64) string { return show(x, f.Unit) }
			from, to := "–", "–"
			if f.Lo != nil && f.Hi != nil {
				from, to = at(*f.Lo), at(*f.Hi)
			}
			name := left(visit{f.Direction, f.Rules}.String(), widest)
			off := at(f.Resolution)
			if f.Resolution == 0 {
				off = "–"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", name, at(f.Mean), from, to, at(f.Median),
				at(f.Least), at(f.Most), off, f.Rounds)
		}
		if some {
			_ = t.Flush() // to memory
			b.WriteByte('\n')
		}
	}
}

// established says what became of established flows.
func (p *Policies) established(b *strings.Builder) {
	names := map[kubernetes.FlowKind]string{kubernetes.FlowUDP: "UDP", kubernetes.FlowTCP: "TCP"}
	some := false
	for _, direction := range directions() {
		for _, kind := range lasting() {
			var went, all int
			var ends []float64
			off := 0.0
			for _, s := range p.Survivals {
				if s.Direction != direction || s.Kind != kind {
					continue
				}
				all++
				if s.WentOn {
					went++
				} else {
					ends, off = append(ends, s.For), max(off, s.Resolution)
				}
			}
			if all == 0 {
				continue
			}
			some = true
			fmt.Fprintf(b, "Established %s flow, %s refused:", names[kind], direction)
			if went > 0 {
				fmt.Fprintf(b, " It went on in %d of %d rounds, until it was no longer watched (%v after new flows were refused).",
					went, all, p.Plan.Follow)
			}
			if len(ends) > 0 {
				fmt.Fprintf(b, " It ended in %d of %d rounds, %s to %s after the API's answer (± %s).", len(ends), all,
					show(slices.Min(ends), measure.UnitSecond), show(slices.Max(ends), measure.UnitSecond),
					show(off, measure.UnitSecond))
			}
			b.WriteByte('\n')
		}
	}
	if some {
		b.WriteByte('\n')
	}
}

// exposed writes the table of fresh pods.
func (p *Policies) exposed(b *strings.Builder) {
	all := p.Exposures()
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "Fresh pods: what got through ")
	if p.Plan.Late > 0 {
		fmt.Fprintf(b, "before and after a policy was made, %v after they ran\n", p.Plan.Late)
	} else {
		fmt.Fprintf(b, "although a policy refused it that was there before them\n")
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tpods\texposed\t95 %% from\tto\tdatagrams\tlast: median\tmost\t\n", left("", len("ingress")))
	share := func(x float64) string { return measure.Format(x, measure.UnitShare) }
	for _, e := range all {
		median, most := "–", "–"
		if e.Exposed > 0 {
			median, most = show(e.Median, measure.UnitSecond), show(e.Most, measure.UnitSecond)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%d\t%s\t%s\t\n", left(string(e.Direction), len("ingress")), e.Pods, e.Exposed,
			share(e.Lo), share(e.Hi), e.Datagrams, median, most)
	}
	_ = t.Flush() // to memory
	for _, e := range all {
		if e.Open > 0 {
			fmt.Fprintf(b, "%s: %d of %d pods were still exposed at the end of their life (%v).\n", e.Direction, e.Open, e.Pods,
				p.Plan.Life+p.Plan.Late)
		}
	}
	fmt.Fprintf(b, "Times count from the first instruction of a pod, by its clock; datagrams are sent each %v.\n",
		p.Plan.Every)
	fmt.Fprintf(b, "Of %d pods without a policy the first datagram arrived", len(p.Controls))
	for i, e := range all {
		and, where := "", "at"
		if i > 0 {
			and = " and"
		}
		if e.Direction == kubernetes.Egress {
			where = "from"
		}
		fmt.Fprintf(b, "%s %s them after %s", and, where, show(e.Seen, measure.UnitSecond))
	}
	b.WriteString(" (medians): what is earlier is not seen.\n\n")
}

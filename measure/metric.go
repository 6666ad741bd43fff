package measure

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Better is the direction of a metric that counts as an improvement.
type Better string

// Directions.
const (
	HigherBetter Better = "higher"
	LowerBetter  Better = "lower"
	Neither      Better = "neither"
)

// Kind says how a metric is summarised and compared.
type Kind string

// Kinds. KindShare and KindCount are compared by difference, because they are often 0, and a ratio to 0 has no meaning.
// KindMax is not compared. All others are compared by ratio.
const (
	KindRate     Kind = "rate"
	KindQuantile Kind = "quantile" // of latency, over groups of blocks with enough samples
	KindMean     Kind = "mean"     // of latency
	KindMax      Kind = "max"      // of latency: the largest of all trials, without a comparison
	KindTime     Kind = "time"     // a duration measured once in a trial
	KindShare    Kind = "share"
	KindCount    Kind = "count"
	KindCPU      Kind = "cpu"
	KindMemory   Kind = "memory"
	KindUnknown  Kind = "unknown" // a metric of a newer nettoll: shown and compared by ratio, never called better or worse
)

// Metric describes one metric name. The part that makes a metric declares it; run.json carries the declarations of a
// run.
type Metric struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Better   Better  `json:"better"`
	Kind     Kind    `json:"kind"`
	Quantile float64 `json:"quantile,omitempty"` // of KindQuantile: 0.5 for p50, 0.999 for p999
	// Merged is true if the value comes from merged histograms alone, not from trials. This holds for all quantiles.
	Merged bool `json:"merged,omitempty"`
	// Tool is true if the figure is about nettoll itself, such as the time between two trials, and not about a stack.
	Tool    bool   `json:"tool,omitempty"`
	Label   string `json:"label,omitempty"`   // the name in tables; if empty, Name with spaces
	Summary string `json:"summary,omitempty"` // one sentence, without its full stop
	// Note explains the figures of labs to readers of their table, in whole sentences; several metrics may have the same
	// one. It is "" if label and summary suffice.
	Note  string `json:"note,omitempty"`
	Order int    `json:"order"` // its place in views, ascending; [Version2] has 10, 20, …
}

// Differs reports whether cells are compared by difference in this metric, instead of by ratio.
func (m Metric) Differs() bool { return m.Kind == KindShare || m.Kind == KindCount }

// Compares reports whether a cell has a verdict in this metric. Metrics of nettoll itself have none. Neither have
// maxima, because they grow with the number of samples.
func (m Metric) Compares() bool { return !m.Tool && m.Kind != KindMax }

// Speed reports whether the words faster and slower fit: for rates and times, but not for shares, CPU or memory.
func (m Metric) Speed() bool {
	switch m.Kind {
	case KindRate, KindQuantile, KindMean, KindMax, KindTime:
		return m.Better != Neither
	default:
		return false
	}
}

// A Declarer is a kind of parts that declares metrics.
type Declarer interface {
	Metrics() []Metric
}

// A Vocabulary holds the metrics of a run or of a catalogue, in the order of views. The zero value holds none.
type Vocabulary struct {
	list []Metric
	at   map[string]int
}

// NewVocabulary returns a vocabulary of the declared metrics. Several parts may declare the same metric. The error
// names a metric with an incomplete declaration, or one with two meanings.
func NewVocabulary(declared ...Metric) (Vocabulary, error) {
	v := Vocabulary{at: map[string]int{}}
	known := map[string]Metric{}
	for _, m := range declared {
		if m.Name == "" || m.Unit == "" || m.Better == "" || m.Kind == "" || (m.Kind == KindQuantile) != (m.Quantile > 0) {
			return Vocabulary{}, fmt.Errorf("metric %q: the declaration is incomplete: %+v", m.Name, m)
		}
		if other, twice := known[m.Name]; twice {
			if other != m {
				return Vocabulary{}, fmt.Errorf("metric %q has two meanings: %+v and %+v", m.Name, other, m)
			}
			continue
		}
		known[m.Name] = m
		v.list = append(v.list, m)
	}
	slices.SortStableFunc(v.list, func(x, y Metric) int { return cmp.Compare(x.Order, y.Order) })
	for i, m := range v.list {
		v.at[m.Name] = i
	}
	return v, nil
}

// All returns the metrics in the order of views.
func (v Vocabulary) All() []Metric { return slices.Clone(v.list) }

// Sorted returns names of metrics in the order of views, with unknown ones at the end.
func (v Vocabulary) Sorted(names iter.Seq[string]) []string {
	rank := func(name string) int {
		if i, known := v.at[name]; known {
			return i
		}
		return len(v.list)
	}
	return slices.SortedFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x, y))
	})
}

// Lookup returns the description of a metric. A quantile that is not declared (latency_p9999) has the description of
// the p50 of its duration. For any other unknown name, ok is false and the description is of KindUnknown.
func (v Vocabulary) Lookup(name string) (m Metric, ok bool) {
	if i, known := v.at[name]; known {
		return v.list[i], true
	}
	at := strings.LastIndex(name, "_p")
	if at < 0 {
		return unknown(name), false
	}
	digits := name[at+len("_p"):]
	i, known := v.at[name[:at]+"_p50"]
	if q, err := strconv.ParseFloat("0."+digits, 64); known && err == nil && q > 0 &&
		strings.Trim(digits, "0123456789") == "" {
		m = v.list[i]
		m.Name, m.Quantile = name, q
		return m, true
	}
	return unknown(name), false
}

func unknown(name string) Metric { return Metric{Name: name, Better: Neither, Kind: KindUnknown} }

// Vocabulary returns the metrics that a run's records may hold: those that run.json declares, or else [Version2].
func (r *Run) Vocabulary() Vocabulary {
	old := Version2()
	declared := slices.Clone(r.Metrics)
	if len(declared) == 0 {
		declared = old.All()
	}
	noted := slices.ContainsFunc(declared, func(m Metric) bool { return m.Note != "" })
	for i, m := range declared { // older versions of nettoll did not record Tool and Note
		known, _ := old.Lookup(m.Name)
		declared[i].Tool = m.Tool || known.Tool
		if !noted {
			declared[i].Note = version2Note(m.Name)
		}
	}
	if v, err := NewVocabulary(declared...); err == nil {
		return v
	}
	return old
}

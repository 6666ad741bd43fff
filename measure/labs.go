package measure

import (
	"iter"
	"slices"
)

// LabFigure is the cost, in one metric, of building a lab or changing the rules in it.
type LabFigure struct {
	Lab       string
	Container string // the only one that the figure is of: "host1/src0"; "" for the lab
	Metric    string
	Unit      string
	// Value is the median over generations, Least and Most are the smallest and the largest, all in Unit.
	Value, Least, Most float64
	Generations        int // number of generations that have a value
}

// LabFigures sums up the lab records of one kind: those of labs that were built once more, or all others. Labs are in
// the order of their first record, and the metrics of each in the order of views.
func LabFigures(known Vocabulary, labs []LabRecord, rebuilt bool) []LabFigure {
	return figuresOf(known, func(yield func(LabFigure, map[string]float64) bool) {
		for _, l := range labs {
			if l.Rebuilt == rebuilt && !yield(LabFigure{Lab: l.Lab}, l.Metrics) {
				return
			}
		}
	})
}

// ContainerFigures sums up in the same way what lab records say of single containers.
func ContainerFigures(known Vocabulary, labs []LabRecord) []LabFigure {
	return figuresOf(known, func(yield func(LabFigure, map[string]float64) bool) {
		for _, l := range labs {
			for _, c := range l.Containers {
				if !yield(LabFigure{Lab: l.Lab, Container: c.Host + "/" + c.Name}, c.Metrics) {
					return
				}
			}
		}
	})
}

// figuresOf sums up metrics of labs or containers, which figures without values name.
func figuresOf(known Vocabulary, records iter.Seq2[LabFigure, map[string]float64]) []LabFigure {
	var order []LabFigure
	values := map[LabFigure]map[string][]float64{}
	for of, metrics := range records {
		if values[of] == nil {
			order = append(order, of)
			values[of] = map[string][]float64{}
		}
		for name, x := range metrics {
			values[of][name] = append(values[of][name], x)
		}
	}
	var list []LabFigure
	for _, of := range order {
		for _, m := range known.list {
			x := values[of][m.Name]
			if len(x) == 0 {
				continue
			}
			f := of
			f.Metric, f.Unit, f.Generations = m.Name, m.Unit, len(x)
			f.Value, f.Least, f.Most = Median(x), slices.Min(x), slices.Max(x)
			list = append(list, f)
		}
	}
	return list
}

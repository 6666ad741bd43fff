package measure

import "slices"

// LabFigure is the cost, in one metric, of building a lab or changing the rules in it.
type LabFigure struct {
	Lab    string
	Metric string
	Unit   string
	// Value is the median over generations, Least and Most are the smallest and the largest, all in Unit.
	Value, Least, Most float64
	Generations        int // number of generations that have a value
}

// LabFigures sums up the lab records of one kind: those of labs that were built once more, or all others. Labs are in
// the order of their first record, and the metrics of each in the order of views.
func LabFigures(known Vocabulary, labs []LabRecord, rebuilt bool) []LabFigure {
	var order []string
	values := map[string]map[string][]float64{}
	for _, l := range labs {
		if l.Rebuilt != rebuilt {
			continue
		}
		if values[l.Lab] == nil {
			order = append(order, l.Lab)
			values[l.Lab] = map[string][]float64{}
		}
		for name, x := range l.Metrics {
			values[l.Lab][name] = append(values[l.Lab][name], x)
		}
	}
	var list []LabFigure
	for _, lab := range order {
		for _, m := range known.list {
			x := values[lab][m.Name]
			if len(x) == 0 {
				continue
			}
			list = append(list, LabFigure{
				Lab: lab, Metric: m.Name, Unit: m.Unit, Value: Median(x), Least: slices.Min(x), Most: slices.Max(x),
				Generations: len(x),
			})
		}
	}
	return list
}

package experiment

// Only returns what of an experiment happens in one of its labs, by index: that lab, and its cells.
func (r *Resolved) Only(lab int) *Resolved {
	only := &Resolved{Experiment: r.Experiment, Metrics: r.Metrics, Probe: r.Probe, Labs: []Lab{r.Labs[lab]}}
	for _, v := range r.Visits {
		if r.Cells[v.Cells[0]].Lab != lab {
			continue // all cells of a visit are in one lab
		}
		visit := Visit{ID: v.ID}
		for _, i := range v.Cells {
			cell := r.Cells[i]
			cell.Lab, cell.Visit = 0, len(only.Visits)
			visit.Cells = append(visit.Cells, len(only.Cells))
			only.Cells = append(only.Cells, cell)
		}
		only.Visits = append(only.Visits, visit)
	}
	return only
}

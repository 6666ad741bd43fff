package experiment

import "slices"

// Only returns the part of an experiment that happens in one of its labs, by index: that lab and its cells.
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

// Keep returns an experiment that measures only some cells, given by id, and the cells that they need: their baselines
// and twins, the same cells with a probe, and members of mixes with the others and alone. It ignores ids without a
// cell. The returned experiment records the choice: resolved again, it has the same cells.
func (r *Resolved) Keep(ids []string) *Resolved {
	kept := *r
	kept.Experiment.Only = ids
	kept.Cells, kept.Labs, kept.Visits = nil, nil, nil
	wanted, groups, visits := map[string]bool{}, map[string]bool{}, map[int]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	for _, c := range r.Cells {
		if wanted[c.ID] || wanted[c.Unprobed] || wanted[c.Alone] {
			groups[c.Group], visits[c.Visit] = true, true
		}
	}
	for _, c := range r.Cells {
		if groups[c.Group] && (c.Baseline == "" || c.Twin) {
			visits[c.Visit] = true
		}
	}
	labs := map[int]int{}
	for i, l := range r.Labs {
		if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Lab == i && visits[c.Visit] }) {
			labs[i], kept.Labs = len(kept.Labs), append(kept.Labs, l)
		}
	}
	places := map[int]int{} // of visits, to which cells refer
	for i, v := range r.Visits {
		if visits[i] {
			places[i], kept.Visits = len(kept.Visits), append(kept.Visits, Visit{ID: v.ID})
		}
	}
	for _, c := range r.Cells {
		if !visits[c.Visit] {
			continue
		}
		c.Lab, c.Visit = labs[c.Lab], places[c.Visit]
		v := &kept.Visits[c.Visit]
		v.Cells, kept.Cells = append(v.Cells, len(kept.Cells)), append(kept.Cells, c)
	}
	return &kept
}

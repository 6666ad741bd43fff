package measure

// limits puts into the rows of primary metrics what most of their cells' trials say kept them from being higher.
func (a *analyzer) limits() {
	for i := range a.out.Rows {
		r := &a.out.Rows[i]
		if r.Metric != r.Cell.Primary {
			continue
		}
		trials := a.cells[a.byID[r.Cell.ID]].trials
		said := map[string]int{}
		for _, t := range trials {
			if t.Limit != "" {
				said[t.Limit]++
			}
		}
		for _, limit := range sortedKeys(said) {
			if share := float64(said[limit]) / float64(len(trials)); share > r.LimitShare {
				r.Limit, r.LimitShare = limit, share
			}
		}
	}
}

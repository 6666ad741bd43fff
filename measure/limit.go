package measure

// limits fills Limit and LimitShare of the rows of primary metrics.
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

package measure

// ProbeCost is the cost of a probe: a cell with it against the same cell without it, in the primary metric and in the
// same blocks.
type ProbeCost struct {
	Cell   *Cell // with the probe; Cell.Unprobed is the one without
	Metric string
	Unit   string
	Effect // with / without, with − without
}

// probes finds the cost of the probe for each cell that has it. The cost of a cell with too few measurements has no
// estimate.
func (a *analyzer) probes() {
	for i := range a.cells {
		cell := &a.run.Cells[i]
		other, ok := a.byID[cell.Unprobed]
		if cell.Probe == "" || !ok {
			continue
		}
		m, _ := a.known.Lookup(cell.Primary)
		p := ProbeCost{Cell: cell, Metric: m.Name, Unit: m.Unit}
		_, ratios := a.cells[i].compare(&a.cells[other], m)
		if m.Differs() {
			d, err := EstimateDifference(withoutCut(ratios))
			p.Difference, p.HasDifference = d, err == nil
		} else {
			e, err := EstimateRatio(withoutCut(ratios))
			p.Estimate, p.HasRatio = e, err == nil
		}
		a.out.Probes = append(a.out.Probes, p)
	}
}

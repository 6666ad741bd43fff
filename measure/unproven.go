package measure

// Names of claims. See [Proof.Name].
const (
	// Hidden is that an observer on the wire cannot read what containers send.
	Hidden = "hidden"
	// Sampled is that samples of what a filter must refuse did not arrive between blocks.
	Sampled = "sampled"
)

// Leaks reports whether a claim did not hold because a packet was seen that it forbids, or because content could be
// read. A claim that could not be tried does not show a leak.
func (p Proof) Leaks() bool {
	switch {
	case p.OK:
	case p.Name == Hidden || p.Name == MatrixLeaks:
		return len(p.Tried) > 0
	case p.Name == provedRefuses: // it also fails if a try could not be made
		return sum(p.Seen) < sum(p.Tried)
	case p.Name == Sampled:
		return true
	}
	return false
}

// labIn is a lab in a generation.
type labIn struct {
	lab        string
	generation int
}

func labOf(c *Cell, generation int) labIn { return labIn{c.Lab, generation} }

// judgeProofs finds the labs for whose generations a claim did not hold. Their figures do not count: for all or part of
// the generation, the measured lab was not what the stack claims. A lab leaks if a proof read its content on the wire,
// if a packet arrived that its filter must refuse, or if an attack got through that it claims to withstand.
func (a *analyzer) judgeProofs() {
	a.unproven, a.leaks = map[labIn]bool{}, map[string]bool{}
	for _, p := range a.log.Proofs {
		if p.OK {
			continue
		}
		a.unproven[labIn{p.Lab, p.Generation}] = true
		if p.Leaks() {
			a.leaks[p.Lab] = true
		}
	}
	for i := range a.log.Attacks { // its trials have their figures: it was a stack that does not do what it claims
		if x := &a.log.Attacks[i]; x.Broken() {
			a.leaks[x.Lab] = true
		}
	}
}

// leaky returns [Leaks] if the lab of a cell leaks, and otherwise "".
func (a *analyzer) leaky(c *Cell) Verdict {
	if a.leaks[c.Lab] {
		return Leaks
	}
	return ""
}

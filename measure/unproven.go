package measure

// Hidden is the name of the claim that nobody on the wire can read what containers send. See [Proof.Name].
const Hidden = "hidden"

// labIn is a lab in a generation.
type labIn struct {
	lab        string
	generation int
}

func labOf(c *Cell, generation int) labIn { return labIn{c.Lab, generation} }

// judgeProofs finds the labs in whose generations a claim did not hold. Their figures do not count: what was measured
// is not what the stack says, for all or for a part of the generation. A lab of which something was read on the wire,
// or in which a packet arrived that its filter must refuse, leaks. A claim that could not be tried shows no leak.
func (a *analyzer) judgeProofs() {
	a.unproven, a.leaks = map[labIn]bool{}, map[string]bool{}
	for _, p := range a.log.Proofs {
		if p.OK {
			continue
		}
		a.unproven[labIn{p.Lab, p.Generation}] = true
		if (p.Name == Hidden || p.Name == MatrixLeaks) && len(p.Tried) > 0 {
			a.leaks[p.Lab] = true
		}
	}
}

// leaky returns [Leaks] if the lab of a cell does, and else nothing.
func (a *analyzer) leaky(c *Cell) Verdict {
	if a.leaks[c.Lab] {
		return Leaks
	}
	return ""
}

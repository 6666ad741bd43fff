package measure

import (
	"slices"
)

// Held says whether something that a lab claims held, over all times at which it was proved.
type Held string

// What can be said of a claim.
const (
	HeldAlways Held = "holds"
	HeldNot    Held = "broken"
	NotClaimed Held = "not claimed"
	HeldUntold Held = "cannot be told"
	NotProved  Held = "not tried"
)

// A ProvedLab is what the proofs of a run say of one lab, all times together.
type ProvedLab struct {
	Lab      string
	Filtered bool
	// Allowed is that what is on the list arrives, Refused that nothing else does, Others are all other claims.
	Allowed, Refused, Others Held
	// Inside and Wire are what came of attacks from inside its containers and from the wire between its hosts. Attacked is
	// that attacks were made, and NotAttacked why the lab was not attacked; "" if the run was to make no attacks.
	Inside, Wire Withstood
	Attacked     bool
	NotAttacked  string
	// Untold is why some attacks say nothing, and Holes are what arrived of those that the lab claims to withstand.
	Untold []Untold
	Holes  []string
	// Broken names the claims that did not hold.
	Broken []string
	// Tried is how many tries of the matrix were made, of how many, over all times.
	Tried, Of int
	// NotTried says what was not tried and why, and Unknown why it cannot be told what came of some tries or whether a
	// claim held; both without repetition.
	NotTried, Unknown []string
	// Unsent is how many of those tries the rights of containers refused, and UnsentKinds what they were.
	Unsent      int
	UnsentKinds []string
	// Reached is who reached whom: the most remarkable result of all times. Nil if it was not tried.
	Reached *Matrix
}

// Confined says what the rights of the containers refused to send, "" if nothing.
func (p *ProvedLab) Confined() string { return confined(p.Unsent, p.UnsentKinds) }

// Names of claims that are about what a filter lets in, and keeps out.
const (
	provedPasses  = "passes"
	provedRefuses = "refuses"
)

// Proved returns what the proofs and attacks say of each lab, in the order in which labs were proved; nil if the
// records have neither a matrix nor attacks, as those of older runs.
func (a *Analysis) Proved() []ProvedLab {
	if len(a.Matrices) == 0 && len(a.Attacks) == 0 {
		return nil
	}
	var list []ProvedLab
	of := func(lab string) *ProvedLab {
		i := slices.IndexFunc(list, func(p ProvedLab) bool { return p.Lab == lab })
		if i < 0 {
			i = len(list)
			list = append(list, ProvedLab{Lab: lab, Allowed: NotProved, Refused: NotProved, Others: NotProved})
		}
		return &list[i]
	}
	for i := range a.Matrices {
		of(a.Matrices[i].Lab).add(&a.Matrices[i])
	}
	for i := range a.Proofs {
		of(a.Proofs[i].Lab).prove(&a.Proofs[i])
	}
	for i := range a.Attacks {
		of(a.Attacks[i].Lab).attacked(&a.Attacks[i])
	}
	for i := range list {
		if p := &list[i]; !p.Filtered && p.Refused == NotProved {
			p.Refused = NotClaimed
		}
	}
	return list
}

// prove adds what came of a claim.
func (p *ProvedLab) prove(x *Proof) {
	to := &p.Others
	switch x.Name {
	case provedPasses, MatrixListed:
		to = &p.Allowed
	case provedRefuses, MatrixLeaks, Sampled:
		to = &p.Refused
	}
	switch {
	case !x.OK:
		*to = HeldNot
		if !slices.Contains(p.Broken, x.Name) {
			p.Broken = append(p.Broken, x.Name)
		}
	case *to == HeldNot:
	case x.Untold != "":
		*to = HeldUntold
		p.Unknown = with(p.Unknown, x.Untold)
	case *to == NotProved:
		*to = HeldAlways
	}
}

// with adds a reason to a list that has each once.
func with(list []string, reason string) []string {
	if reason == "" || slices.Contains(list, reason) {
		return list
	}
	return append(list, reason)
}

// add adds a matrix.
func (p *ProvedLab) add(m *Matrix) {
	p.Filtered = p.Filtered || m.Filtered
	p.NotTried = with(p.NotTried, m.NotTried)
	if m.NotTried != "" {
		return
	}
	p.Unknown = with(p.Unknown, m.Untold)
	for _, text := range m.Untried {
		p.NotTried = with(p.NotTried, text)
	}
	p.Unsent += m.unsent()
	for _, kind := range m.UnsentKinds {
		p.UnsentKinds = with(p.UnsentKinds, kind)
	}
	tried, of := m.All()
	p.Tried, p.Of = p.Tried+tried, p.Of+of
	if p.Reached == nil || !slices.Equal(p.Reached.To, m.To) { // the last counts, if they differ
		p.Reached = &Matrix{Lab: m.Lab, Filtered: m.Filtered, From: m.From, To: m.To, Cells: map[string][]string{}}
	}
	for family, rows := range m.Cells {
		known := p.Reached.Cells[family]
		merged := make([]string, len(rows))
		for i, row := range rows {
			cells := []byte(row)
			for k := range cells {
				if i < len(known) && k < len(known[i]) {
					cells[k] = byte(Reach(cells[k]).Worse(Reach(known[i][k])))
				}
			}
			merged[i] = string(cells)
		}
		p.Reached.Cells[family] = merged
	}
	for _, leak := range m.Leaks {
		if !slices.Contains(p.Reached.Leaks, leak) {
			p.Reached.Leaks = append(p.Reached.Leaks, leak)
		}
	}
	for _, missing := range m.Missing {
		if !slices.Contains(p.Reached.Missing, missing) {
			p.Reached.Missing = append(p.Reached.Missing, missing)
		}
	}
}

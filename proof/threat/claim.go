package threat

import "slices"

// A Claim is what a part says about an attack.
type Claim struct {
	Attack Attack `json:"attack"`
	// Withstood says that nothing of the attack gets through, because of this part.
	Withstood bool `json:"withstood"`
	// Why is the reason why the part does not claim that: a sentence without its full stop. It is "" of what is withstood.
	Why string `json:"why,omitempty"`
}

// Claims are what a part says, or all parts of a stack in the order of the stack.
type Claims []Claim

// Withstands claims that nothing of some attacks gets through.
func Withstands(attacks ...Attack) Claims {
	list := make(Claims, len(attacks))
	for i, a := range attacks {
		list[i] = Claim{Attack: a, Withstood: true}
	}
	return list
}

// Leaves says that the part does not claim to withstand some attacks, and why.
func Leaves(why string, attacks ...Attack) Claims {
	list := make(Claims, len(attacks))
	for i, a := range attacks {
		list[i] = Claim{Attack: a, Why: why}
	}
	return list
}

// Claimed says whether some part claims to withstand an attack.
func (c Claims) Claimed(a Attack) bool {
	return slices.ContainsFunc(c, func(one Claim) bool { return one.Attack == a && one.Withstood })
}

// Why returns the reasons why nobody claims to withstand an attack, each once. There is none if a part claims it.
func (c Claims) Why(a Attack) (reasons []string) {
	if c.Claimed(a) {
		return nil
	}
	for _, one := range c {
		if one.Attack == a && one.Why != "" && !slices.Contains(reasons, one.Why) {
			reasons = append(reasons, one.Why)
		}
	}
	return reasons
}

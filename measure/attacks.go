package measure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Attacks is the record of what came of attacks on a lab. A run that makes attacks writes one for each lab, after its
// last generation.
type Attacks struct {
	Type string `json:"type"` // "attacks"; set by Writer
	V    int    `json:"v"`
	// Generation is that of the lab. It is 0 if the lab was not measured: it was built once more to be attacked.
	Generation int      `json:"gen,omitempty"`
	Lab        string   `json:"lab"`
	Attacks    []Attack `json:"attacks,omitempty"`
	NotTried   string   `json:"not_tried,omitempty"` // why no attack was made
	Failed     string   `json:"failed,omitempty"`    // an error after attacks were made, which are judged all the same
	// Control names the same stack without its filter, and NoControl says why it was not attacked. WireControl and
	// NoWireControl are the same of the stack without its encryption.
	Control       string  `json:"control,omitempty"`
	NoControl     string  `json:"no_control,omitempty"`
	WireControl   string  `json:"wire_control,omitempty"`
	NoWireControl string  `json:"no_wire_control,omitempty"`
	Took          float64 `json:"took"` // s, without the attacks on controls
}

// An Attack is what came of one attack, over both families.
type Attack struct {
	Attack  string        `json:"attack"`
	Wire    bool          `json:"wire,omitempty"` // from the wire between hosts, otherwise from inside a container
	Claimed bool          `json:"claimed"`        // the stack claims that nothing of it arrives
	Verdict AttackVerdict `json:"verdict"`
	Arrived int           `json:"arrived"` // of the packets in Sent, which must not arrive, or would have to
	Sent    int           `json:"sent"`
	Why     string        `json:"why,omitempty"` // why it cannot be told, or what of it was not tried
	// NotClaimed holds the reasons why the stack does not claim to withstand it.
	NotClaimed []string `json:"not_claimed,omitempty"`
	// Families is what came of it in each family, if that is not the same in all.
	Families []AttackFamily `json:"families,omitempty"`
	Holes    []string       `json:"holes,omitempty"` // what arrived, in words
	// ControlArrived and ControlSent are the same of the control; both are 0 if there is none.
	ControlArrived int `json:"control_arrived,omitempty"`
	ControlSent    int `json:"control_sent,omitempty"`
}

// An AttackFamily is what came of an attack in one family.
type AttackFamily struct {
	Family  string        `json:"family"`
	Verdict AttackVerdict `json:"verdict"`
	Why     string        `json:"why,omitempty"`
}

// Said is the verdict, of each family if they differ: "withstood (IPv4), not tried (IPv6)".
func (a Attack) Said() string {
	var texts []string
	for _, one := range a.Families {
		texts = append(texts, InFamily(string(one.Verdict), one.Family))
	}
	return cmp.Or(strings.Join(texts, ", "), string(a.Verdict))
}

// InFamily says of which family something is true: "withstood (IPv4)".
func InFamily(what, family string) string { return fmt.Sprintf("%s (%s)", what, FamilyName(family)) }

// FamilyName is how a family is written.
func FamilyName(family string) string {
	switch family {
	case "ipv4":
		return "IPv4"
	case "ipv6":
		return "IPv6"
	}
	return family
}

// AttackVerdict says how a lab fares with an attack, in the words of nettoll prove.
type AttackVerdict string

// The verdicts.
const (
	AttackWithstood AttackVerdict = "withstood"         // claimed, and nothing arrived
	AttackBroken    AttackVerdict = "broken"            // claimed, and something arrived
	AttackOpen      AttackVerdict = "open"              // not claimed, and something arrived
	AttackClosed    AttackVerdict = "closed"            // not claimed, and nothing arrived
	AttackUntold    AttackVerdict = "cannot be told"    // what is allowed did not arrive either
	AttackNotTried  AttackVerdict = "not tried"         // no packet of it was sent
	AttackUnsent    AttackVerdict = "refused by rights" // the rights of the containers refused to send it
)

// Broken says whether the lab claims to withstand an attack that got through.
func (x *Attacks) Broken() bool {
	return slices.ContainsFunc(x.Attacks, func(a Attack) bool { return a.Verdict == AttackBroken })
}

func (x Attacks) appendJSON(b []byte) ([]byte, error) {
	x.Type, x.V = "attacks", Version
	return appendAny(b, x)
}

// Withstood counts what came of attacks from one side.
type Withstood struct {
	Made  int // attacks that the run was to make
	Tried int // of these, those of which packets were sent
	// Claimed is how many of those the stack claims to withstand. Held and Broken are how many of them it withstood and
	// did not. The others were not tried, or it cannot be told.
	Claimed, Held, Broken int
	Open                  int      // not claimed, and something arrived
	Names                 []string // of the broken ones
}

func (w *Withstood) add(a *Attack) {
	w.Made++
	if a.Verdict != AttackNotTried && a.Verdict != AttackUnsent {
		w.Tried++
	}
	if a.Claimed {
		w.Claimed++
	}
	switch a.Verdict {
	case AttackWithstood:
		w.Held++
	case AttackBroken:
		w.Broken++
		w.Names = append(w.Names, a.Attack)
	case AttackOpen:
		w.Open++
	case AttackClosed, AttackUntold, AttackNotTried, AttackUnsent:
	}
}

// Claims sums it up: [NotProved] if nothing was tried, and [HeldUntold] if it is not known of each that is claimed.
func (w Withstood) Claims() Held {
	switch {
	case w.Broken > 0:
		return HeldNot
	case w.Tried == 0:
		return NotProved
	case w.Claimed == 0:
		return NotClaimed
	case w.Held < w.Claimed:
		return HeldUntold
	}
	return HeldAlways
}

// attacked adds what came of attacks.
func (p *ProvedLab) attacked(x *Attacks) {
	p.Inside, p.Wire, p.Attacked, p.NotAttacked = Withstood{}, Withstood{}, x.NotTried == "", x.NotTried
	p.Untold, p.Holes = nil, nil
	for i := range x.Attacks {
		a := &x.Attacks[i]
		if a.Wire {
			p.Wire.add(a)
		} else {
			p.Inside.add(a)
		}
		for _, in := range a.Families {
			if in.Why != "" {
				p.untold(InFamily(string(in.Verdict), in.Family)+": "+in.Why, a.Attack)
			}
		}
		said := a.Why != "" && slices.ContainsFunc(a.Families, func(in AttackFamily) bool { return in.Why == a.Why })
		switch a.Verdict {
		case AttackNotTried, AttackUntold, AttackUnsent:
			why := string(a.Verdict)
			if a.Why != "" {
				why += ": " + a.Why
			}
			if !said {
				p.untold(why, a.Attack)
			}
		case AttackBroken:
			for _, hole := range a.Holes {
				p.Holes = append(p.Holes, a.Attack+": "+hole)
			}
		case AttackWithstood:
			if a.Why != "" && !said { // of a part of it
				p.untold(string(a.Verdict)+": "+a.Why, a.Attack)
			}
		case AttackOpen, AttackClosed:
		}
	}
	if x.Failed != "" {
		p.untold("failed after the attacks: "+x.Failed, "")
	}
	for _, why := range []string{x.NoControl, x.NoWireControl} {
		if why != "" {
			p.untold("the control was not attacked: "+why, "")
		}
	}
}

func (p *ProvedLab) untold(why, name string) {
	i := slices.IndexFunc(p.Untold, func(u Untold) bool { return u.Why == why })
	if i < 0 {
		i = len(p.Untold)
		p.Untold = append(p.Untold, Untold{Why: why})
	}
	if name != "" {
		p.Untold[i].Attacks = append(p.Untold[i].Attacks, name)
	}
}

// Untold is why some attacks say nothing about a lab, or less than all.
type Untold struct {
	Why     string   `json:"why"` // it begins with the verdict: "not tried: …"
	Attacks []string `json:"attacks,omitempty"`
}

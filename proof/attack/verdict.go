package attack

import "slices"

// A Description explains an attack.
type Description struct {
	Summary string
	// Source says where the attack, or the rule that it breaks, stands: an RFC, a CVE, a paper.
	Source string
}

// Describe explains an attack. An attack that there is none of has no description.
func Describe(a Attack) Description {
	return map[Attack]Description{
		Answers: {
			"who answers when a container asks for a neighbour: one, and the right one",
			"RFC 826; RFC 4861, section 7.2",
		},
		Detours: {
			"packets for other containers, in frames for every link that there is",
			"SeCoNetBench, section III: a container that was taken over",
		},
		Bypass: {
			"allowed packets, in frames for a link that a switch should have taken them from",
			"IEEE 802.1Q: a switch forwards what is not for itself",
		},
		Ports: {"from a source to ports of its sink that are not allowed, over UDP and TCP", "RFC 768; RFC 9293"},
		PortZero: {
			"from port 0 and to port 0, with every combination of TCP's flags",
			"RFC 6335, section 6: port 0 is reserved",
		},
		Protocols: {
			"every protocol of IP, as if it had the ports of a pair",
			"IANA, Assigned Internet Protocol Numbers",
		},
		Types: {"every type of ICMP", "RFC 792; RFC 4443"},
		Options: {
			"refused ports behind options and extension headers that look like ports of a pair",
			"RFC 791, section 3.1; RFC 8200, section 4; RFC 7112",
		},
		Wrapped: {
			"packets in frames that are none of IP: with tags of VLANs, PPPoE, SNAP",
			"IEEE 802.1Q; IEEE 802.1ad; RFC 2516; RFC 1042",
		},
		Fragments: {
			"packets in pieces, whose ports and flags are in another piece than the first",
			"RFC 1858; RFC 3128; RFC 5722",
		},
		Replies: {"from the service's port to every port of the source, as if it were an answer", "RFC 9293; RFC 768"},
		Stray: {
			"packets for an address of the host, in frames for a container that has added the address",
			"RFC 1122, section 3.3.4.2: the strong end system",
		},
		ToHost:   {"packets for every address of every host, in frames for every link", "RFC 1122, section 3.3.4.2"},
		FromHost: {"packets of the host for every container", "no filter claims to stop its own host"},
		Guise: {
			"packets with the address of another container, and with its MAC address too",
			"RFC 2827 (BCP 38)",
		},
		Router: {
			"a container that says it is a router, and redirects others",
			"RFC 6104; RFC 792 (redirect); CVE-2020-10749",
		},
		Takeover: {
			"a container that says it has the address of another one, or of the gateway",
			"RFC 826; RFC 3756, section 4.1",
		},
	}[a]
}

// Claims says whether the lab claims that nothing of an attack arrives. Every lab claims that its packets take the way
// that it says; the rest is what a filter is for.
func (t Target) Claims(a Attack) bool {
	switch a {
	case Answers, Bypass:
		return true
	case FromHost:
		return false // no filter claims it
	case ToHost:
		return t.Filtered && !t.Inside
	case Guise, Takeover:
		return t.Bound
	}
	return t.Filtered
}

// A Verdict says how a lab fares with an attack.
type Verdict string

// The verdicts.
const (
	// Withstood: it claims that nothing arrives, and nothing does.
	Withstood Verdict = "withstood"
	// Broken: it claims that nothing arrives, and something does.
	Broken Verdict = "broken"
	// Open: something arrives, and it does not claim otherwise.
	Open Verdict = "open"
	// Closed: nothing arrives, although it does not claim that.
	Closed Verdict = "closed"
	// Untold: what must arrive did not arrive either, so that nothing can be told.
	Untold Verdict = "cannot be told"
	// NotTried: no packet of the attack was sent, for the reason given.
	NotTried Verdict = "not tried"
)

// A Result is what came of an attack on a lab, and on its control.
type Result struct {
	Attack  Attack    `json:"attack"`
	Claimed bool      `json:"claimed"`
	Verdict Verdict   `json:"verdict"`
	Why     string    `json:"why,omitempty"`      // of what cannot be told or was not tried
	Lab     []Outcome `json:"outcomes,omitempty"` // by family
	// Control is what came of the same attack on the same lab without its filter; nil if the lab has none, or if the
	// control could not be attacked.
	Control []Outcome `json:"control,omitempty"`
}

// Count returns how many packets arrived and how many were sent.
func Count(list []Outcome) (arrived, sent int) {
	for _, o := range list {
		arrived, sent = arrived+o.Arrived, sent+o.Sent
	}
	return arrived, sent
}

// Judge says how a lab fares with each attack, from what came of them on it and on its control.
func (t Target) Judge(attacks []Attack, lab, control []Outcome) []Result {
	var list []Result
	for _, a := range attacks {
		other := func(o Outcome) bool { return o.Attack != a }
		r := Result{
			Attack: a, Claimed: t.Claims(a),
			Lab:     slices.DeleteFunc(slices.Clone(lab), other),
			Control: slices.DeleteFunc(slices.Clone(control), other),
		}
		r.Verdict, r.Why = t.judge(r)
		list = append(list, r)
	}
	return list
}

func (t Target) judge(r Result) (Verdict, string) {
	arrived, sent := Count(r.Lab)
	switch {
	case arrived > 0 && r.Claimed:
		return Broken, ""
	case arrived > 0:
		return Open, ""
	}
	for _, o := range r.Lab {
		if len(o.Missing) > 0 {
			return Untold, "allowed, and does not arrive either: " + o.Missing[0]
		}
	}
	switch {
	case sent == 0:
		return NotTried, "the lab has nowhere to send it"
	case !r.Claimed:
		return Closed, ""
	}
	return Withstood, ""
}

// Judge says how a lab fares with an attack, from whether it claims to withstand it and what came of it.
func Judge(r Result) (Verdict, string) { return Target{}.judge(r) }

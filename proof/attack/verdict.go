package attack

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/threat"
)

// A Description explains an attack.
type Description struct {
	Summary string
	// Source says where the attack, or the rule that it breaks, stands: an RFC, a CVE, a paper.
	Source string
	// Control says which lab shows that the attack works, as something arrives there.
	Control string
}

// Unfiltered is the control of attacks that a filter withstands: see [Description].
const Unfiltered = "the same stack without its filter"

// elsewhere lists the attacks whose control cannot be the same stack without its filter, each with the lab that shows
// that it works. That lab is in a test of this package, as no stack that nettoll builds is like it.
func elsewhere() map[Attack]string {
	return map[Attack]string{
		// A network answers for neighbours, and takes frames from its links, in the same way with and without a filter.
		threat.Answers: "a switch whose host answers too (TestBypassIsNoticed)",
		threat.Bypass:  "a switch whose host takes frames from its ports (TestBypassIsNoticed)",
		// A switch learns where containers are, whatever is filtered.
		threat.Listening: "a bridge that forgets at once where containers are (TestHub)",
		threat.MACFlood: "a bridge that learns few addresses, and forgets in the middle of the flood where containers are " +
			"(TestMACFlood)",
		// The runtime separates namespaces, and no filter knows unix sockets.
		threat.Abstract: "containers in the namespace of their host (TestSharedNamespace)",
		// Without the filter nobody tracks connections, so no table can be full.
		threat.TableFull: "the same stack, whose filter is flushed while the table is full, in one family, as both have " +
			"one table (TestFullTable)",
		threat.Starvation: "a stateful filter on a bridge (TestFullTable)",
	}
}

// Describe explains an attack. An attack that there is none of has no description.
func Describe(a Attack) Description {
	d, ok := descriptions()[a]
	if ok {
		d.Control = cmp.Or(elsewhere()[a], Unfiltered)
	}
	return d
}

func descriptions() map[Attack]Description {
	return map[Attack]Description{
		threat.Answers: {
			Summary: "who answers when a container asks for a neighbour: one, and the right one",
			Source:  "RFC 826; RFC 4861, section 7.2",
		},
		threat.Detours: {
			Summary: "packets for other containers, in frames for every link that there is",
			Source:  "SeCoNetBench, section III: a container that was taken over",
		},
		threat.Bypass: {
			Summary: "allowed packets, in frames for a link that a switch should have taken them from",
			Source:  "IEEE 802.1Q: a switch forwards what is not for itself",
		},
		threat.Misdirected: {
			Summary: "allowed packets, in frames for other containers, for a MAC address that nobody has, and for all: their " +
				"root reads them",
			Source: "IEEE 802.1Q: a switch passes frames by their MAC addresses; RFC 1122, section 3.3.4.2",
		},
		threat.Ports: {
			Summary: "from a source to ports of its sink that are not allowed, over UDP and TCP",
			Source:  "RFC 768; RFC 9293",
		},
		threat.PortZero: {
			Summary: "from port 0 and to port 0, with every combination of TCP's flags",
			Source:  "RFC 6335, section 6: port 0 is reserved",
		},
		threat.Protocols: {
			Summary: "every protocol of IP, those of tunnels, IPsec and SCTP among them, as if it had the ports of a pair",
			Source:  "IANA, Assigned Internet Protocol Numbers",
		},
		threat.Types: {
			Summary: "every type of ICMP that is not an error",
			Source:  "RFC 792; RFC 4443",
		},
		threat.Options: {
			Summary: "refused ports behind options and extension headers that look like ports of a pair",
			Source:  "RFC 791, section 3.1; RFC 8200, section 4; RFC 7112",
		},
		threat.Wrapped: {
			Summary: "packets in frames that are none of IP: with tags of VLANs, also two and the native VLAN's (hopping), " +
				"PPPoE, SNAP",
			Source: "IEEE 802.1Q; IEEE 802.1ad; RFC 2516; RFC 1042; CVE-2021-27853",
		},
		threat.Fragments: {
			Summary: "packets in pieces: tiny first ones, whose ports and flags are in another piece, and pieces that overlap",
			Source:  "RFC 1858; RFC 3128; RFC 5722",
		},
		threat.Replies: {
			Summary: "from the service's port to every port of the source, as if it were an answer",
			Source:  "RFC 9293; RFC 768",
		},
		threat.SynAck: {
			Summary: "answers to connections that nobody has begun: TCP with SYN and ACK, from every container to every other",
			Source:  "RFC 9293, section 3.10.7",
		},
		threat.Errors: {
			Summary: "errors of ICMP, and redirects of IPv4, that quote packets that nobody has sent",
			Source:  "RFC 5927; RFC 792; RFC 4443",
		},
		threat.KnownErrors: {
			Summary: "errors of ICMP that quote a flow that goes on, from a container that has no part in it",
			Source:  "RFC 5927; CVE-2004-0790",
		},
		threat.DHCP: {
			Summary: "a container that answers as a server of DHCP, or hears who looks for one",
			Source:  "RFC 2131, section 7; RFC 7610",
		},
		threat.Listening: {
			Summary: "a container with a promiscuous link, which listens to what other pairs send each other",
			Source:  "IEEE 802.1D, section 7.8: a bridge filters what it has learned",
		},
		threat.Collusion: {
			Summary: "two containers that have taken their own filters away, or read before them at their links",
			Source:  "SeCoNetBench, section III: a container that was taken over; packet(7)",
		},
		threat.Abstract: {
			Summary: "an abstract unix socket of the host, from a container",
			Source:  "CVE-2020-15257; unix(7)",
		},
		threat.Services: {
			Summary: "connections to a service that a host has bound to all of its addresses",
			Source:  "CVE-2020-8558; RFC 1122, section 3.3.4.2",
		},
		threat.MACFlood: {
			Summary: "frames from 10,000 MAC addresses, so that a switch forgets others, and then a promiscuous link",
			Source:  "IEEE 802.1Q, section 8.8; macof (dsniff)",
		},
		threat.TableFull: {
			Summary: "packets that are refused, while the host's table of connections is full: does its filter fail open?",
			Source:  "nf_conntrack_max (Documentation/networking/nf_conntrack-sysctl.rst)",
		},
		threat.Starvation: {
			Summary: "two containers that may talk fill the rest of the host's table of connections: new flows of others do " +
				"not arrive",
			Source: "nf_conntrack_max (Documentation/networking/nf_conntrack-sysctl.rst)",
		},
		threat.Stray: {
			Summary: "packets for an address of the host, in frames for a container that has added the address",
			Source:  "RFC 1122, section 3.3.4.2: the strong end system",
		},
		threat.ToHost: {
			Summary: "packets for every address of every host, in frames for every link",
			Source:  "RFC 1122, section 3.3.4.2",
		},
		threat.FromHost: {
			Summary: "packets of the host for every container",
			Source:  "no filter claims to stop its own host",
		},
		threat.Guise: {
			Summary: "packets with the address of another container, and with its MAC address too",
			Source:  "RFC 2827 (BCP 38)",
		},
		threat.Router: {
			Summary: "a container that says it is a router",
			Source:  "RFC 6104; RFC 1256; CVE-2020-10749",
		},
		threat.Takeover: {
			Summary: "a container that says it has the address of another one, or of the gateway: of each end of a pair, " +
				"for what the other end sends it; a redirect in the name of the gateway, for a flow of the pair (of IPv6 if " +
				"the gateway's address is link-local, as Linux believes no other)",
			Source: "RFC 826; RFC 792; RFC 3756, sections 4.1 and 4.2.4",
		},
	}
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
	// Untold: what must arrive did not arrive either, nothing arrives on the control or nothing of what one kind of tries
	// aims at, or the attack was not made to its end, so that nothing can be told.
	Untold Verdict = "cannot be told"
	// NotTried: no packet of the attack was sent, for the reason given.
	NotTried Verdict = "not tried"
	// Unsent: no packet of the attack was sent, because the rights of the containers refuse that.
	Unsent Verdict = "refused by rights"
)

// Text says what a verdict means.
func (v Verdict) Text() string {
	said := map[Verdict]string{
		Withstood: "claimed and held", Broken: "claimed and broken", Open: "not claimed and open",
		Closed: "not claimed, closed", Unsent: "refused by the container's rights",
	}
	return cmp.Or(said[v], string(v))
}

// A Result is what came of an attack on a lab, and on its control.
type Result struct {
	Attack  Attack  `json:"attack"`
	Claimed bool    `json:"claimed"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"` // of what cannot be told or was not tried
	// NotClaimed is why the parts of the stack do not claim to withstand it.
	NotClaimed []string `json:"not_claimed,omitempty"`
	// Families is how it fares in each family, if it does not fare alike in all.
	Families []InFamily `json:"families,omitempty"`
	Lab      []Outcome  `json:"outcomes,omitempty"` // by family
	// Control is what came of the same attack on the same lab without its filter; nil if the lab has none, or if the
	// control could not be attacked.
	Control []Outcome `json:"control,omitempty"`
}

// An InFamily is how a lab fares with an attack in one family.
type InFamily struct {
	Family  string  `json:"family"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why,omitempty"`
}

// Text says what the verdict means, of each family if they differ: "claimed and held (IPv4), not tried (IPv6)".
func (r Result) Text() string {
	var texts []string
	for _, one := range r.Families {
		texts = append(texts, measure.InFamily(one.Verdict.Text(), one.Family))
	}
	return cmp.Or(strings.Join(texts, ", "), r.Verdict.Text())
}

// Judge sets the verdicts of a result, from whether the lab claims to withstand the attack and what came of it there
// and on the control. Shown says that something else than the control shows that the attack works. What cannot be told
// in one family is not withstood.
func (r *Result) Judge(shown bool) {
	r.Families = nil
	verdict, why := judge(*r, shown, r.Control)
	for _, o := range r.Lab {
		one := *r
		one.Lab = []Outcome{o}
		one.Control = slices.DeleteFunc(slices.Clone(r.Control), func(c Outcome) bool { return c.Family != o.Family })
		in := InFamily{Family: o.Family}
		in.Verdict, in.Why = judge(one, shown, r.Control)
		if r.Families = append(r.Families, in); in.Verdict == Untold && verdict == Withstood {
			verdict, why = in.Verdict, in.Why
		}
	}
	if r.Verdict, r.Why = verdict, why; !slices.ContainsFunc(r.Families, func(in InFamily) bool {
		return in.Verdict != verdict
	}) {
		r.Families = nil
	}
}

// Count returns how many packets arrived and how many were sent.
func Count(list []Outcome) (arrived, sent int) {
	for _, o := range list {
		arrived, sent = arrived+o.Arrived, sent+o.Sent
	}
	return arrived, sent
}

// A Control is the same lab without its filter.
type Control struct {
	// Claims are those of its stack. If it claims to withstand an attack itself, nothing needs to arrive there: the
	// network or the runtime withstands it, and another stack shows that the attack works.
	Claims   threat.Claims
	Outcomes []Outcome
}

// Judge says how a lab fares with each attack, from what came of them on it and on its control, nil if there is none.
func (t Target) Judge(attacks []Attack, lab []Outcome, control *Control) []Result {
	var list []Result
	for _, a := range attacks {
		other := func(o Outcome) bool { return o.Attack != a }
		r := Result{
			Attack: a, Claimed: t.Claims.Claimed(a), NotClaimed: t.Claims.Why(a),
			Lab: slices.DeleteFunc(slices.Clone(lab), other),
		}
		// Without a filter, and so without a control, nothing but the network or the runtime withstands it, and another
		// stack shows that it works.
		shown := !t.Filtered && control == nil || elsewhere()[a] != ""
		if control != nil {
			r.Control = slices.DeleteFunc(slices.Clone(control.Outcomes), other)
			shown = shown || control.Claims.Claimed(a)
		}
		r.Judge(shown)
		list = append(list, r)
	}
	return list
}

// unshown lists what an attack aims at on a lab and reaches on its control in no family.
func unshown(r Result, control []Outcome) (aims []string) {
	for _, o := range r.Lab {
		for aim := range o.Aims {
			if !slices.Contains(aims, aim) && !slices.ContainsFunc(control, func(c Outcome) bool {
				return c.Aims[aim].Arrived > 0
			}) {
				aims = append(aims, aim)
			}
		}
	}
	slices.Sort(aims)
	return aims
}

// judge says how a lab fares with an attack, over all families of the result. Whole is what came of it on the control
// in all families: what an attack aims at has to be reached in one of them.
func judge(r Result, shown bool, whole []Outcome) (Verdict, string) {
	arrived, sent := Count(r.Lab)
	switch {
	case arrived > 0 && r.Claimed:
		return Broken, ""
	case arrived > 0:
		return Open, ""
	}
	for _, o := range r.Lab {
		if o.Failed != "" {
			return Untold, o.Failed
		}
	}
	for _, o := range r.Lab {
		if len(o.Missing) > 0 {
			return Untold, "allowed, and does not arrive either: " + o.Missing[0]
		}
	}
	if sent == 0 {
		return idle(r.Lab)
	}
	if !r.Claimed {
		return Closed, ""
	}
	if shown {
		return Withstood, ""
	}
	arrived, sent = Count(r.Control)
	if arrived > 0 {
		if aims := unshown(r, whole); len(aims) > 0 {
			return Untold, "it does not succeed on the control either against: " + strings.Join(aims, ", ")
		}
		return Withstood, ""
	}
	for _, o := range r.Control {
		if o.Failed != "" {
			return Untold, "on the control: " + o.Failed
		}
	}
	if sent > 0 {
		return Untold, "it does not succeed on the control either"
	}
	return Untold, "its control was not attacked: nothing shows that it works"
}

// idle says why no packet of an attack was sent: the rights of containers refused it, or each family has its reason.
func idle(lab []Outcome) (Verdict, string) {
	const nowhere = "the lab has nowhere to send it"
	var reasons []string
	for _, o := range lab {
		why := cmp.Or(o.NotTried, nowhere)
		switch {
		case o.NotTried == "" && o.Unsent > 0:
			return Unsent, o.Refusal
		case !slices.Contains(reasons, why):
			reasons = append(reasons, why)
		}
	}
	return NotTried, cmp.Or(strings.Join(reasons, "; "), nowhere)
}

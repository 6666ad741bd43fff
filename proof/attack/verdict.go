package attack

import (
	"cmp"
	"slices"

	"github.com/nettoll/nettoll/proof/threat"
)

// A Description explains an attack.
type Description struct {
	Summary string
	// Source says where the attack, or the rule that it breaks, stands: an RFC, a CVE, a paper.
	Source string
}

// Describe explains an attack. An attack that there is none of has no description.
func Describe(a Attack) Description {
	return map[Attack]Description{
		threat.Answers: {
			"who answers when a container asks for a neighbour: one, and the right one",
			"RFC 826; RFC 4861, section 7.2",
		},
		threat.Detours: {
			"packets for other containers, in frames for every link that there is",
			"SeCoNetBench, section III: a container that was taken over",
		},
		threat.Bypass: {
			"allowed packets, in frames for a link that a switch should have taken them from",
			"IEEE 802.1Q: a switch forwards what is not for itself",
		},
		threat.Ports: {"from a source to ports of its sink that are not allowed, over UDP and TCP", "RFC 768; RFC 9293"},
		threat.PortZero: {
			"from port 0 and to port 0, with every combination of TCP's flags",
			"RFC 6335, section 6: port 0 is reserved",
		},
		threat.Protocols: {
			"every protocol of IP, those of tunnels, IPsec and SCTP among them, as if it had the ports of a pair",
			"IANA, Assigned Internet Protocol Numbers",
		},
		threat.Types: {"every type of ICMP that is not an error", "RFC 792; RFC 4443"},
		threat.Options: {
			"refused ports behind options and extension headers that look like ports of a pair",
			"RFC 791, section 3.1; RFC 8200, section 4; RFC 7112",
		},
		threat.Wrapped: {
			"packets in frames that are none of IP: with tags of VLANs, also two and the native VLAN's (hopping), PPPoE, SNAP",
			"IEEE 802.1Q; IEEE 802.1ad; RFC 2516; RFC 1042; CVE-2021-27853",
		},
		threat.Fragments: {
			"packets in pieces: tiny first ones, whose ports and flags are in another piece, and pieces that overlap",
			"RFC 1858; RFC 3128; RFC 5722",
		},
		threat.Replies: {"from the service's port to every port of the source, as if it were an answer", "RFC 9293; RFC 768"},
		threat.SynAck: {
			"answers to connections that nobody has begun: TCP with SYN and ACK, from every container to every other",
			"RFC 9293, section 3.10.7",
		},
		threat.Errors: {
			"errors of ICMP and redirects that quote packets that nobody has sent",
			"RFC 5927; RFC 792; RFC 4443",
		},
		threat.KnownErrors: {
			"errors of ICMP that quote a flow that goes on, from a container that has no part in it",
			"RFC 5927; CVE-2004-0790",
		},
		threat.DHCP: {
			"a container that answers as a server of DHCP, or hears who looks for one",
			"RFC 2131, section 7; RFC 7610",
		},
		threat.Listening: {
			"a container with a promiscuous link, which listens to what other pairs send each other",
			"IEEE 802.1D, section 7.8: a bridge filters what it has learned",
		},
		threat.Collusion: {
			"two containers that have taken their own filters away, or read before them at their links",
			"SeCoNetBench, section III: a container that was taken over; packet(7)",
		},
		threat.Abstract: {
			"an abstract unix socket of the host, from a container",
			"CVE-2020-15257; unix(7)",
		},
		threat.Services: {
			"connections to a service that a host has bound to all of its addresses",
			"CVE-2020-8558; RFC 1122, section 3.3.4.2",
		},
		threat.MACFlood: {
			"frames from 10,000 MAC addresses, so that a switch forgets others, and then a promiscuous link",
			"IEEE 802.1Q, section 8.8; macof (dsniff)",
		},
		threat.TableFull: {
			"packets that are refused, while the host's table of connections is full: does its filter fail open?",
			"nf_conntrack_max (Documentation/networking/nf_conntrack-sysctl.rst)",
		},
		threat.Starvation: {
			"two containers that may talk fill the rest of the host's table of connections: new flows of others do not arrive",
			"nf_conntrack_max (Documentation/networking/nf_conntrack-sysctl.rst)",
		},
		threat.Stray: {
			"packets for an address of the host, in frames for a container that has added the address",
			"RFC 1122, section 3.3.4.2: the strong end system",
		},
		threat.ToHost:   {"packets for every address of every host, in frames for every link", "RFC 1122, section 3.3.4.2"},
		threat.FromHost: {"packets of the host for every container", "no filter claims to stop its own host"},
		threat.Guise: {
			"packets with the address of another container, and with its MAC address too",
			"RFC 2827 (BCP 38)",
		},
		threat.Router: {
			"a container that says it is a router",
			"RFC 6104; RFC 1256; CVE-2020-10749",
		},
		threat.Takeover: {
			"a container that says it has the address of another one, or of the gateway",
			"RFC 826; RFC 3756, section 4.1",
		},
	}[a]
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
	NotClaimed []string  `json:"not_claimed,omitempty"`
	Lab        []Outcome `json:"outcomes,omitempty"` // by family
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
			Attack: a, Claimed: t.Claims.Claimed(a), NotClaimed: t.Claims.Why(a),
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
	if sent == 0 {
		for _, o := range r.Lab {
			switch {
			case o.NotTried != "":
				return NotTried, o.NotTried
			case o.Unsent > 0:
				return Unsent, o.Refusal
			}
		}
		return NotTried, "the lab has nowhere to send it"
	}
	switch {
	case !r.Claimed:
		return Closed, ""
	}
	return Withstood, ""
}

// Judge says how a lab fares with an attack, from whether it claims to withstand it and what came of it.
func Judge(r Result) (Verdict, string) { return Target{}.judge(r) }

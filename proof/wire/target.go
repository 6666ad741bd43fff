package wire

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/threat"
)

// ErrNoWire says that nothing of a lab passes an underlay.
var ErrNoWire = errors.New("the two ends of each pair are on one host, so nothing passes the underlay")

// Guards are what a lab claims of packets between its hosts.
type Guards struct {
	// Hidden: nobody reads what containers send.
	Hidden bool
	// Authentic: what was changed or made up is not delivered.
	Authentic bool
	// Once: no packet is delivered twice.
	Once bool
	// Exclusive says that hosts drop packets for containers that come another way.
	Exclusive bool
}

// A Target is a lab that is attacked from its underlay.
type Target struct {
	proof.Lab
	Guards Guards
	// Claims are what its parts say besides: which attacks they withstand without an encryption, and why they do not claim
	// to withstand others.
	Claims threat.Claims
	// Open opens a network namespace of a host, counted from 0, by its name; "" is the host's own. The host behind the
	// last one is the underlay. The file is the caller's to close.
	Open func(host int, namespace string) (*os.File, error)
	// Ignored are the places, counted from behind the outer headers of a frame, of bytes that are neither secret nor
	// authentic: a frame with others there may be delivered, as it was.
	Ignored []int
	// Hellos are those that its encryption knows.
	Hellos []threat.Hello
	// Offers are those that its encryption knows.
	Offers []threat.Offer
	// Settled is why there are none, "" if nothing is known.
	Settled string
	// Rekey has all hosts renew their keys; nil if they cannot. The error is a [linux.UnsupportedError] if nothing has
	// any.
	//
	// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
	Rekey func(ctx context.Context) error
	// Limit is how long an attack may take in one family; 0: [attack.Longest].
	Limit time.Duration
	// Observe, if not nil, is called when something begins.
	Observe func(a attack.Attack, family string)
}

// The attacks, see [threat.OnWire].
const (
	Sniff    = threat.WireSniff
	Patterns = threat.WirePatterns
	Flip     = threat.WireFlip
	Cut      = threat.WireCut
	Replay   = threat.WireReplay
	Reorder  = threat.WireReorder
	Stranger = threat.WireStranger
	Peer     = threat.WirePeer
	Plain    = threat.WirePlain
	Hellos   = threat.WireHello
	Silence  = threat.WireSilence
	Weaker   = threat.WireWeaker
)

// All lists the attacks, in the order in which they are made.
func All() []attack.Attack { return threat.OnWire() }

// Describe explains an attack. An attack that there is none of has no description.
func Describe(a attack.Attack) attack.Description {
	d, ok := descriptions()[a]
	switch {
	case a == Weaker: // without an encryption there is no key exchange
		d.Control = "hosts that take weaker offers too (TestWeakerPlanted)"
	case ok:
		d.Control = Unprotected
	}
	return d
}

// Unprotected is the control of nearly all attacks: see [attack.Description]. Without an encryption a lab claims
// nothing that they could break, and they are made on it all the same.
const Unprotected = "the same stack without its encryption"

func descriptions() map[attack.Attack]attack.Description {
	return map[attack.Attack]attack.Description{
		Sniff: {
			Summary: "on the wire: what containers send is looked for in every frame between hosts, in both directions, and " +
				"while keys are renewed",
			Source: "RFC 3552, section 3.2.1",
		},
		Patterns: {
			Summary: "on the wire: two equal packets, made of equal blocks, are compared block by block",
			Source:  "NIST SP 800-38A, appendix C: what an IV is for",
		},
		Flip: {
			Summary: "on the wire: each bit position of a frame flipped, alone and in pairs that leave Internet checksums right",
			Source:  "N. Borisov, I. Goldberg, D. Wagner, Intercepting Mobile Communications, 2001",
		},
		Cut: {
			Summary: "on the wire: frames cut at every length and made longer, and a packet of 65,535 bytes in fragments",
			Source:  "RFC 791, section 3.1; CVE-1999-0128",
		},
		Replay: {
			Summary: "on the wire: a frame once more: at once, after others, after new keys",
			Source:  "RFC 3552, section 3.3.1",
		},
		Reorder: {
			Summary: "on the wire: frames in the reverse order, each twice",
			Source:  "RFC 4303, section 3.4.3",
		},
		Stranger: {
			Summary: "on the wire: packets made up from an address that no host has",
			Source:  "RFC 7348, section 7; CVE-2020-10136",
		},
		Peer: {
			Summary: "on the wire: packets made up from the address of the other host",
			Source:  "RFC 7348, section 7; RFC 6169",
		},
		Plain: {
			Summary: "on the wire: packets for a container, and those of the tunnel, without what carries or protects them",
			Source:  "RFC 4301, section 5.2: what should have been protected and was not is dropped",
		},
		Hellos: {
			Summary: "on the wire: a key exchange by a stranger, who then sends packets",
			Source:  "RFC 7296, section 2.6; CVE-2020-15078",
		},
		Silence: {
			Summary: "on the wire: no frame passes while keys are to be renewed: does a host fall back to plain packets?",
			Source:  "RFC 3552, section 3.3.3",
		},
		Weaker: {
			Summary: "on the wire: an offer of a weaker cipher or version",
			Source:  "RFC 7296, section 2.7",
		},
	}
}

// Claims says whether a lab with these guards claims that nothing of an attack arrives.
func (g Guards) Claims(a attack.Attack) bool {
	switch a {
	case Sniff, Patterns, Silence:
		return g.Hidden
	case Flip, Cut, Stranger, Peer, Hellos, Weaker:
		return g.Authentic
	case Replay, Reorder:
		return g.Once
	case Plain:
		return g.Exclusive
	}
	return false
}

// Outcomes are what came of attacks on a lab.
type Outcomes struct {
	List []attack.Outcome
	// NotTried says why attacks were not made, or what of those that were made was not tried, and why.
	NotTried map[attack.Attack]string
}

// failed says of all attacks that were not made why that is so.
func (o *Outcomes) failed(families []string, attacks []attack.Attack, why error) {
	for _, a := range attacks {
		for _, family := range families {
			made := slices.ContainsFunc(o.List, func(one attack.Outcome) bool { return one.Attack == a && one.Family == family })
			if _, left := o.NotTried[a]; !made && !left {
				o.List = append(o.List, attack.Outcome{Attack: a, Family: family, Failed: "it was not made: " + why.Error()})
			}
		}
	}
}

// none are the outcomes of attacks none of which can be made.
func none(attacks []attack.Attack, why string) Outcomes {
	o := Outcomes{NotTried: map[attack.Attack]string{}}
	for _, a := range attacks {
		o.NotTried[a] = why
	}
	return o
}

// claimed says whether the lab claims that nothing of an attack arrives.
func (t Target) claimed(a attack.Attack) bool { return t.Guards.Claims(a) || t.Claims.Claimed(a) }

// Judge says how the lab fares with each attack, from what came of them on it and on its control. If that is nil,
// something else shows that the attacks work. So it is if a part that the control has too withstands them.
func (t Target) Judge(attacks []attack.Attack, lab Outcomes, control *Outcomes) []attack.Result {
	var list []attack.Result
	for _, a := range attacks {
		other := func(o attack.Outcome) bool { return o.Attack != a }
		r := attack.Result{
			Attack: a, Claimed: t.claimed(a), Lab: slices.DeleteFunc(slices.Clone(lab.List), other),
		}
		if !r.Claimed {
			r.NotClaimed = t.Claims.Why(a)
		}
		if control != nil {
			r.Control = slices.DeleteFunc(slices.Clone(control.List), other)
		}
		shown := control == nil || t.Claims.Claimed(a) || a == Weaker // without keys, none are agreed on
		left := lab.NotTried[a]
		if r.Judge(shown); len(r.Lab) == 0 {
			r.Why = cmp.Or(left, r.Why)
		}
		r.Why = cmp.Or(r.Why, left)
		list = append(list, r)
	}
	return list
}

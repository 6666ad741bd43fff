package network

import (
	"cmp"
	"slices"

	"github.com/nettoll/nettoll/proof/threat"
)

// Guards are what a span protects from somebody on the span below. The zero value is nothing.
type Guards struct {
	// Authentic says that it drops what was changed or made up.
	Authentic bool
	// Once says that it takes no packet a second time.
	Once bool
	// Exclusive says that a host takes what the span carries from the span only, and drops it if it comes another way.
	Exclusive bool
	// Ignored are the places, counted from behind its outer headers, of bytes of a packet that are neither secret nor
	// authentic, because the receiver does not look at them.
	Ignored []int
	// Hellos are first messages of its key exchange that a stranger can send; nil: it has none, or none is known.
	Hellos []threat.Hello
	// Offers are first messages of its key exchange that offer ciphers: one that hosts take, and weaker ones; nil: none
	// can be made.
	Offers []threat.Offer
	// Settled is why no offer can be made, if Offers is nil: nothing is negotiated, or strangers are not heard.
	Settled string
	// Claims are what it says besides about attacks from there: those that it withstands without an encryption, and why
	// it does not claim others. See [Carries].
	Claims threat.Claims
}

// Carries is what a span says that only carries packets, of that name. It has no secret, so it believes everybody who
// knows how its packets look. Strict says that it takes them from the addresses of other hosts alone. An address is no
// evidence: somebody on the span below can use that of a host.
func Carries(name string, strict bool) threat.Claims {
	strangers := threat.Leaves(name+" takes packets from any address", threat.WireStranger, threat.WireHello)
	if strict {
		strangers = threat.Withstands(threat.WireStranger, threat.WireHello)
	}
	return slices.Concat(
		threat.Leaves(name+" encrypts nothing", threat.WireSniff, threat.WirePatterns, threat.WireSilence, threat.WireWeaker),
		threat.Leaves(name+" does not know who made a packet, or changed it", threat.WireFlip, threat.WireCut,
			threat.WirePeer),
		threat.Leaves(name+" takes a packet as often as it comes", threat.WireReplay, threat.WireReorder),
		strangers,
	)
}

// forwards is what hosts say that take packets from the underlay as routers do, whatever else joins them.
func forwards() threat.Claims {
	return threat.Leaves("hosts forward plain packets from the underlay to their containers", threat.WirePlain)
}

// Protects says whether the span protects anything from somebody on the span below.
func (s Span) Protects() bool {
	return s.Protected || s.Guards.Authentic || s.Guards.Once || s.Guards.Exclusive
}

// Hidden says whether a span hides what containers send.
func (l Lab) Hidden() bool {
	return slices.ContainsFunc(l.spans(), func(s Span) bool { return s.Protected })
}

// Guards are what all spans of the lab protect together.
func (l Lab) Guards() (g Guards) {
	spans := l.spans()
	if g.Claims = forwards(); len(spans) == 1 {
		g.Claims = append(g.Claims, Carries("the underlay", false)...)
	}
	for _, s := range spans {
		g.Authentic = g.Authentic || s.Guards.Authentic
		g.Once = g.Once || s.Guards.Once
		g.Exclusive = g.Exclusive || s.Guards.Exclusive
		g.Ignored = append(g.Ignored, s.Guards.Ignored...)
		g.Hellos = append(g.Hellos, s.Guards.Hellos...)
		g.Claims = append(g.Claims, s.Guards.Claims...)
		g.Offers, g.Settled = append(g.Offers, s.Guards.Offers...), cmp.Or(g.Settled, s.Guards.Settled)
	}
	return g
}

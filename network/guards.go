package network

import (
	"cmp"
	"slices"
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
	Hellos []Hello
	// Offers are first messages of its key exchange that offer ciphers: one that hosts take, and weaker ones; nil: none
	// can be made.
	Offers []Offer
	// Settled is why no offer can be made, if Offers is nil: nothing is negotiated, or strangers are not heard.
	Settled string
}

// A Hello is the first message of a key exchange, as somebody would send it whom nobody knows.
type Hello struct {
	Name string // as its protocol has it: "an IKE_SA_INIT"
	Port int    // of UDP
	Data []byte
}

// An Offer is a first message with a choice of ciphers.
type Offer struct {
	Hello // its name is that of the ciphers
	// Usual says that the hosts are set up for these ciphers: they take the offer if it comes from the address of another
	// host, which shows that an answer can be seen.
	Usual   bool
	Answers Answers
}

// Answers reads answers to an offer.
type Answers interface {
	// Read says whether the payload of a datagram answers the offer, and whether it takes it. Again is the message as it
	// has to be sent once more, if the answer asks for that.
	Read(payload []byte) (mine, taken bool, again []byte)
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
	for _, s := range l.spans() {
		g.Authentic = g.Authentic || s.Guards.Authentic
		g.Once = g.Once || s.Guards.Once
		g.Exclusive = g.Exclusive || s.Guards.Exclusive
		g.Ignored = append(g.Ignored, s.Guards.Ignored...)
		g.Hellos = append(g.Hellos, s.Guards.Hellos...)
		g.Offers, g.Settled = append(g.Offers, s.Guards.Offers...), cmp.Or(g.Settled, s.Guards.Settled)
	}
	return g
}

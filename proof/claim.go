package proof

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// A Claim is a statement about a lab, with the tries that would refute it.
type Claim struct {
	Name     string // one of [Passes], [Path], [Refuses], [OnWire] and [Hidden]; [Unchanged] needs no tries
	Text     string // a sentence without its full stop: "every pair passes packets of 1500 bytes both ways, unfragmented"
	Expected string // of each try: "an answer"
	Tries    []Try
	// Failure is what a try that came out otherwise is called, before its detail; "" for the name of the try.
	Failure string
	// Ways are compared with the plan instead of tries, after those of the claims before this one.
	Ways *Ways
	// Wire is that what was heard between hosts meanwhile is compared, after that, and Hidden that nothing of it can be
	// read, nor of its own tries, which need not be answered.
	Wire, Hidden *Ways
	// Mark is in each datagram of its tries that is to be answered, if those that take ways have none; nil: none.
	Mark []byte
}

// Names of claims. Records have them: they do not change.
const (
	Passes  = "passes"
	Path    = "path"
	Refuses = "refuses"
	OnWire  = "wire"
	Hidden  = measure.Hidden
	AsBuilt = "unchanged"
)

// Planned is what is found of a lab whose hosts were configured by a plan, if nothing differs.
const Planned = "the kernel of each host is as the plan says"

// Unchanged is the record that a lab was compared with what was built: it is found to be that, as a sentence without
// its full stop, unless there is an error with what differs.
func Unchanged(found string, err error) measure.Proof {
	p := measure.Proof{Name: AsBuilt, Claim: found, Expected: "no difference", OK: err == nil}
	if err != nil {
		p.Detail = err.Error()
	}
	return p
}

// A Try is datagrams from one container to another, and whether they are to be answered.
type Try struct {
	Name   string `json:"name"` // for a reader: "pair 0, ipv4"
	Pair   int    `json:"pair"` // that of the sender
	Family string `json:"family"`
	From   End    `json:"from"`
	To     End    `json:"to"`
	// Form is what is sent: datagrams in one piece, if it is "".
	Form Form `json:"form,omitempty"`
	// Payload is the UDP payload in bytes of a datagram that is to be answered.
	Payload int `json:"payload,omitempty"`
	// Mark is in each datagram that is to be answered, so that it is known again on the wire; nil: none.
	Mark []byte `json:"mark,omitempty"`
	// More is how many small datagrams are sent when one was answered.
	More     int  `json:"more,omitempty"`
	Answered bool `json:"answered"` // what is expected
	// Patience says how much longer the answer may take.
	Patience Patience `json:"patience,omitzero"`
}

// A Form is what a [Try] sends.
type Form string

// Forms besides datagrams in one piece, each with a mark in every packet with data.
const (
	Fragments Form = "fragments" // a datagram larger than the MTU
	Stream    Form = "stream"    // a few bytes over a TCP connection
)

// An End is a port of a container.
type End struct {
	Container string `json:"container"` // its name in the [Lab]
	Namespace string `json:"namespace"`
	// Local is where its socket is bound, Public where others reach it. A container whose address is translated is
	// reached, and seen, at another address than its own.
	Local  netip.AddrPort `json:"local"`
	Public netip.AddrPort `json:"public"`
}

// End returns a port of a container.
func (c Container) End(family string, port uint16) End {
	v6 := family == "ipv6"
	return End{
		Container: c.Name, Namespace: c.Namespace,
		Local: netip.AddrPortFrom(c.Own(v6), port), Public: netip.AddrPortFrom(c.Public(v6), port),
	}
}

const (
	// counted is how many small datagrams are sent each way through a pair: more than what links see besides (neighbour
	// solicitations, group reports) while a lab is proven, so that a device which passes packets to everybody is seen.
	counted = 64
	// refused is how many pairs of a lab with a filter are tried with what must not pass.
	refused = 8
	// pieces is how many packets a datagram in fragments takes at least, and largest what a datagram holds in any case.
	pieces  = 3
	largest = 60_000 // bytes
)

// Claims returns the claims of a lab, in the order in which they are tried. Ways is nil if the way that packets take is
// not known.
func (l Lab) Claims(ways *Ways) []Claim {
	list := []Claim{l.passes()}
	if ways != nil {
		list = append(list, l.path(ways))
		if ways.wire != nil {
			list = append(list, Claim{
				Name: OnWire, Text: ways.wire.Text(), Wire: ways,
				Expected: "frames that are what the stack says, as long as it says",
			})
			if text := ways.wire.Hidden(); text != "" {
				list = append(list, Claim{
					Name: Hidden, Text: text, Hidden: ways, Expected: "no frame with the bytes that were sent", Tries: l.others(),
				})
			}
		}
	}
	if l.Filtered {
		list = append(list, l.refuses())
	}
	return list
}

// others are tries in other forms than datagrams of full size: what goes another way than those may not be encrypted.
func (l Lab) others() (list []Try) {
	for pair, p := range l.Pairs[:min(len(l.Pairs), refused)] {
		source, sink := l.container(p.Source), l.container(p.Sink)
		for _, family := range l.Families {
			for _, form := range []Form{Fragments, Stream} {
				list = append(list, Try{
					Name: fmt.Sprintf("pair %d, %s, %s", pair, family, form), Pair: pair, Family: family, Form: form,
					From: source.End(family, source.First), To: sink.End(family, sink.First),
					Payload: min(pieces*l.MTU, largest), Answered: true, Patience: l.Patience,
				})
			}
		}
	}
	return list
}

// path is that packets go the way of the plan. Of some workloads it is not known how many packets they take: of those
// the claim says no more than that datagrams of the proof do.
func (l Lab) path(ways *Ways) Claim {
	c := Claim{
		Name:     Path,
		Expected: "the plan's neighbours, and as many packets at each device as arrived, and no more than were sent",
		Ways:     ways,
		Text:     "packets go to the neighbours that the plan has, and were counted at every device on their way",
	}
	if ways.Text != "" {
		c.Text, c.Expected = ways.Text, "as many packets as arrived, and no more than strays where none is to pass"
	}
	if len(l.Uncounted) > 0 {
		c.Text += fmt.Sprintf(" (of %s: at least 1 packet, that of the proof)", strings.Join(l.Uncounted, ", "))
	}
	return c
}

// passes is that every pair passes packets of full size.
func (l Lab) passes() Claim {
	text := fmt.Sprintf("every pair passes packets of %d bytes both ways, unfragmented", l.MTU)
	c := Claim{Name: Passes, Expected: "an answer, equal byte by byte", Text: text}
	for pair, p := range l.Pairs {
		source, sink := l.container(p.Source), l.container(p.Sink)
		for _, family := range l.Families {
			if v6 := family == "ipv6"; sink.Own(v6) != sink.Public(v6) {
				// The sockets of both ends are connected: the sink's hears the source's own address alone, and the source's the
				// translated one.
				c.Text = text + ", to the translated address of its sink"
			}
			c.Tries = append(c.Tries, Try{
				Name: fmt.Sprintf("pair %d, %s", pair, family), Pair: pair, Family: family,
				From: source.End(family, source.First), To: sink.End(family, sink.First),
				Payload: FullPayload(l.MTU, family == "ipv6"), More: counted, Answered: true, Patience: l.Patience,
			})
		}
	}
	return c
}

// families are those of the addresses that containers have.
func families() []string { return []string{"ipv4", "ipv6"} }

// refuses is that what is not allowed does not pass: to a port of the sink that is not on the list, and to the sink of
// another pair at one that is. In a family in which no pair may talk, no port is on the list.
func (l Lab) refuses() Claim {
	c := Claim{
		Name: Refuses, Expected: "no answer", Failure: "the filter allows packets that it must refuse",
		Text: "no source is answered at a port of its sink that is not on the list, or by the sink of another pair",
	}
	for pair := range min(len(l.Pairs), refused) {
		others := []int{pair}
		if len(l.Pairs) > 1 {
			others = append(others, (pair+1)%len(l.Pairs))
		}
		for _, to := range others {
			source, sink := l.container(l.Pairs[pair].Source), l.container(l.Pairs[to].Sink)
			port, name := sink.Last, fmt.Sprintf("pair %d to a port that is not on the list", pair)
			if to != pair {
				port, name = sink.First, fmt.Sprintf("pair %d to the sink of pair %d", pair, to)
			}
			for _, family := range families() {
				at := port
				if !slices.Contains(l.Families, family) {
					at = sink.First // no port of that family is on the list
				}
				c.Tries = append(c.Tries, Try{
					Name: name + ", " + family, Pair: pair, Family: family,
					From: source.End(family, source.First), To: sink.End(family, at), Patience: l.Patience,
				})
			}
		}
	}
	return c
}

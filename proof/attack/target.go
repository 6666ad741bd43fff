package attack

import (
	"os"

	"github.com/nettoll/nettoll/proof"
)

// ErrShared says that the containers of a lab share the namespace of their host: nobody stands between them, and there
// is nothing to attack.
var ErrShared = proof.ErrShared

// A Target is a lab that is attacked.
type Target struct {
	proof.Lab
	// Open opens a network namespace of a host, counted from 0, by its name; "" is the host's own. The file is the
	// caller's to close.
	Open func(host int, namespace string) (*os.File, error)
	// Exhaustive asks for every port of a source, otherwise for some of every range.
	Exhaustive bool
	// Observe, if it is not nil, is told what begins.
	Observe func(a Attack, family string)
}

// An Attack is a family of tries.
type Attack string

// The attacks, in the order in which they are made. The last ones leave the lab confused.
const (
	// Answers: who answers when a container asks for a neighbour: one, and the right one.
	Answers Attack = "answers"
	// Detours: packets for other containers in frames for every other link there is.
	Detours Attack = "detours"
	// Bypass: packets that are allowed in frames for a link that a switch should have taken them from.
	Bypass Attack = "bypass"
	// Ports: from a source to ports of its sink, those at the ends of what is allowed among them.
	Ports Attack = "ports"
	// PortZero: from and to port 0, with every combination of flags of TCP.
	PortZero Attack = "port-zero"
	// Protocols: every protocol, as if it had the ports of a pair.
	Protocols Attack = "protocols"
	// Types: every type of ICMP.
	Types Attack = "types"
	// Options: ports that are refused behind options and headers that look like those of a pair.
	Options Attack = "options"
	// Wrapped: packets in frames that are none of IP.
	Wrapped Attack = "wrapped"
	// Fragments: packets in pieces whose ports and flags are apart.
	Fragments Attack = "fragments"
	// Replies: from a service's port to every port of the source.
	Replies Attack = "replies"
	// Stray: packets for an address of the host in frames for another container, which has taken that address.
	Stray Attack = "stray"
	// ToHost: packets for every address of every host, in frames for every link.
	ToHost Attack = "to-host"
	// FromHost: packets of the host for every container.
	FromHost Attack = "from-host"
	// Guise: with the address of somebody else, and with the MAC address too.
	Guise Attack = "guise"
	// Router: a container that says it is a router.
	Router Attack = "router"
	// Takeover: a container that says it has the address of another, or of the gateway.
	Takeover Attack = "takeover"
)

// All lists the attacks.
func All() []Attack {
	return []Attack{
		Answers, Detours, Bypass, Ports, PortZero, Protocols, Types, Options, Wrapped, Fragments, Replies,
		Stray, ToHost, FromHost, Guise, Router, Takeover,
	}
}

// An Outcome is what came of an attack in one family.
type Outcome struct {
	Attack Attack `json:"-"`
	Family string `json:"family"` // "ipv4", "ipv6"
	// Sent is how many packets were sent that the lab must refuse, or would have to.
	Sent int `json:"sent"`
	// Arrived is how many of those arrived, each counted once.
	Arrived int `json:"arrived"`
	// Holes are what arrived, in words, without repetition.
	Holes []string `json:"holes,omitempty"`
	// Missing are packets that are allowed and did not arrive: the attack shows nothing then.
	Missing []string `json:"missing,omitempty"`
}

package threat

// An Attack is a family of tries to get past what a stack protects.
type Attack string

// The attacks.
const (
	// Answers: who answers when a container asks for a neighbour: one, and the right one.
	Answers Attack = "answers"
	// Detours: packets for other containers in frames for every other link there is.
	Detours Attack = "detours"
	// Bypass: packets that are allowed in frames for a link that a switch should have taken them from.
	Bypass Attack = "bypass"
	// Misdirected: packets that are allowed in frames for others than the one that they are for.
	Misdirected Attack = "misdirected"
	// Ports: from a source to ports of its sink, those at the ends of what is allowed among them.
	Ports Attack = "ports"
	// PortZero: from and to port 0, with every combination of flags of TCP.
	PortZero Attack = "port-zero"
	// Protocols: every protocol, as if it had the ports of a pair.
	Protocols Attack = "protocols"
	// Types: every type of ICMP that is not an error.
	Types Attack = "types"
	// Options: ports that are refused behind options and headers that look like those of a pair.
	Options Attack = "options"
	// Wrapped: packets in frames that are none of IP.
	Wrapped Attack = "wrapped"
	// Fragments: packets in pieces whose ports and flags are apart, or that overlap.
	Fragments Attack = "fragments"
	// Replies: from a service's port to every port of the source.
	Replies Attack = "replies"
	// SynAck: answers to connections that nobody has begun.
	SynAck Attack = "syn-ack"
	// Errors: errors of ICMP, and redirects, that quote packets that nobody has sent.
	Errors Attack = "errors"
	// KnownErrors: errors of ICMP that quote a flow that goes on, from a container that has no part in it.
	KnownErrors Attack = "known-errors"
	// DHCP: a container that says it is a server of DHCP.
	DHCP Attack = "dhcp"
	// Listening: a container that listens to all that comes along at its link.
	Listening Attack = "listening"
	// Collusion: two containers that have both taken their own filters away.
	Collusion Attack = "collusion"
	// Abstract: abstract unix sockets of the host.
	Abstract Attack = "abstract"
	// Stray: packets for an address of the host in frames for another container, which has taken that address.
	Stray Attack = "stray"
	// ToHost: packets for every address of every host, in frames for every link.
	ToHost Attack = "to-host"
	// Services: connections to a service of a host that is bound to all of its addresses.
	Services Attack = "services"
	// FromHost: packets of the host for every container.
	FromHost Attack = "from-host"
	// Guise: with the address of somebody else, and with the MAC address too.
	Guise Attack = "guise"
	// Router: a container that says it is a router.
	Router Attack = "router"
	// Takeover: a container that says it has the address of another, or of the gateway, or redirects as the gateway.
	Takeover Attack = "takeover"
	// MACFlood: frames from so many MAC addresses that a switch forgets those of others.
	MACFlood Attack = "mac-flood"
	// TableFull: refused packets while the connection table of a host is full.
	TableFull Attack = "table-full"
	// Starvation: a full connection table that leaves no room for the connections of others.
	Starvation Attack = "starvation"
)

// All lists the attacks, in the order in which they are made. The last ones leave a lab confused.
func All() []Attack {
	return []Attack{
		Answers, Detours, Bypass, Misdirected, Ports, PortZero, Protocols, Types, Options, Wrapped, Fragments, Replies,
		SynAck, Errors, KnownErrors, DHCP, Listening, Collusion, Abstract, Stray, ToHost, Services, FromHost, Guise,
		Router, Takeover, MACFlood, TableFull, Starvation,
	}
}

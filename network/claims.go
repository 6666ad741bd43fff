package network

import (
	"slices"

	"github.com/nettoll/nettoll/proof/threat"
)

// Passes is what networks claim whose containers have links of their own: packets take the way that the network says.
// What may go that way is a filter's business. A network adds what it says about its own links: [Floods] or
// [Separate].
func Passes() threat.Claims {
	return slices.Concat(
		threat.Withstands(threat.Answers, threat.Bypass),
		threat.Leaves("the network itself passes whatever containers send",
			threat.Detours, threat.Misdirected, threat.Ports, threat.PortZero, threat.Protocols, threat.Types, threat.Options,
			threat.Wrapped, threat.Fragments, threat.Replies, threat.SynAck, threat.Errors, threat.KnownErrors,
			threat.Collusion, threat.Stray, threat.TableFull),
		threat.Leaves("the network itself passes what containers send to their host", threat.ToHost, threat.Services),
		threat.Leaves("the network itself passes what hosts send", threat.FromHost),
		threat.Leaves("the network itself does not limit how many connections a container has", threat.Starvation),
	)
}

// Believes is what a network says whose containers can take the addresses of others, and why.
func Believes(why string) threat.Claims { return threat.Leaves(why, threat.Guise, threat.Takeover) }

// Floods is what a network says whose containers are neighbours on a switch that learns addresses.
func Floods(who string) threat.Claims {
	return slices.Concat(
		Believes(who+" learns every address from whoever sends with it"),
		threat.Leaves(who+" passes broadcasts to all containers", threat.DHCP, threat.Router),
		threat.Leaves(who+" sends frames for an address that it does not know to all containers", threat.Listening,
			threat.MACFlood),
	)
}

// Separate is what a network claims that has a link of its own to each container and knows by itself which addresses
// are behind it: it sends a packet to nobody but the container whose address it has, whatever others say, takes frames
// for a container from its host alone, and passes no broadcasts between containers. An offer of DHCP need not be one.
// Who says what the network does with the source of a packet.
func Separate(who string) threat.Claims {
	return slices.Concat(
		threat.Withstands(threat.Misdirected, threat.Router, threat.Listening, threat.MACFlood, threat.Stray,
			threat.Takeover),
		threat.Leaves(who, threat.Guise),
		threat.Leaves("the network itself passes offers of DHCP for one container", threat.DHCP),
	)
}

// Shared is what a network says whose containers share the namespace of their host.
func Shared() threat.Claims {
	return threat.Leaves("containers share the namespace of their host, so nothing separates them", threat.All()...)
}

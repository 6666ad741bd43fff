package filter

import (
	"slices"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// Claims returns what every filter claims, by what it does with errors of ICMP, where it stands, and its parameters:
// nothing arrives that is not on its list. If addresses are bound to links, nothing arrives with the address of
// somebody else, whoever sends it, and no container gets packets for another one.
func Claims(errors func(part.Params) Errors) func(at network.Point, p part.Params) threat.Claims {
	return func(at network.Point, p part.Params) threat.Claims {
		return slices.Concat(
			threat.Withstands(threat.Detours, threat.Ports, threat.PortZero, threat.Protocols, threat.Types, threat.Options,
				threat.Wrapped, threat.Fragments, threat.Replies, threat.SynAck, threat.Errors, threat.DHCP, threat.Stray,
				threat.Router, threat.TableFull),
			standing(at), ofErrors(errors(p)), ofAddresses(at, p), ofConnections(p),
		)
	}
}

// standing is what a filter claims about hosts, and about containers whose root has taken over.
func standing(at network.Point) threat.Claims {
	if at != network.InContainer {
		return slices.Concat(
			threat.Withstands(threat.ToHost, threat.Services, threat.Collusion),
			threat.Leaves("packets that the host itself sends are not filtered", threat.FromHost),
		)
	}
	return slices.Concat(
		threat.Withstands(threat.FromHost),
		threat.Leaves("a filter inside a container can be taken away by the container's own root", threat.Collusion),
		threat.Leaves("a filter inside containers does not stand before the host", threat.ToHost, threat.Services),
	)
}

func ofErrors(how Errors) threat.Claims {
	if how == ByConnection {
		return threat.Leaves("connection tracking lets errors pass that quote a known flow, whoever sends them",
			threat.KnownErrors)
	}
	return threat.Withstands(threat.KnownErrors)
}

func ofAddresses(at network.Point, p part.Params) threat.Claims {
	switch {
	case at == network.InContainer:
		return slices.Concat(believes(), threat.Leaves("a filter inside a container stands behind the link, where the "+
			"container's own root reads frames", threat.Misdirected))
	case !p.On(Antispoof):
		return slices.Concat(believes(), threat.Leaves("without antispoof=true the filter does not look at the MAC address "+
			"that a frame is for", threat.Misdirected))
	}
	return threat.Withstands(threat.Guise, threat.Takeover, threat.Misdirected)
}

func believes() threat.Claims {
	return threat.Leaves("without antispoof=true the filter believes the addresses that containers send with",
		threat.Guise, threat.Takeover)
}

func ofConnections(p part.Params) threat.Claims {
	if !p.On(Stateful) {
		return nil
	}
	return threat.Leaves("two containers that may talk can fill the table of connections, which their host has for all",
		threat.Starvation)
}

package network

import "github.com/nettoll/nettoll/part"

// A Crosser is a network whose own programs may take packets of containers to other hosts: they set the routes, and may
// have a tunnel. No tunnel and no encryption of nettoll stands between hosts then.
type Crosser interface {
	// Crosses says whether that is so.
	Crosses(p part.Params) bool
	// Cross returns the span that these programs make on the uppermost one of the lab. ok is false if they give it the
	// packets of containers as they are. It is pure, and is asked only if the network crosses with the lab's parameters.
	Cross(lab Lab) (s Span, ok bool, err error)
}

// crosses says whether programs of the network take its packets to other hosts.
func crosses(n any, p part.Params) bool {
	c, ok := n.(Crosser)
	return ok && c.Crosses(p)
}

// Cross adds to a composed lab what programs of its network make between hosts, see [Crosser]. The lab has the
// parameters of the network.
func Cross(n any, lab Lab) (Lab, error) {
	if len(lab.Hosts) < 2 || !crosses(n, lab.Params) {
		return lab, nil
	}
	//nolint:forcetypeassert // crosses has seen it
	s, ok, err := n.(Crosser).Cross(lab)
	if err != nil || !ok {
		return lab, err
	}
	lab.Spans = append(lab.spans(), s)
	return lab.fit()
}

// An IPv4Only network may give containers no addresses of IPv6.
type IPv4Only interface {
	// IPv4Only says whether that is so.
	IPv4Only(p part.Params) bool
}

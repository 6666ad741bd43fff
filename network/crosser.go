package network

import "github.com/nettoll/nettoll/part"

// A Crosser is a network that may take packets of containers to other hosts itself, by a segment or by programs of its
// own. Hosts have no routes of nettoll to each other's containers then.
type Crosser interface {
	// Crosses says whether that is so.
	Crosses(p part.Params) bool
	// Alone says that no tunnel and no encryption of a stack can stand below: programs of the network choose the way.
	Alone(p part.Params) bool
	// Cross returns the span that the network makes on the uppermost one of the lab. ok is false if it gives that the
	// packets of containers as they are. It is pure, and is asked only if the network crosses with the lab's parameters.
	// Where the span cannot be, the error is an [UnfitError].
	Cross(lab Lab) (s Span, ok bool, err error)
}

// crosses says whether a network takes packets of its containers to other hosts itself.
func crosses(n any, p part.Params) bool {
	c, ok := n.(Crosser)
	return ok && c.Crosses(p)
}

// Cross adds to the spans of a lab what its network makes between hosts, see [Crosser]. The lab has the parameters of
// the network.
func Cross(n Network, lab Lab) (Lab, error) {
	if len(lab.Hosts) < 2 || !crosses(n, lab.Params) {
		return lab, nil
	}
	//nolint:forcetypeassert // crosses has seen it
	s, ok, err := n.(Crosser).Cross(lab)
	if err != nil || !ok {
		return lab, err
	}
	if lab, err = lab.stand(s, "network "+n.Describe().Name); err != nil {
		return lab, err
	}
	return lab.fit()
}

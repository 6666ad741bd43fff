package network

import "slices"

// An Inlet is a link of a host by which packets of other hosts arrive: that to the underlay, and those of what carries
// packets there. What is inside a packet of a tunnel or an encryption arrives once more, by the link of that.
type Inlet struct {
	Link string
	// Host says that packets for the host itself arrive there: those that carry others inside, and all on the underlay. By
	// the links of a tunnel or an encryption on which none other stands, only packets of containers arrive.
	Host bool
	// Type is the EtherType of the frames of what stands on the underlay without IP, as MACsec does; 0 if nothing does.
	Type uint16
}

// Inlets returns the links by which packets of other hosts arrive at a host, the lowest first: none in a lab of one
// host.
func (l Lab) Inlets(h Host) []Inlet {
	if len(l.Hosts) < 2 {
		return nil
	}
	list, spans := []Inlet{{Link: h.Uplink, Host: true}}, l.spans()
	if len(spans) > 1 {
		for _, p := range spans[1].Wire {
			if p.Number >= leastEtherType {
				list[0].Type = uint16(p.Number)
			}
		}
	}
	for i, s := range spans {
		if s.Secluded.NS != "" {
			continue // the host itself receives nothing there
		}
		for j, r := range s.Reach[h.Index-1] {
			// a span that is addressed has no link of its own
			if j != h.Index-1 && !slices.ContainsFunc(list, func(in Inlet) bool { return in.Link == r.Link }) {
				list = append(list, Inlet{Link: r.Link, Host: i < len(spans)-1})
			}
		}
	}
	return list
}

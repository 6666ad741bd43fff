package network

import "github.com/nettoll/nettoll/host"

// Mesh adds to the steps of a span of layer 2 what joins all hosts by one link on each: its addresses there, and
// permanent neighbour entries for the links of the other hosts. So no host asks for another, and no frame is for all.
// The steps that make the links are there already.
func (l Lab) Mesh(top Span) {
	for i, h := range l.Hosts {
		own := top.Reach[i][i]
		v4, v6 := SpanAddr(len(l.Spans), h.Index)
		top.Steps[i] = append(top.Steps[i], host.Link{
			Name: own.Link, MTU: top.MTU, Addresses: []string{v4.String(), v6.String()}, Up: true,
		})
		for j, r := range top.Reach[i] {
			if j != i {
				top.Steps[i] = append(top.Steps[i], host.Neighbour{
					Dev: r.Link, Addresses: []string{r.IPv4.String(), r.IPv6.String()}, At: r.MAC,
				})
			}
		}
	}
}

package proof

import (
	"slices"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// A matrix has every container resolve the addresses of all others. All network namespaces share the table of
// neighbours (gc_thresh3, net/core/neighbour.c). In labs with ten pairs it was full after the first matrix, and
// remained so during the trials. So what a proof adds is removed after it.

// remember notes the neighbours that a member knows, in the calling thread's namespace.
func (m *member) remember() {
	h, err := link.Open()
	if err != nil {
		return // nothing will be removed
	}
	defer h.Close()
	m.knew, err = h.Learned()
	m.remembers = err == nil
}

// forget removes the neighbours that a member did not know before. An entry that stays only takes up room.
func (m *member) forget() error {
	h, err := link.Open()
	if err != nil {
		return err
	}
	defer h.Close()
	known, err := h.Learned()
	if err != nil {
		return err
	}
	for _, n := range known {
		if !slices.ContainsFunc(m.knew, func(k link.Neighbour) bool { return k.Link == n.Link && k.Address == n.Address }) {
			_ = h.DeleteNeighbour(n)
		}
	}
	return nil
}

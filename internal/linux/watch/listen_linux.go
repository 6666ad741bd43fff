package watch

import (
	"cmp"
	"slices"
)

// Listen takes the sockets that there are now for known.
func (n *Namespace) Listen() error {
	n.listening, n.listened = nil, nil
	for _, k := range hearings() {
		if n.sockets == nil {
			return nil
		}
		list, err := n.hear(k)
		if err != nil && absent(err) {
			n.sockets.close()
			n.sockets = nil
			n.missing = append(n.missing, "sockets")
			return nil
		}
		if err != nil {
			return err
		}
		n.listening, n.listened = append(n.listening, list), append(n.listened, n.audits)
	}
	return nil
}

// heard lists the sockets of a kind that are new: of each kind in turn, or of all.
func (n *Namespace) heard(all bool) (list []Socket, err error) {
	if n.sockets == nil {
		return nil, nil
	}
	n.turn++
	for i, k := range hearings() {
		if !all && n.turn%len(hearings()) != i {
			continue
		}
		is, err := n.hear(k)
		if err != nil {
			return nil, err
		}
		for _, s := range is {
			if _, known := slices.BinarySearchFunc(n.listening[i], s, func(a, b Socket) int {
				return cmp.Compare(a.Name, b.Name)
			}); !known {
				s.Back = n.audits - n.listened[i]
				list = append(list, s)
			}
		}
		n.listening[i], n.listened[i] = is, n.audits
	}
	return list, nil
}

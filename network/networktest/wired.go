package networktest

import (
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// Wired asks the network about its own parameters.
func (v variant) Wired(part.Params) (wired, moved bool) {
	w, ok := v.Network.(network.Wired)
	if !ok {
		return false, false
	}
	return w.Wired(v.params)
}

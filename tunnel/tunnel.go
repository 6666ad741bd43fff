package tunnel

import (
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// A Tunnel is a part that carries packets between hosts.
type Tunnel interface {
	// Describe says what it is.
	Describe() part.Description
	network.Carrier
}

package encryption

import (
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// An Encryption is a part that protects packets between hosts: what a tunnel puts on the wire, or what the hosts route
// where there is no tunnel.
type Encryption interface {
	// Describe says what it is.
	Describe() part.Description
	network.Carrier
}

package encryption

import (
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// An Encryption is a part that protects packets between hosts: those of a tunnel or, without a tunnel, those that the
// hosts route.
type Encryption interface {
	// Describe says what it is.
	Describe() part.Description
	network.Carrier
}

package tunneltest

import (
	"fmt"
	"testing"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/tunnel"
)

// Conformance runs the suite of carriers on a tunnel with the parameters given, see [carriertest.Conformance]. Payloads
// pass the underlay as they are, in frames that are longer by the overhead.
func Conformance(t *testing.T, one tunnel.Tunnel, given map[string]string, on ...network.Network) {
	carriertest.Conformance(t, tunnel.Kind{one}, given, whole, on...)
}

// Brief runs a part of it, under one network, see [carriertest.Brief].
func Brief(t *testing.T, one tunnel.Tunnel, given map[string]string, on network.Network) {
	carriertest.Brief(t, tunnel.Kind{one}, given, whole, on)
}

// whole wants payloads in both directions, in frames of the length that the overhead says.
func whole(p carriertest.Passage) error {
	for i, frames := range p.Frames {
		found := 0
		for _, f := range frames {
			if !p.Readable(f) {
				continue
			}
			if len(f) != p.Length() {
				return fmt.Errorf("they pass the underlay in frames of %d bytes, and the overhead says %d", len(f), p.Length())
			}
			found++
		}
		if found == 0 {
			return fmt.Errorf("from host %d they do not pass the underlay as they are", i+1)
		}
	}
	return nil
}

package encryptiontest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/nettoll/nettoll/encryption"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/carriertest"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/proof/wire"
)

// An Outer is how the encrypted packets of an encryption are recognized on the span below.
type Outer struct {
	// EtherType is that of frames which hold no packet of IP, 0 of others.
	EtherType uint16
	// Protocol is that of IP: 17 for UDP, 50 for ESP.
	Protocol byte
	// Port is the destination port of UDP.
	Port uint16
}

// Conformance runs the suite of carriers on an encryption with the parameters given, see [carriertest.Conformance]. No
// payload can be read on the underlay, in either direction and from the first packet on. Packets that were changed,
// repeated or never encrypted are not delivered.
func Conformance(t *testing.T, one encryption.Encryption, given map[string]string, o Outer, on ...network.Network) {
	kind := encryption.Kind{one}
	carriertest.Conformance(t, kind, given, o.Hidden, on...)
	between := carriertest.Choose(t, kind, given)
	t.Run(between[0].ID()+"/forged", func(t *testing.T) {
		testnet.Turn(t)
		if err := Forged(t, on[0], between, wire.Cut); errors.Is(err, errors.ErrUnsupported) {
			testnet.Skip(t, err)
		} else if err != nil {
			t.Error(err)
		}
	})
}

// Hidden wants no payload in any frame, and encrypted packets of the right length in both directions.
func (o Outer) Hidden(p carriertest.Passage) error {
	for i, frames := range p.Frames {
		found := 0
		for _, f := range frames {
			if p.Readable(f) {
				return fmt.Errorf("a frame of %d bytes from host %d holds the payload", len(f), i+1)
			}
			if o.payload(f, p.Span.Outer) > 0 && len(f) == p.Length() {
				found++
			}
		}
		if found < networktest.Exchanged {
			return fmt.Errorf("of %d frames from host %d %d are encrypted packets of %d bytes, and %d were sent", len(frames),
				i+1, found, p.Length(), networktest.Exchanged)
		}
	}
	return nil
}

// Where headers stand in a frame: IEEE 802.3 section 3.1.1, RFC 791 section 3.1, RFC 8200 section 3, RFC 768.
const (
	ethernet = 14
	header4  = 20
	header6  = 40
	udp      = 8
)

// payload returns where that begins which an encrypted packet holds; 0 if the frame is something else.
func (o Outer) payload(f []byte, family string) int {
	if o.EtherType != 0 {
		if len(f) < ethernet || binary.BigEndian.Uint16(f[12:]) != o.EtherType {
			return 0
		}
		return ethernet
	}
	at, kind, protocol := ethernet+header4, uint16(0x0800), ethernet+9
	if family == "ipv6" {
		at, kind, protocol = ethernet+header6, 0x86dd, ethernet+6
	}
	if len(f) < at+udp || binary.BigEndian.Uint16(f[12:]) != kind || f[protocol] != o.Protocol {
		return 0
	}
	if o.Port == 0 {
		return at
	}
	if binary.BigEndian.Uint16(f[at+2:]) != o.Port {
		return 0
	}
	return at + udp
}

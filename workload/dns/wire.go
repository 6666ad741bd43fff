package dns

import (
	"fmt"

	"golang.org/x/net/dns/dnsmessage"
)

// The wire format: RFC 1035, section 4.1 (header, question, record), RFC 3596 (AAAA), RFC 6891 (OPT).
const (
	headerSize = 12
	fixedSize  = 10  // bytes of a record after its name: type, class, time to live, length
	longest    = 255 // bytes of a name (RFC 1035, section 2.3.4)

	plainLimit = 512 // bytes of an answer over UDP to a client that announces no larger size (RFC 1035, section 4.2.1)
	// the largest answer that the server sends to other clients; larger than the 1232 of common servers since DNS flag
	// day 2020
	ednsLimit  = 4096
	messageMax = 1 << 16

	typeA, typeAAAA, typeOPT, typeAny = 1, 28, 41, 255
	classIN                           = 1

	labelMax = 63                      // bytes of a label (section 2.3.4): the next two upper bits are reserved
	pointer  = 0xc0                    // the two upper bits of a length: the name continues elsewhere (section 4.1.4)
	question = pointer<<8 | headerSize // the pointer to the question's name

	flagResponse, flagAuthority, flagTruncated, flagRecursion = 0x8000, 0x0400, 0x0200, 0x0100 // QR, AA, TC, RD
	opcodeMask, rcodeMask                                     = 0x7800, 0x000f

	noError, formErr, nxDomain, notImp, refused = 0, 1, 3, 4, 5
	badVers                                     = 16 // RFC 6891, section 9: its upper bits are in the OPT record

	// lifetime is the lifetime of the records, in s: CoreDNS gives 5 to those of a cluster (plugin kubernetes, "ttl").
	lifetime = 5
)

// The names of [workload.Service] on the wire.
const (
	firstLabel = 8 // bytes: svc-0017
	prefix     = "svc-"
	suffix     = "\x07default\x03svc\x07cluster\x05local\x00"
	cluster    = "\x07cluster\x05local\x00"
	questionAt = 1 + firstLabel + len(suffix) // bytes of a name on the wire
)

// put16 and get16 write and read numbers in messages.
//
//go:nosplit
func put16(b []byte, at int, v uint16) { b[at], b[at+1] = byte(v>>8), byte(v) }

//go:nosplit
func get16(b []byte, at int) uint16 { return uint16(b[at])<<8 | uint16(b[at+1]) }

// address writes an address of a service, derived from the service's number and the number of the address, and returns
// its length. Clusters of kubeadm have their services in 10.96.0.0/12; fd00:10:96::/96 is the equivalent in IPv6.
//
//go:nosplit
func address(b []byte, kind uint16, name, number int) int {
	if kind == typeAAAA {
		copy(b, "\xfd\x00\x00\x10\x00\x96\x00\x00\x00\x00\x00\x00")
		put16(b, 12, uint16(number))
		put16(b, 14, uint16(name))
		return 16
	}
	b[0], b[1], b[2], b[3] = 10, 96+byte(number>>2)&0xf, byte(number)<<6|byte(name>>8), byte(name)
	return 4
}

// query makes a query for a name. size, if it is not 0, is the answer size in bytes that the client announces (EDNS).
func query(name string, kind uint16, size int) ([]byte, error) {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, fmt.Errorf("name %q: %w", name, err)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: dnsmessage.Type(kind), Class: dnsmessage.ClassINET}},
	}
	if size > 0 {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(size, dnsmessage.RCodeSuccess, false); err != nil {
			return nil, fmt.Errorf("announce %d bytes: %w", size, err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	}
	return m.Pack()
}

// A marker is a query that ends a trial: for a name that cannot exist (RFC 6761, section 6.4), with the trial's id in
// it. Any server denies it.
const (
	markerLabel = 16 // hexadecimal digits
	markerTail  = "\x07nettoll\x07invalid\x00"
	markerSize  = headerSize + 1 + markerLabel + len(markerTail) + 4
)

// putMarker writes the marker of a trial.
//
//go:nosplit
func putMarker(b *[markerSize]byte, trial uint64) {
	const hex = "0123456789abcdef"
	*b = [markerSize]byte{2: flagRecursion >> 8, 5: 1, headerSize: markerLabel}
	for i := range markerLabel {
		b[headerSize+1+i] = hex[trial>>(4*(markerLabel-1-i))&0xf]
	}
	at := headerSize + 1 + markerLabel + copy(b[headerSize+1+markerLabel:], markerTail)
	b[at+1], b[at+3] = typeA, classIN
}

// marks reports whether a message is the marker, or its answer: their names are the same.
//
//go:nosplit
func marks(m []byte, marker *[markerSize]byte) bool {
	if len(m) < markerSize || m[headerSize] != markerLabel {
		return false
	}
	for i := headerSize; i < markerSize; i++ {
		if m[i] != marker[i] {
			return false
		}
	}
	return true
}

// frame is the number of bytes before a message in a stream: its length (RFC 1035, section 4.2.2).
const frame = 2

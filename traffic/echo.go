package traffic

import "encoding/binary"

// Echo says how requests are ICMP echo requests, RFC 792 and RFC 4443: type, code, checksum, identifier, sequence
// number, data.
type Echo int

// Kinds of echo.
const (
	NoEcho       Echo = iota
	EchoFinished      // the kernel fills in identifier and checksum
	EchoRaw           // the kernel fills in neither
)

// EchoHeader is the number of bytes before the data.
const EchoHeader = 8

// Types of echo requests.
const (
	echoRequest4 = 8
	echoRequest6 = 128
)

// StartEcho writes the part that all requests with an identifier have in common.
func StartEcho(buf []byte, ipv6 bool, identifier uint16) {
	buf[0], buf[1] = echoRequest4, 0
	if ipv6 {
		buf[0] = echoRequest6
	}
	binary.BigEndian.PutUint16(buf[4:], identifier)
}

// rest returns the contribution to a request's checksum of the data after nettoll's header, which is the same in all
// requests (RFC 1071).
func (k Echo) rest(buf []byte) uint32 {
	if k != EchoRaw {
		return 0
	}
	sum := uint32(0) // of at most 2^15 words
	for i, b := range buf[EchoHeader+HeaderSize:] {
		sum += uint32(b) << (8 * (1 - i%2))
	}
	return sum&0xffff + sum>>16
}

// finish writes the sequence number and, unless the kernel does it, the checksum.
//
//go:nosplit
func (k Echo) finish(buf []byte, seq uint64, rest uint32) {
	if k == NoEcho {
		return
	}
	b := (*[EchoHeader + HeaderSize]byte)(buf)
	b[6], b[7] = byte(seq>>8), byte(seq)
	if k != EchoRaw {
		return
	}
	b[2], b[3] = 0, 0
	sum := rest
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	sum = sum&0xffff + sum>>16
	sum += sum >> 16
	b[2], b[3] = byte(^sum>>8), byte(^sum)
}

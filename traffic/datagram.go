package traffic

import "encoding/binary"

// Datagram layout, little endian: the beginning of every datagram of nettoll. The rest of the payload is noise, see
// [Payload].
const (
	HeaderSize = 24 // bytes: trial id, sequence number, time

	// The time in a header is in ns since the opening of the trial. It is when the datagram was sent or, on a schedule
	// (except for under-load), when it was due. So a machine can tell whether a datagram belongs to the window without
	// the clock of another machine.

	// Marker as sequence number marks the end of the trial.
	Marker = ^uint64(0)
)

// PutHeader writes a datagram's header; buf holds at least [HeaderSize] bytes.
func PutHeader(buf *[HeaderSize]byte, trial, seq uint64, since int64) {
	binary.LittleEndian.PutUint64(buf[0:], trial)
	binary.LittleEndian.PutUint64(buf[8:], seq)
	binary.LittleEndian.PutUint64(buf[16:], uint64(since))
}

// Header reads a datagram's header.
func Header(buf *[HeaderSize]byte) (trial, seq uint64, since int64) {
	return binary.LittleEndian.Uint64(buf[0:]), binary.LittleEndian.Uint64(buf[8:]),
		int64(binary.LittleEndian.Uint64(buf[16:]))
}

// PutMarker writes an end marker; number counts repetitions.
func PutMarker(buf *[HeaderSize]byte, trial uint64, number int) {
	PutHeader(buf, trial, Marker, int64(number))
}

package pcapng

import (
	"encoding/binary"
	"time"
)

// A Frame is an Ethernet frame that a link has received.
type Frame struct {
	Link int // index of the file's link
	At   time.Time
	Data []byte
}

// Types of blocks, and codes of options (sections 4.1 to 4.3).
const (
	section   = 0x0a0d0d0a
	iface     = 1
	enhanced  = 6
	byteOrder = 0x1a2b3c4d

	ifName     = 2
	ifTSResol  = 9
	nanosecond = 9 // of ifTSResol: 10 to the power of -9 s

	ethernet = 1 // LINKTYPE_ETHERNET
)

// Encode returns a file with links of these names, and with their frames.
func Encode(links []string, frames []Frame) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, byteOrder)
	b = le.AppendUint16(le.AppendUint16(b, 1), 0) // version 1.0
	b = le.AppendUint64(b, 1<<64-1)               // the length of the section is unknown
	file := block(nil, section, b)
	for _, name := range links {
		b = le.AppendUint16(le.AppendUint16(b[:0], ethernet), 0)
		b = le.AppendUint32(b, 0) // frames are whole
		b = option(b, ifName, []byte(name))
		b = option(b, ifTSResol, []byte{nanosecond})
		file = block(file, iface, option(b, 0, nil))
	}
	for _, f := range frames {
		at := uint64(f.At.UnixNano())
		b = le.AppendUint32(b[:0], uint32(f.Link))
		b = le.AppendUint32(le.AppendUint32(b, uint32(at>>32)), uint32(at))
		b = le.AppendUint32(le.AppendUint32(b, uint32(len(f.Data))), uint32(len(f.Data)))
		file = block(file, enhanced, padded(b, f.Data))
	}
	return file
}

// block appends a block of a type, with its length before and after it.
func block(file []byte, kind uint32, body []byte) []byte {
	const around = 12
	le, length := binary.LittleEndian, uint32(len(body)+around)
	file = le.AppendUint32(le.AppendUint32(file, kind), length)
	return le.AppendUint32(append(file, body...), length)
}

func option(b []byte, code uint16, value []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, code)
	return padded(binary.LittleEndian.AppendUint16(b, uint16(len(value))), value)
}

// padded appends bytes, padded with zeros to a multiple of four.
func padded(b, data []byte) []byte {
	return append(append(b, data...), make([]byte, -len(data)&3)...)
}

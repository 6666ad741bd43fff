package traffic

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// NewHistogram returns an empty HDR histogram with the recorders' geometry, in nanoseconds.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, Longest, Digits) }

const (
	mostEncoded = 512 << 10 // bytes of an encoded histogram: all slots with counts of 9 bytes are 252 KiB in base64
	mostCounted = 1 << 40   // durations in one histogram: more than an hour of 100 million a second

	encodedHead = 8  // bytes before the compressed data: a cookie and a length
	plainHead   = 40 // bytes, see [hdrhistogram.ENCODING_HEADER_SIZE]
)

// DecodeHistogram reads a histogram of one trial in the V2 compressed encoding of HdrHistogram, base64. The data may be
// hostile. Only the recorders' own geometry is accepted, and it is checked before anything else is allocated, so that
// hostile data takes no more memory than valid data. The error names what is wrong.
func DecodeHistogram(text string) (h *hdrhistogram.Histogram, err error) {
	if len(text) > mostEncoded {
		return nil, fmt.Errorf("a histogram of %d bytes (at most %d)", len(text), mostEncoded)
	}
	if err := checkGeometry(text); err != nil {
		return nil, err
	}
	if h, err = hdrhistogram.Decode([]byte(text)); err != nil {
		return nil, err
	}
	if n := h.TotalCount(); n < 0 || n > mostCounted {
		return nil, fmt.Errorf("a histogram of %d durations (at most %d)", n, int64(mostCounted))
	}
	return h, nil
}

// checkGeometry reads only the head of an encoded histogram.
func checkGeometry(text string) error {
	r := base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(text)))
	if _, err := io.CopyN(io.Discard, r, encodedHead); err != nil {
		return errors.New("a histogram without a head")
	}
	z, err := zlib.NewReader(r)
	if err != nil {
		return fmt.Errorf("a histogram that is not compressed: %w", err)
	}
	defer z.Close()
	var head [plainHead]byte
	if _, err := io.ReadFull(z, head[:]); err != nil {
		return fmt.Errorf("a histogram without a head: %w", err)
	}
	// cookie, length of what follows, offset, digits: 4 bytes each; lowest and highest value: 8 bytes each
	digits, lowest, highest := int32(binary.BigEndian.Uint32(head[12:])), int64(binary.BigEndian.Uint64(head[16:])),
		int64(binary.BigEndian.Uint64(head[24:]))
	if digits != Digits || lowest != 1 || highest != Longest {
		return fmt.Errorf("a histogram of %d digits from %d to %d ns (want %d digits from 1 to %d ns)", digits, lowest,
			highest, Digits, Longest)
	}
	return nil
}

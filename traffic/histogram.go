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

// NewHistogram returns an empty HDR histogram of the recorders' geometry, values in nanoseconds.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, Longest, Digits) }

const (
	mostEncoded = 512 << 10 // bytes of an encoded histogram: all slots with counts of 9 bytes are 252 KiB in base64
	mostCounted = 1 << 40   // durations in one: more than an hour of 100 million a second

	encodedHead = 8  // bytes before what is compressed: a cookie and a length
	plainHead   = 40 // bytes, see [hdrhistogram.ENCODING_HEADER_SIZE]
)

// DecodeHistogram reads a histogram of one trial in the V2 compressed encoding of HdrHistogram, base64. It may come
// from a stranger: only the recorders' own geometry is accepted, which is looked at before there is room for anything
// else, so that it takes no more memory than an honest one. The error names what is not as it should be.
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

// checkGeometry reads the head of an encoded histogram, and no more of it.
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
	// cookie, length of what follows, offset, digits: 4 bytes each; lowest and highest value: 8 each
	digits, lowest, highest := int32(binary.BigEndian.Uint32(head[12:])), int64(binary.BigEndian.Uint64(head[16:])),
		int64(binary.BigEndian.Uint64(head[24:]))
	if digits != Digits || lowest != 1 || highest != Longest {
		return fmt.Errorf("a histogram of %d digits from %d to %d ns (want %d digits from 1 to %d ns)", digits, lowest,
			highest, Digits, Longest)
	}
	return nil
}

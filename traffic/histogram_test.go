package traffic

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// encoded returns a histogram in the form in which an end sends it.
func encoded(t testing.TB, h *hdrhistogram.Histogram) string {
	t.Helper()
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written returns data with the head of a histogram, followed by arbitrary data.
func written(t testing.TB, length, digits int32, lowest, highest int64, payload []byte) string {
	t.Helper()
	head := binary.BigEndian.AppendUint32(nil, uint32(hdrhistogram.V2EncodingCookieBase|0x10))
	for _, n := range []int32{length, 0, digits} {
		head = binary.BigEndian.AppendUint32(head, uint32(n))
	}
	for _, n := range []int64{lowest, highest, int64(math.Float64bits(1))} {
		head = binary.BigEndian.AppendUint64(head, uint64(n))
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	for _, p := range [][]byte{head, payload} {
		if _, err := z.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(hdrhistogram.V2CompressedEncodingCookieBase|0x10))
	out = binary.BigEndian.AppendUint32(out, uint32(packed.Len()))
	return base64.StdEncoding.EncodeToString(append(out, packed.Bytes()...))
}

// Everything that a recorder can hold is read back unchanged, including the largest histogram.
func TestDecodeHistogram(t *testing.T) {
	few, full := NewHistogram(), NewHistogram()
	for _, ns := range []int64{0, 17, 30_000, Longest} {
		if err := few.RecordValues(ns, 3); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(slots) {
		// counts that do not compress, as long as those of a recorder can be
		if err := full.RecordValues(slotValue(i), int64(i*2654435761%(1<<25)+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []*hdrhistogram.Histogram{NewHistogram(), few, full} {
		text := encoded(t, want)
		got, err := DecodeHistogram(text)
		if err != nil || !got.Equals(want) {
			t.Errorf("%d bytes, %d durations: not what was encoded (%v)", len(text), want.TotalCount(), err)
		}
	}
}

// bombs are data that a hostile end could send: a few bytes that would take a lot of memory, or figures that nobody
// measured.
func bombs(t testing.TB) map[string]string {
	wide := hdrhistogram.New(1, math.MaxInt64, 5)
	if err := wide.RecordValue(1); err != nil {
		t.Fatal(err)
	}
	many := NewHistogram()
	if err := many.RecordValues(1000, math.MaxInt64/2); err != nil {
		t.Fatal(err)
	}
	const huge = 64 << 20
	return map[string]string{
		"more bins":          encoded(t, wide),
		"another range":      encoded(t, hdrhistogram.New(1, 2*Longest, Digits)),
		"too many durations": encoded(t, many),
		"a long payload":     written(t, huge, Digits, 1, Longest, make([]byte, huge)),
		"a false length":     written(t, 4, Digits, 1, Longest, make([]byte, huge)),
		"a long text":        strings.Repeat("A", mostEncoded+4),
		"no head":            "AAAA",
		"no base64":          "%%%%",
		"no compression":     base64.StdEncoding.EncodeToString(make([]byte, 64)),
		"nothing compressed": base64.StdEncoding.EncodeToString(append(make([]byte, 8), 0x78, 0x9c, 3, 0, 0, 0, 0, 1)),
	}
}

// Hostile data in place of a histogram is an error, and takes no more memory than valid data.
func TestHistogramBombs(t *testing.T) {
	const most = 4 << 20 // bytes
	for name, text := range bombs(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodeHistogram(text)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > most {
			t.Errorf("%s, %d bytes: error %v, and it took %d bytes, want at most %d", name, len(text), err, took, most)
		}
	}
}

func FuzzDecodeHistogram(f *testing.F) {
	for _, text := range bombs(f) {
		if len(text) < 64<<10 {
			f.Add(text)
		}
	}
	f.Add(encoded(f, NewHistogram()))
	f.Fuzz(func(t *testing.T, text string) {
		h, err := DecodeHistogram(text)
		if err == nil && (h.TotalCount() < 0 || h.TotalCount() > mostCounted || h.Max() > 2*Longest) {
			t.Errorf("%d durations up to %d ns", h.TotalCount(), h.Max())
		}
	})
}

package traffic

import (
	"math/rand/v2"
	"testing"
)

// The recorder's slots must equal the library's, for every magnitude and at every edge.
func TestRecorderAgreesWithHDRHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := []int64{0, 1, 2047, 2048, 2049, 4095, 4096, Longest - 1, Longest}
	for bit := range 30 {
		for _, d := range []int64{-1, 0, 1} {
			if v := int64(1)<<bit + d; v >= 0 && v <= Longest {
				values = append(values, v)
			}
		}
	}
	for range 20000 {
		values = append(values, rng.Int64N(1<<rng.IntN(30)+1))
	}
	want := NewHistogram()
	r := NewRecorder()
	for _, v := range values {
		if err := want.RecordValue(v); err != nil {
			t.Fatal(err)
		}
		r.Record(v)
		if lo := slotValue(slot(v)); slot(lo) != slot(v) || lo > v {
			t.Fatalf("value %d: slot %d starts at %d", v, slot(v), lo)
		}
	}
	got := NewHistogram()
	if err := r.AddTo(got); err != nil {
		t.Fatal(err)
	}
	if !got.Equals(want) {
		t.Fatal("recorder and library disagree")
	}
	if r.Max != want.Max() && !want.ValuesAreEquivalent(r.Max, want.Max()) {
		t.Fatalf("max %d, library %d", r.Max, want.Max())
	}
}

func TestRecorderReset(t *testing.T) {
	r := NewRecorder()
	for _, v := range []int64{-5, 10, 3e9} {
		r.Record(v)
	}
	if r.Max != 3e9 || r.Count != 3 {
		t.Fatalf("max %d, count %d; want 3e9 unclipped, 3", r.Max, r.Count)
	}
	r.Reset()
	for i, n := range r.counts {
		if n != 0 {
			t.Fatalf("slot %d holds %d after Reset", i, n)
		}
	}
	h := NewHistogram()
	if err := r.AddTo(h); err != nil || h.TotalCount() != 0 || r.Max != 0 || r.Sum != 0 {
		t.Fatalf("after Reset: %v, %d samples, max %d, sum %d", err, h.TotalCount(), r.Max, r.Sum)
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	r := NewRecorder()
	if n := testing.AllocsPerRun(1000, func() { r.Record(12345) }); n != 0 {
		t.Fatalf("%v allocations in Record, want none", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := NewRecorder()
	for i := int64(0); b.Loop(); i++ {
		r.Record(8000 + i&1023)
	}
}

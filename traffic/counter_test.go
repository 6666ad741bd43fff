package traffic

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCounter(t *testing.T) {
	tests := []struct {
		name string
		seqs []uint64
		want []Came
	}{
		{"in order", []uint64{0, 1, 2}, []Came{InOrder, InOrder, InOrder}},
		{"the first is lost", []uint64{3, 4}, []Came{InOrder, InOrder}},
		{"a gap is filled late", []uint64{0, 2, 1, 3}, []Came{InOrder, InOrder, Reordered, InOrder}},
		{"twice", []uint64{0, 0, 1, 0}, []Came{InOrder, Duplicate, InOrder, Duplicate}},
		{"a late one twice", []uint64{0, 5, 3, 3, 4}, []Came{InOrder, InOrder, Reordered, Duplicate, Reordered}},
		{
			"one that overtook many makes all of them late",
			[]uint64{3, 0, 1, 2},
			[]Came{InOrder, Reordered, Reordered, Reordered},
		},
		{"the farthest that is known", []uint64{memory, 0, 0}, []Came{InOrder, Reordered, Duplicate}},
		{"one farther", []uint64{memory, memory + 1, 0, 1}, []Came{InOrder, InOrder, TooLate, Reordered}},
		{
			"a jump of a whole ring forgets",
			[]uint64{1, 1 + words*wordBits, 2 + words*wordBits - memory},
			[]Came{InOrder, InOrder, Reordered},
		},
		{"a jump of many rings", []uint64{
			7, 7 + 5*words*wordBits, 6 + 5*words*wordBits, 7,
		}, []Came{InOrder, InOrder, Reordered, TooLate}},
		{
			"to the end of numbers",
			[]uint64{0, math.MaxUint64 - 1, math.MaxUint64 - 2, 0},
			[]Came{InOrder, InOrder, Reordered, TooLate},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := &Counter{}
			got := make([]Came, len(test.seqs))
			for i, seq := range test.seqs {
				got[i] = c.Note(seq)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("numbers %v (-want +got):\n%s", test.seqs, diff)
			}
			c.Reset()
			if got := c.Note(test.seqs[0]); got != InOrder {
				t.Errorf("after a reset, %d is %v", test.seqs[0], got)
			}
		})
	}
}

// FuzzCounter makes steps of any size, forward and backward, and compares with a counter that forgets nothing.
func FuzzCounter(f *testing.F) {
	f.Add([]byte{0x10, 0x01, 0x00, 0x01, 0x02, 0x81, 0xff, 0x3f})
	f.Add([]byte{0x00, 0xff, 0x00, 0x7f, 0x00, 0x80, 0xff, 0xfe})
	f.Fuzz(func(t *testing.T, steps []byte) {
		c := &Counter{}
		seen := map[uint64]bool{}
		var seq, highest uint64
		for i := 0; i+1 < len(steps); i += 2 {
			// -32768 to 32767, times 1, 8, 64 or 512: within a word, within the ring, beyond it
			step := int64(int16(uint16(steps[i])<<8|uint16(steps[i+1]))) << (3 * (i / 2 % 4))
			if step < 0 && uint64(-step) > seq {
				step = 0
			}
			seq += uint64(step)
			want := InOrder
			switch {
			case i == 0 || seq > highest:
				highest = seq
			case highest-seq > memory:
				want = TooLate
			case seen[seq]:
				want = Duplicate
			default:
				want = Reordered
			}
			seen[seq] = true
			if got := c.Note(seq); got != want {
				t.Fatalf("step %d: number %d after a highest of %d is %v, want %v", i/2, seq, highest, got, want)
			}
		}
	})
}

// BenchmarkCounter measures the cost per datagram at a sink: a few nanoseconds, in order or not.
func BenchmarkCounter(b *testing.B) {
	c := &Counter{}
	b.Run("in order", func(b *testing.B) {
		for i := range b.N {
			c.Note(uint64(i))
		}
	})
	b.Run("every other one overtaken", func(b *testing.B) {
		c.Reset()
		for i := range b.N {
			c.Note(uint64(i ^ 1))
		}
	})
}

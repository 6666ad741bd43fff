package allow

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func rule(source, sink string, first, last uint16) Rule {
	return Rule{netip.MustParseAddr(source), netip.MustParseAddr(sink), first, last, 0, 65_535}
}

// If the source does not match, all of its code is skipped; inside that code, the only way out is an answer.
func TestTree(t *testing.T) {
	var leaves []leaf
	for _, r := range []Rule{
		rule("1.0.0.0", "2.0.0.0", 7, 7), rule("3.0.0.0", "2.0.0.0", 9, 9), rule("1.0.0.0", "2.0.0.0", 80, 90),
		rule("1.0.0.0", "4.0.0.0", 7, 7),
	} {
		leaves = append(leaves, leaf4(r))
	}
	leaves[2].ports.SourceFirst, leaves[2].ports.SourceLast = 30, 39
	list, size, err := shape4().tree(leaves, 0)
	if err != nil || size != len(list) {
		t.Fatalf("%d instructions of size %d, %v", len(list), size, err)
	}
	var got []string
	for _, i := range list {
		text := fmt.Sprint(i)
		if j := i.OpCode.JumpOp(); j != asm.InvalidJumpOp && j != asm.Exit {
			text += fmt.Sprintf(" over %d", i.Offset)
		}
		got = append(got, text)
	}
	field := func(n uint32) uint32 {
		return uint32(leaf4(rule(fmt.Sprintf("%d.0.0.0", n), "0.0.0.0", 0, 0)).fields[0])
	}
	jump := func(r string, value uint32, over int) string {
		return fmt.Sprintf("JNE32Imm dst: %s off: %d imm: %d over %d", r, over, value, over)
	}
	end := func(n int) []string { return []string{fmt.Sprintf("MovImm dst: r0 imm: %d", n), "Exit"} }
	want := slices.Concat(
		[]string{jump("r1", field(1), 22)},
		[]string{jump("r2", field(2), 13)},
		[]string{jump("r3", 7, 2)}, end(2),
		[]string{"MovReg32 dst: r5 src: r3", "SubImm32 dst: r5 imm: 80", "JGT32Imm dst: r5 off: 5 imm: 10 over 5"},
		[]string{"MovReg32 dst: r5 src: r4", "SubImm32 dst: r5 imm: 30", "JGT32Imm dst: r5 off: 2 imm: 9 over 2"}, end(2),
		end(1),
		[]string{jump("r2", field(4), 5), jump("r3", 7, 2)}, end(2), end(1),
		end(0),
		[]string{jump("r1", field(3), 8), jump("r2", field(2), 5), jump("r3", 9, 2)}, end(2), end(1), end(0),
		end(0),
	)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Keys of maps have addresses as in packets, a pair has one entry for all its ports, and rules that do not fit are
// refused.
func TestEntries(t *testing.T) {
	rules := []Rule{
		rule("10.0.0.1", "10.0.0.2", 5, 9), rule("10.0.0.1", "10.0.0.3", 7, 7),
		rule("10.0.0.1", "10.0.0.2", 80, 80), rule("10.0.0.1", "10.0.0.2", 80, 80),
	}
	e, err := newEntries[[4]byte](Hash, slices.Values(rules))
	want := entries[[4]byte]{
		pairs: []pair[[4]byte]{{[4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}}, {[4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 3}}},
		ports: []ports{
			{N: 2, Range: [maxRanges]portRange{{5, 9, 0, 65_535}, {80, 80, 0, 65_535}}},
			{N: 1, Range: [maxRanges]portRange{{7, 7, 0, 65_535}}},
		},
	}
	if diff := cmp.Diff(want, e, cmp.AllowUnexported(entries[[4]byte]{})); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if e, err = newEntries[[4]byte](LPM, slices.Values(rules)); err != nil || len(e.sources) != 1 ||
		e.sources[0].Bits != 32 || e.pairs[1].Source != numbered[[4]byte](1) {
		t.Errorf("by a trie: %+v, %v", e, err)
	}
	for i := range maxRanges {
		rules = append(rules, rule("10.0.0.1", "10.0.0.3", uint16(100+i), uint16(100+i)))
	}
	if _, err := newEntries[[4]byte](Hash, slices.Values(rules)); err == nil ||
		!strings.Contains(err.Error(), "more than 8 ranges") {
		t.Errorf("more ranges than there is room for: %v", err)
	}
}

// The kernel accepts large lists with every method, including the largest promised program, and returns their contents.
func TestLarge(t *testing.T) {
	for way, n := range map[string]int{Hash: 100_000, LPM: 20_000, Program: MaxCompiled} {
		t.Run(way, func(t *testing.T) {
			m := testnet.New(t)
			l := List{Way: way, Links: []string{"lo"}, Rules: func(v6 bool) iter.Seq[Rule] { return many(n, v6) }}
			testnet.Skip(t, m.Do(func() error {
				_, held, err := Add(l)
				if err != nil {
					return err
				}
				found, err := Compare(l)
				if err == nil && len(found) > 0 {
					t.Errorf("%d differences, such as %v", len(found), found[0])
				}
				if memory, merr := Memory(l); merr != nil || memory < int64(8*n) {
					t.Errorf("its memory is %d bytes, %v", memory, merr)
				}
				if err := held.Close(); err != nil {
					t.Error(err)
				}
				return err
			}))
		})
	}
}

// many yields this many rules.
func many(n int, v6 bool) iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for i := range n {
			source, sink := netip.AddrFrom4([4]byte{100, byte(64 + i>>16), byte(i >> 8), byte(i)}),
				netip.AddrFrom4([4]byte{100, byte(96 + i>>16), byte(i >> 8), byte(i)})
			if v6 {
				a, b := source.As16(), sink.As16()
				a[0], b[0] = 0x20, 0x20
				source, sink = netip.AddrFrom16(a), netip.AddrFrom16(b)
			}
			if port := uint16(1024 + i%60_000); !yield(Rule{source, sink, port, port, 30_000, 39_999}) {
				return
			}
		}
	}
}

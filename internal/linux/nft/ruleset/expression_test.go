package ruleset

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// questions returns a rule with something of everything.
func questions() Rule {
	w := Word(0)
	return Rule(nil).LoadMeta(w, Family).Equal(w, 2).
		Load(w, NetworkHeader, 12, 4).Equal(w, 10, 1, 1, 0).
		Load(Word(1), NetworkHeader, 16, 4).Load(Word(2), TransportHeader, 2, 2).In("set", w).
		Load(w, TransportHeader, 13, 1).Mask(w, 0x12).Differ(w, 0x02).
		Load(w, TransportHeader, 2, 2).Between(w, 20_000, 20_063).
		LoadExtension(w, 44, 2, 2).Count().Goto("other")
}

func TestHash(t *testing.T) {
	w := Word(0)
	all := map[uint64]int{}
	for i, r := range []Rule{
		nil, questions(), Rule(nil).Accept(), Rule(nil).Drop(), Rule(nil).Jump("a"), Rule(nil).Goto("a"), Rule(nil).Goto("b"),
		Rule(nil).Count(), Rule(nil).Count().Accept(),
		Rule(nil).Equal(w, 1), Rule(nil).Equal(w, 2), Rule(nil).Differ(w, 1), Rule(nil).Equal(Word(1), 1),
		Rule(nil).Equal(w, 1, 0), Rule(nil).Mask(w, 1),
		Rule(nil).Between(w, 1, 2), Rule(nil).Between(w, 1, 3), Rule(nil).Between(w, 1, 1), Rule(nil).In("a", w),
		Rule(nil).In("b", w), Rule(nil).Map("a", w),
		Rule(nil).LoadState(w), Rule(nil).Load(w, NetworkHeader, 0, 2), Rule(nil).Load(w, TransportHeader, 0, 2),
		Rule(nil).Load(w, NetworkHeader, 2, 2),
		Rule(nil).Equal(w, 1).Equal(w, 2), Rule(nil).Equal(w, 2).Equal(w, 1),
	} {
		if other, same := all[r.Hash()]; same {
			t.Errorf("rules %d and %d have the same hash", i, other)
		}
		all[r.Hash()] = i
	}
}

// TestHashOfAnswers writes rules in the ways in which a kernel may return them.
func TestHashOfAnswers(t *testing.T) {
	const nested = 1 << 15 // NLA_F_NESTED
	w := Word(0)
	ask := func(name string, f func([]byte) []byte) Rule { return Rule(nil).expression(name, f) }
	for name, c := range map[string][2]Rule{
		"a counter that has counted": {Rule(nil).Count(), ask("counter", func(b []byte) []byte {
			return attribute(attribute(b, counterPackets, 0, 0, 0, 0, 0, 0, 0, 7), counterBytes, 0, 0, 0, 0, 0, 0, 1, 0)
		})},
		"attributes in another order": {
			Rule(nil).LoadMeta(w, Family),
			ask("meta", func(b []byte) []byte { return number(number(b, 1, 1), 2, uint32(Family)) }),
		},
		"a value that says it is nested": {Rule(nil).Equal(w, 1), ask("cmp", func(b []byte) []byte {
			return attribute(number(number(b, 1, 1), 2, 0), 3|nested, attribute(nil, dataValue|nested, 1)...)
		})},
		"the number of a set in its transaction": {
			Rule(nil).In("a", w),
			ask("lookup", func(b []byte) []byte { return number(number(number(text(b, 1, "a"), 2, 1), 4, 9), 5, 0) }),
		},
	} {
		if c[0].Hash() != c[1].Hash() {
			t.Errorf("%s: another hash", name)
		}
	}
	counted := ask("counter", func(b []byte) []byte { return attribute(b, counterPackets, 0, 0, 0, 0, 0, 0, 0, 7) })
	if got := packets(append(Rule(nil).Equal(w, 1), counted...)); got != 7 {
		t.Errorf("packets = %d, want 7", got)
	}
}

func TestWord(t *testing.T) {
	for n, want := range map[int]Register{0: 1, 1: 9, 2: 10, 3: 11, 4: 2, 8: 3, 15: 23} {
		if got := Word(n); got != want {
			t.Errorf("Word(%d) = %d, want %d", n, got, want)
		}
	}
}

// FuzzAnswer reads answers that no kernel would give.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(questions()))
	f.Add([]byte(Rule(nil).Count()))
	f.Add([]byte{4, 0, 1, 0, 3, 0, 1, 0})
	m := message(nil, kindError, 0, 0, 0)
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	f.Add(m)
	f.Fuzz(func(t *testing.T, b []byte) {
		given := bytes.Clone(b)
		_, _ = Rule(b).Hash(), packets(b)
		if err := messages(b, func(header, payload []byte) error {
			if len(header) != messageHeader || len(payload) < familyHeader {
				t.Errorf("a message of %d and %d bytes", len(header), len(payload))
			}
			each(payload[familyHeader:], func(_ uint16, value []byte) { _ = word(value) })
			return nil
		}); err == nil && len(b) >= messageHeader && binary.NativeEndian.Uint32(b) > uint32(len(b)) {
			t.Error("a message is longer than the answer, and there is no error")
		}
		if !bytes.Equal(given, b) {
			t.Error("it was changed")
		}
	})
}

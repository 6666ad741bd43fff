package dns

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

func anAsker(t testing.TB, kind uint16, addresses, announced int) (*asker, *zone) {
	t.Helper()
	const names = 100
	a, err := newAsker(names, addresses, kind, announced, 1)
	if err != nil {
		t.Fatal(err)
	}
	a.begin(7)
	return a, &zone{names: names, addresses: addresses}
}

// Each query of a trial has its answer, with the expected length and a matching id, even after more than 65536 queries.
func TestRoundTrips(t *testing.T) {
	for _, tt := range []struct {
		kind                 uint16
		addresses, announced int
	}{{typeA, 1, 0}, {typeAAAA, 1, 0}, {typeA, 20, 1232}, {typeAAAA, 64, 4096}} {
		a, z := anAsker(t, tt.kind, tt.addresses, tt.announced)
		out, in := make([]byte, max(a.size, markerSize)), make([]byte, messageMax)
		seen := map[string]bool{}
		for seq := range uint64(70000) {
			q := out[:a.Put(out, seq)]
			if seq < 100 {
				var m dnsmessage.Message
				if err := m.Unpack(q); err != nil || len(m.Questions) != 1 {
					t.Fatalf("query %x: %v", q, err)
				}
				seen[m.Questions[0].Name.String()] = true
			}
			m := in[:z.answer(in, q, false)]
			if got, answers, right := a.Read(m); got != seq || !answers || !right || len(m) != a.most {
				t.Fatalf("%+v: answer %x to query %d: %d, %t, %t; %d bytes, want %d", tt, m, seq, got, answers, right, len(m),
					a.most)
			}
		}
		if len(seen) != len(a.order) {
			t.Errorf("%d of %d names in as many queries", len(seen), len(a.order))
		}
		m := in[:z.answer(in, out[:a.Put(out, traffic.Marker)], false)]
		if got, answers, _ := a.Read(m); got != traffic.Marker || !answers {
			t.Errorf("the answer to the marker is %d, %t", got, answers)
		}
		a.begin(8)
		if _, answers, _ := a.Read(m); answers {
			t.Error("the marker of another trial is this one's")
		}
	}
}

// Messages that are not answers, and answers that are wrong.
func TestWrong(t *testing.T) {
	a, z := anAsker(t, typeA, 2, 0)
	out, in := make([]byte, max(a.size, markerSize)), make([]byte, messageMax)
	const asked = 5
	var q []byte
	for seq := range uint64(asked + 1) {
		q = out[:a.Put(out, seq)]
	}
	good := slices.Clone(in[:z.answer(in, q, false)])
	question := headerSize + questionAt + 4
	for _, tt := range []struct {
		what           string
		change         func(m []byte) []byte
		answers, right bool
	}{
		{"as it is", func(m []byte) []byte { return m }, true, true},
		{"of another lifetime", func(m []byte) []byte { m[question+9] = 30; return m }, true, true},
		{"to another question", func(m []byte) []byte { m[question-5-1]++; return m }, false, false},
		{"to another case", func(m []byte) []byte { m[headerSize+1] ^= 0x20; return m }, false, false},
		{"of another type", func(m []byte) []byte { m[question-3] = typeAAAA; return m }, false, false},
		{"of another id", func(m []byte) []byte { m[1]--; return m }, false, false},
		{"to a query that comes later", func(m []byte) []byte { m[1]++; return m }, false, false},
		{"that is a query", func(m []byte) []byte { m[2] &^= 0x80; return m }, false, false},
		{"without a header", func(m []byte) []byte { return m[:headerSize-1] }, false, false},
		{"of nothing", func([]byte) []byte { return nil }, false, false},
		{"without a question", func(m []byte) []byte { return m[:question-1] }, false, false},
		{"that is cut off", func(m []byte) []byte { return m[:len(m)-1] }, true, false},
		{"that says so", func(m []byte) []byte { m[2] |= 2; return m }, true, false},
		{"SERVFAIL", func(m []byte) []byte { m[3] |= 2; return m }, true, false},
		{"FORMERR without a question", func(m []byte) []byte { m[3], m[5] = formErr, 0; return m[:headerSize] }, true, false},
		{"with fewer addresses", func(m []byte) []byte { m[7]--; return m }, true, false},
		{"with another address", func(m []byte) []byte { m[len(m)-1]++; return m }, true, false},
		{"with a record of another type", func(m []byte) []byte { m[question+3] = 5; return m }, true, false},
		{"with a record of another class", func(m []byte) []byte { m[question+5] = 3; return m }, true, false},
		{"with a longer address", func(m []byte) []byte { m[question+11] = 16; return m }, true, false},
	} {
		got, answers, right := a.Read(tt.change(slices.Clone(good)))
		if answers != tt.answers || answers && (right != tt.right || got != asked) {
			t.Errorf("%s: %d, %t, %t", tt.what, got, answers, right)
		}
	}
	if _, answers, _ := a.Read(good); !answers {
		t.Error("the answer is gone")
	}
	a.begin(8)
	if _, answers, _ := a.Read(good); answers {
		t.Error("an answer before the first query")
	}
}

// The same seed gives the same names in the same order, byte for byte; another seed gives another order.
func TestSeed(t *testing.T) {
	trace := func(seed uint64) []byte {
		a, err := newAsker(50, 1, typeA, 0, seed)
		if err != nil {
			t.Fatal(err)
		}
		a.begin(3)
		var all []byte
		out := make([]byte, a.size)
		for seq := range uint64(200) {
			all = append(all, out[:a.Put(out, seq)]...)
		}
		return all
	}
	if !bytes.Equal(trace(1), trace(1)) {
		t.Error("a seed has two orders")
	}
	if bytes.Equal(trace(1), trace(2)) {
		t.Error("two seeds have one order")
	}
}

// Addresses differ between services.
func TestAddresses(t *testing.T) {
	seen := map[netip.Addr]bool{}
	cluster := map[uint16]netip.Prefix{
		typeA: netip.MustParsePrefix("10.96.0.0/12"), typeAAAA: netip.MustParsePrefix("fd00:10:96::/96"),
	}
	for _, kind := range []uint16{typeA, typeAAAA} {
		for name := 0; name < workload.MostServices; name += 7 {
			for number := range mostAddresses {
				var b [16]byte
				a, ok := netip.AddrFromSlice(b[:address(b[:], kind, name, number)])
				if !ok || seen[a] || !cluster[kind].Contains(a) {
					t.Fatalf("address %d of service %d: %s", number, name, a)
				}
				seen[a] = true
			}
		}
	}
}

// FuzzRead checks that another implementation reads the right content from every answer that is called right.
func FuzzRead(f *testing.F) {
	a, z := anAsker(f, typeA, 2, 1232)
	out, in := make([]byte, max(a.size, markerSize)), make([]byte, messageMax)
	for seq := range uint64(3) {
		f.Add(slices.Clone(in[:z.answer(in, out[:a.Put(out, seq)], false)]))
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		seq, answers, right := a.Read(m)
		if answers && seq != traffic.Marker && seq >= a.next {
			t.Errorf("%x answers query %d of %d", m, seq, a.next)
		}
		if !answers || !right || seq == traffic.Marker {
			return
		}
		var p dnsmessage.Parser
		h, err := p.Start(m)
		if err != nil || !h.Response || h.RCode != 0 || h.Truncated {
			t.Fatalf("%x: %+v, %v", m, h, err)
		}
		questions, err := p.AllQuestions()
		service := int(a.order[seq%uint64(len(a.order))])
		if err != nil || len(questions) != 1 || questions[0].Name.String() != workload.Service(service) {
			t.Fatalf("%x: %+v, %v", m, questions, err)
		}
		for i := range a.addresses {
			h, err := p.AnswerHeader()
			if err != nil {
				return // it refuses owners of records that skip accepts
			}
			r, err := p.AResource()
			var want [4]byte
			address(want[:], typeA, service, i)
			if err != nil || h.Class != dnsmessage.ClassINET || r.A != want {
				t.Errorf("%x: %+v, %v, want %v", m, r, err, want)
			}
		}
	})
}

package kv

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic/dialogue"
)

func asked(t testing.TB, given string) *asker {
	t.Helper()
	_, params, err := part.Parse("workload", "kv("+given+")")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Workload{}.Describe().Resolve(params)
	if err != nil {
		t.Fatal(err)
	}
	return newAsker(p, 7)
}

// answer lets a store answer one request, which it must not understand before it is complete.
func answer(t testing.TB, s *store, request []byte) []byte {
	t.Helper()
	n, out, then := s.Serve(request, nil)
	if n != len(request) || then != dialogue.Next {
		t.Fatalf("%.80q: %d of %d bytes, %d", request, n, len(request), then)
	}
	return out
}

// Requests have the right answers, and a value is returned as it was set.
func TestAsked(t *testing.T) {
	for _, given := range []string{
		"operation=get", "operation=set", "operation=mixed", "operation=mixed,sets=5%,keys=3", "operation=mixed,payload=1",
		"payload=1MiB,operation=mixed",
	} {
		a := asked(t, given)
		s := newStore(int(a.keys), a.payload)
		noise := a.set.bytes[len(a.set.bytes)-len("\r\n")-a.payload:][:a.payload]
		wasSet, sets := map[uint64]bool{}, 0
		const operations = 1000
		seen := map[uint64]bool{}
		for number := range uint64(operations) {
			request := a.Request(number)
			out := answer(t, s, request)
			if size, verdict := a.Answer(number, out); verdict != dialogue.Good || size != len(out) {
				t.Fatalf("%s: %.80q is answered by %.80q: %d, %d", given, request, out, size, verdict)
			}
			key := a.key(number)
			seen[key] = true
			if key >= a.keys || !bytes.Contains(request, keyOf(int(key))) {
				t.Fatalf("%s: %.80q does not ask about key %d of %d", given, request, key, a.keys)
			}
			if a.isSet(number) {
				sets++
				wasSet[key] = true
				continue
			}
			value := out[len(out)-len("\r\n")-a.payload:][:a.payload]
			if a.payload > 1 && bytes.Equal(value, noise) != wasSet[key] {
				t.Fatalf("%s: the value of key %d is not what it was set to: %t", given, key, wasSet[key])
			}
		}
		share := float64(a.sets) / (1 << 32)
		if want := share * operations; float64(sets) < want-1 || float64(sets) > want+1 {
			t.Errorf("%s: %d of %d are sets, want %g", given, sets, operations, want)
		}
		if uint64(len(seen)) < min(a.keys, 500) {
			t.Errorf("%s: %d keys of %d in %d operations", given, len(seen), a.keys, operations)
		}
	}
	again := asked(t, "operation=mixed")
	for number := range uint64(100) {
		if a := asked(t, "operation=mixed"); a.key(number) != again.key(number) || a.isSet(number) != again.isSet(number) {
			t.Fatal("the same seed asks for something else")
		}
	}
}

// A server is filled with a value for each key.
func TestLoad(t *testing.T) {
	a := asked(t, "keys=50")
	s := new(store)
	for number := range a.keys {
		out := answer(t, s, (&loader{a}).Request(number))
		if size, verdict := (&loader{a}).Answer(number, out); verdict != dialogue.Good || size != len(out) {
			t.Fatalf("%q", out)
		}
	}
	for number := range uint64(1000) {
		if _, verdict := a.Answer(number, answer(t, s, a.Request(number))); verdict != dialogue.Good {
			t.Fatalf("operation %d: %d", number, verdict)
		}
	}
}

func TestJudge(t *testing.T) {
	get, set := asked(t, "payload=5"), asked(t, "operation=set")
	for _, tt := range []struct {
		asker   *asker
		head    string
		size    int
		verdict dialogue.Verdict
		why     string
	}{
		{get, "$5\r\nhello\r\n", 11, dialogue.Good, ""},
		{get, "$5\r\n", 11, dialogue.Good, ""},
		{get, "$5\r\nhello\r\n$5", 11, dialogue.Good, ""},
		{get, "$", 0, dialogue.Partial, ""},
		{get, "$5\r", 0, dialogue.Partial, ""},
		{get, "$-1\r\n", 5, dialogue.Bad, ""},
		{get, "$-", 0, dialogue.Partial, ""},
		{get, "$-2\r\n", 0, dialogue.Alien, ""},
		{get, "-ERR no\r\n", 9, dialogue.Bad, ""},
		{get, "-ERR no\r", 0, dialogue.Partial, ""},
		{get, "-ERR\n", 0, dialogue.Alien, ""},
		{get, "-ERR\rno", 0, dialogue.Alien, ""},
		{get, "$4\r\nhell\r\n", 4, dialogue.Alien, "a value of 4 bytes instead of 5"},
		{get, "$50\r\n", 50, dialogue.Alien, "a value of 50 bytes instead of 5"},
		{get, "$05\r\n", 0, dialogue.Alien, ""},
		{get, "$+5\r\n", 0, dialogue.Alien, ""},
		{get, "$5\n", 0, dialogue.Alien, ""},
		{get, "$5\rx", 0, dialogue.Alien, ""},
		{get, "$\r\n", 0, dialogue.Alien, ""},
		{get, "$5x", 0, dialogue.Alien, ""},
		{get, "$1234567890", 0, dialogue.Alien, ""},
		{get, "+OK\r\n", 0, dialogue.Alien, ""},
		{get, ":5\r\n", 0, dialogue.Alien, ""},
		{set, "+OK\r\n", 5, dialogue.Good, ""},
		{set, "+O", 0, dialogue.Partial, ""},
		{set, "+OK\n", 0, dialogue.Alien, ""},
		{set, "+QUEUED\r\n", 0, dialogue.Alien, ""},
		{set, "-OOM\r\n", 6, dialogue.Bad, ""},
		{set, "$5\r\n", 0, dialogue.Alien, ""},
	} {
		size, verdict := tt.asker.Answer(0, []byte(tt.head))
		if size != tt.size || verdict != tt.verdict || verdict == dialogue.Alien && tt.asker == get &&
			tt.asker.explain(0, []byte(tt.head)) != tt.why {
			t.Errorf("%q: %d, %d, %q; want %d, %d, %q", tt.head, size, verdict, tt.asker.explain(0, []byte(tt.head)), tt.size,
				tt.verdict, tt.why)
		}
	}
}

// A full store reports that, and has not lost a value.
func TestFull(t *testing.T) {
	s := newStore(1, 10)
	s.memory = mostMemory - 20
	if out := answer(t, s, command("SET", []byte("another"), make([]byte, 20))); !strings.HasPrefix(string(out), "-OOM ") {
		t.Errorf("%q", out)
	}
	if out := answer(t, s, command("SET", keyOf(0), make([]byte, 5))); string(out) != ok {
		t.Errorf("%q", out)
	}
}

// FuzzJudge checks that the judgement of some bytes does not change when more arrive, and that it agrees with a simple
// reader of the protocol.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{
		"$5\r\nhello\r\n", "$-1\r\n", "-ERR no\r\n", "+OK\r\n", "$0\r\n\r\n", "$05\r\n", "-\r\n", "$999999999\r\n",
	} {
		f.Add([]byte(s), 5)
	}
	f.Fuzz(func(t *testing.T, answer []byte, payload int) {
		if len(answer) == 0 || payload < 0 {
			return
		}
		for _, judge := range []func([]byte) (int, dialogue.Verdict){
			judgeOK, func(b []byte) (int, dialogue.Verdict) { return judgeValue(b, payload) },
		} {
			size, verdict := judge(answer)
			for n := 1; n < len(answer); n++ {
				s, v := judge(answer[:n])
				if v == dialogue.Alien && verdict != dialogue.Alien || (v == dialogue.Good || v == dialogue.Bad) &&
					(v != verdict || s != size) {
					t.Fatalf("%q: %d, %d; and of %d bytes: %d, %d", answer, size, verdict, n, s, v)
				}
			}
			first, _, whole := strings.Cut(string(answer), "\r\n")
			switch {
			case verdict == dialogue.Bad && (!whole || size != len(first)+2 || first[0] != '-' && first != "$-1"):
				t.Fatalf("%q is an error of %d bytes", answer, size)
			case verdict == dialogue.Good &&
				(!whole || first != "+OK" && (first != "$"+strconv.Itoa(payload) || size != len(first)+2+payload+2)):
				t.Fatalf("%q is good and has %d bytes", answer, size)
			}
		}
	})
}

// FuzzCommand checks what a store accepts as a command: written again, it is the same; it is incomplete before its last
// byte; and the length for which the store waits is more than it has.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{
		"*1\r\n$4\r\nPING\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n",
		"*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n", "*0\r\n", "*2\r\n$3\r\nGET\r\n$9",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		s := newStore(1, 1)
		args, n, wrong := s.parse(in)
		switch {
		case wrong != "":
			if _, out, then := s.Serve(in, nil); then != dialogue.HangUp || !bytes.HasSuffix(out, []byte("\r\n")) ||
				bytes.Count(out, []byte("\r\n")) != 1 {
				t.Fatalf("%q is answered by %q", in, out)
			}
			return
		case args == 0:
			if n != 0 && n <= len(in) {
				t.Fatalf("%q is to be waited for until it has %d bytes", in, n)
			}
			return
		case n > len(in):
			t.Fatalf("%q has %d bytes", in, n)
		}
		var kept [][]byte
		for _, a := range s.args[:min(args, keptArgs)] {
			kept = append(kept, bytes.Clone(a.bytes))
		}
		if args <= keptArgs && !bytes.Equal(command(string(kept[0]), kept[1:]...), in[:n]) {
			t.Fatalf("%q is %q", in[:n], kept)
		}
		for short := 1; short < n; short++ {
			if args, _, wrong := s.parse(in[:short]); args != 0 || wrong != "" {
				t.Fatalf("%q is whole already: %d, %q", in[:short], args, wrong)
			}
		}
		taken, out, _ := s.Serve(in, nil)
		if taken != n || len(out) == 0 {
			t.Fatalf("%q: %d bytes, answered by %q", in, taken, out)
		}
	})
}

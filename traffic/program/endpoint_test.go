package program

import (
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"one\n\n":                    "one",
		"1\n2\n3\n4\n":               "2 / 3 / 4",
		"\x1b[2;35m== red ==\x1b[0m": "== red ==",
		"a\tb  c\x00\x07":            "a b c",
		"\xff\xfe":                   "?",
	} {
		if got := quote(strings.NewReader(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := quote(strings.NewReader(strings.Repeat("ä", 5000))); len(got) > lastBytes+len("…") ||
		!strings.HasPrefix(got, "…ä") {
		t.Errorf("long: %d bytes, %.20q", len(got), got)
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("\x1b[2;35m== red ==\x1b[0m\n\x1b")
	f.Fuzz(func(t *testing.T, text string) {
		if got := quote(strings.NewReader(text)); len(got) > lastBytes+len("…") || strings.ContainsAny(got, "\n\x1b\x00") {
			t.Errorf("%q", got)
		}
	})
}

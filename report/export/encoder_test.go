package export

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// What a terminal could act on is escaped, and reads as it was.
func TestEncoder(t *testing.T) {
	const hostile = "a\x1b[2J\u009b31m\x7f\u202eb\u2028<c>\U000e0041\U0001f600é\n"
	var b strings.Builder
	e := NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]string{hostile: hostile}); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q in %q", r, b.String())
		}
	}
	for _, want := range []string{"<c>", "\U0001f600é"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in %q", want, b.String())
		}
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back[hostile] != hostile {
		t.Errorf("%q, %v", back, err)
	}
}

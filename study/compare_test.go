package study_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pair of equal runs is compared and counted. `nettoll study compare` makes twenty pairs of the default experiment.
func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	const small = "factors: {network: bridge, placement: same-host}\nworkloads: [{udp-rr: {mode: spin}}]\n"
	if err := os.WriteFile(file, []byte(small), 0o666); err != nil {
		t.Fatal(err)
	}
	out := run(t, "compare", "--pairs", "1", "--time", "1s", file)
	for _, text := range []string{
		"\n| 1 and 2 | 1 | ", "Pairs of runs that show a difference: ", " of 1 (95 % interval ",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
}

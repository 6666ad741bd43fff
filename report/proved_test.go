package report

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// Of hosts that stand without nettoll nothing is said that was not tried there, nor advised what is not possible.
func TestProvedText(t *testing.T) {
	labs := []measure.ProvedLab{{Tried: 1, Of: 2}}
	for standing, words := range map[bool][2]string{
		false: {"to hosts and to groups, counted", "nettoll prove without measuring."},
		true:  {"from every container to every other one, counted", "are not tried on such hosts."},
	} {
		text := provedText(labs, standing)
		for _, want := range words {
			if !strings.Contains(text, want) {
				t.Errorf("standing %t: %q, want %q in it", standing, text, want)
			}
		}
		if !strings.Contains(text, "--proof-budget gives more") || strings.Contains(text, "nettoll prove") == standing {
			t.Errorf("standing %t: %q", standing, text)
		}
	}
	labs[0].Attacked = true
	if text := provedText(labs, false); !strings.Contains(text, "from the wire were made once, after the last generation") {
		t.Errorf("with attacks: %q", text)
	}
}

package host

import "testing"

func TestMask(t *testing.T) {
	for list, want := range map[string]string{
		"0": "1", "0-1": "3", "1,3": "a", "0-31": "ffffffff", "32": "1,00000000", "0,35-36": "18,00000001",
		"64": "1,00000000,00000000",
		"":   "", "x": "", "3-1": "", "0,": "", "9000": "",
	} {
		got, err := mask(list)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("mask(%q) = %q, %v, want %q", list, got, err, want)
		}
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{{"3", "00000003", true}, {"1,00000000", "00000001,00000000", true}, {"0", "00", true}, {"1,00000000", "1", false}} {
		if sameMask(c.a, c.b) != c.same {
			t.Errorf("%q and %q are the same: %t", c.a, c.b, !c.same)
		}
	}
}

package study

import "testing"

// Too few intervals that hold 1 are an error. A number that chance allows for 95 % is not. `make nightly` counts real
// ones.
func TestCovered(t *testing.T) {
	for _, tt := range []struct {
		held, all int
		want      bool
	}{
		{400, 400, true},
		{380, 400, true},
		{372, 400, true},  // 93.0 %: up to 95.3 %
		{368, 400, false}, // 92.0 %: up to 94.5 %
		{0, 1, true},      // one comparison shows nothing
		{20, 25, false},
		{22, 25, true},
	} {
		if err := covered(tt.held, tt.all); (err == nil) != tt.want {
			t.Errorf("%d of %d hold 1: %v", tt.held, tt.all, err)
		}
	}
}

package control

import (
	"testing"
	"time"
)

// A block is as long as the trials of what is still measured, with what comes before them.
func TestBlockTime(t *testing.T) {
	s := looking()
	for i := range s.cells {
		s.cells[i].Trial, s.cells[i].Warm = time.Duration(i+1)*time.Second, time.Second
	}
	if got, want := s.blockTime(), (28+7)*time.Second; got != want {
		t.Errorf("of all cells: %v, want %v", got, want)
	}
	for i := range 4 {
		s.gone[i] = decided
	}
	if got, want := s.blockTime(), (18+3)*time.Second; got != want {
		t.Errorf("of the last three: %v, want %v", got, want)
	}
}

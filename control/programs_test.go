package control

import (
	"testing"

	"github.com/nettoll/nettoll/measure"
)

// Of several hosts a lab tells the worst: rates are not times.
func TestWorse(t *testing.T) {
	for _, c := range []struct {
		metric string
		want   float64
	}{{"rules_load_time", 2}, {"rules_memory", 2}, {"translation_rate", 1}, {"of_a_newer_nettoll", 2}} {
		m, _ := measure.Version2().Lookup(c.metric)
		if a, b := worse(m, 1, 2), worse(m, 2, 1); a != c.want || b != c.want {
			t.Errorf("of 1 and 2 %s tells %g and %g, want %g", c.metric, a, b, c.want)
		}
	}
}

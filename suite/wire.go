package suite

import (
	"encoding/json"
	"fmt"

	"github.com/nettoll/nettoll/measure"
)

// wanted describes the links that a claim is about, in words: "links of 1 Gbit/s (--set underlay.rate=1Gbit/s)". It is
// "" if the claim is about any links.
func (c Claim) wanted() string {
	if c.Wire == 0 {
		return ""
	}
	number, unit := c.Wire, "Mbit/s"
	if c.Wire >= 1000 {
		number, unit = c.Wire/1000, "Gbit/s"
	}
	return fmt.Sprintf("links of %g %s (--set underlay.rate=%g%s)", number, unit, number, unit)
}

// unwired describes the links that a claim is about if those of a run are faster; "" if the run can try the claim.
func (c Claim) unwired(run *measure.Run) string {
	if c.Wire == 0 {
		return ""
	}
	var e struct {
		Underlay struct {
			Rate float64 `json:"rate"` // bit/s, 0: none
		} `json:"underlay"`
	}
	if json.Unmarshal(run.Experiment, &e) == nil && e.Underlay.Rate > 0 && e.Underlay.Rate <= c.Wire*1e6 {
		return ""
	}
	return c.wanted()
}

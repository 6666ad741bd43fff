package linux

import "fmt"

// A Difference is one difference between the kernel and what was requested.
type Difference struct {
	// What names the property: "mtu", "rule 3 of chain FORWARD".
	What string
	// Want is the wanted value, Got the actual one, as text for people.
	Want, Got string
}

// String describes the difference in a few words.
func (d Difference) String() string { return fmt.Sprintf("%s: want %s, got %s", d.What, d.Want, d.Got) }

// Words for Want and Got if something is only on one of the two sides.
const (
	Present = "present"
	Absent  = "absent"
)

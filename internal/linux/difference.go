package linux

import "fmt"

// A Difference is one thing in which the kernel does not have what was asked of it.
type Difference struct {
	// What differs: "mtu", "rule 3 of chain FORWARD".
	What string
	// Want is what should be, Got what is: words for people.
	Want, Got string
}

// String says it in a few words.
func (d Difference) String() string { return fmt.Sprintf("%s: want %s, got %s", d.What, d.Want, d.Got) }

// Words for Want and Got if something is only on one of the two sides.
const (
	Present = "present"
	Absent  = "absent"
)

package attack

import (
	"errors"
	"os"
	"time"

	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/threat"
)

// ErrShared says that the containers of a lab share the namespace of their host: nobody stands between them, and there
// is nothing to attack.
var ErrShared = proof.ErrShared

// ErrForeign says that a frame would leave by a link that was not made for the lab. Nothing is sent then.
var ErrForeign = errors.New("attacks leave only by links that were made for the lab")

// A Target is a lab that is attacked.
type Target struct {
	proof.Lab
	// Open opens a network namespace of a host, counted from 0, by its name; "" is the host's own. The file is the
	// caller's to close.
	Open func(host int, namespace string) (*os.File, error)
	// Claims are what the parts of its stack say about attacks.
	Claims threat.Claims
	// Exhaustive asks for every port of a source, otherwise for some of every range.
	Exhaustive bool
	// Limit is how long an attack may take in one family; 0: [Longest].
	Limit time.Duration
	// Observe, if not nil, is called when something begins.
	Observe func(a Attack, family string)

	// Tests set these: seen is called with what came of each packet, and midway in the middle of a flood of addresses.
	seen   func(o Outcome, what, each string, number uint16, arrived bool)
	midway func()
}

// An Attack is a family of tries.
type Attack = threat.Attack

// All lists the attacks, in the order in which they are made.
func All() []Attack { return threat.All() }

// An Outcome is what came of an attack in one family.
type Outcome struct {
	Attack Attack `json:"-"`
	Family string `json:"family"` // "ipv4", "ipv6", or [Neither]
	// Sent is how many packets were sent that the lab must refuse, or would have to.
	Sent int `json:"sent"`
	// Arrived is how many of those arrived, each counted once.
	Arrived int `json:"arrived"`
	// Holes are what arrived, in words, without repetition.
	Holes []string `json:"holes,omitempty"`
	// Aims has the same by what the tries aimed at, if these are several things of which one may be open alone.
	Aims map[string]Tally `json:"aims,omitempty"`
	// Missing are packets that are allowed and did not arrive: the attack shows nothing then.
	Missing []string `json:"missing,omitempty"`
	// Unsent is how many tries the rights of the containers refused, and Refusal which right they lack. No network and no
	// filter has seen them.
	Unsent  int    `json:"unsent,omitempty"`
	Refusal string `json:"refusal,omitempty"`
	// Failed is why the attack was not made, or not to its end: what has not arrived may still have been let through.
	Failed string `json:"failed,omitempty"`
	// NotTried is why nothing was sent, if the attack itself says that.
	NotTried string `json:"not_tried,omitempty"`
}

// A Tally is how many tries were sent, and how many of them arrived.
type Tally struct {
	Sent    int `json:"sent"`
	Arrived int `json:"arrived"`
}

// noPair is why an attack on a flow that goes on is not tried.
const noPair = "no pair may talk in this family"

// Neither is the family of an attack that uses no packets of IP.
const Neither = "neither"

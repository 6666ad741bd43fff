package conntrack

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"
)

// A Filling is many translated connections of UDP from one address to another. They differ by their ports.
type Filling struct {
	// Source is where they come from, Destination where they go, and Public the address they are known by there. All are
	// of IPv4.
	Source, Destination, Public netip.Addr
	// Count is how many there are.
	Count int
	// Timeout is how long they stay.
	Timeout time.Duration
	// Mark is how they are told from others; not 0.
	Mark uint32
}

// The ports of a [Filling]: so many of the source for each of the destination.
const (
	firstPort = 1024
	portsEach = 1<<16 - firstPort
)

// MostEntries is how many connections differ by their ports.
const MostEntries = portsEach * (1<<16 - 1)

// Check returns what is wrong with it.
func (f Filling) Check() error {
	for _, a := range []netip.Addr{f.Source, f.Destination, f.Public} {
		if !a.Is4() {
			return fmt.Errorf("%q is not an IPv4 address", a)
		}
	}
	if f.Count < 0 || f.Count > MostEntries {
		return fmt.Errorf("%d connections (valid: 0 to %d)", f.Count, MostEntries)
	}
	if f.Timeout < time.Second || f.Timeout.Seconds() > math.MaxInt32 {
		return fmt.Errorf("connections with a timeout of %v (valid: 1 s to 68 years)", f.Timeout)
	}
	if f.Mark == 0 {
		return errors.New("connections need a mark to be told from others")
	}
	return nil
}

// ports are those of a connection by its number.
func ports(i int) (source, destination uint16) {
	return uint16(firstPort + i%portsEach), uint16(1 + i/portsEach)
}

package conntrack

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"
)

// A Filling describes many translated UDP connections from one address to another. They differ in their ports.
type Filling struct {
	// Source is their source, Destination their destination, and Public the address that replaces the source. All are
	// IPv4.
	Source, Destination, Public netip.Addr
	// Count is the number of connections.
	Count int
	// Timeout is how long they stay in the table.
	Timeout time.Duration
	// Mark identifies them; it is not 0.
	Mark uint32
}

// The ports of a [Filling]: the number of source ports for each destination port.
const (
	firstPort = 1024
	portsEach = 1<<16 - firstPort
)

// MostEntries is the largest number of connections with different ports.
const MostEntries = portsEach * (1<<16 - 1)

// Check returns an error if the filling is not valid.
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

// ports returns the ports of a connection by its number.
func ports(i int) (source, destination uint16) {
	return uint16(firstPort + i%portsEach), uint16(1 + i/portsEach)
}

// A Flow is a tracked connection.
type Flow struct {
	// Protocol is that of IP: 6 for TCP, 17 for UDP.
	Protocol uint8
	// Original is the direction of its first packet before translation, Reply that of answers.
	Original, Reply Way
	// Answered says that packets of both directions were seen. Until then, no filter calls it established.
	Answered bool
}

// A Way is one direction of a [Flow]. Ports are 0 if the protocol has none.
type Way struct{ Source, Destination netip.AddrPort }

package ovs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// A PortCount holds the numbers of packets that a port has received and sent. For tunnels, they are those of some
// seconds ago (see [TunnelSettings], and [Instance.ForgetDecisions]).
type PortCount struct{ Received, Sent uint64 }

const (
	multipartPort = 4  // OFPMP_PORT_STATS
	portStatsLen  = 80 // struct ofp_port_stats without properties
)

// PortCounts returns the counters of the bridge's ports, by number (OpenFlow 1.4, section 7.3.5.6).
func (c *Conn) PortCounts() (map[uint32]PortCount, error) {
	counts := map[uint32]PortCount{}
	body := append(binary.BigEndian.AppendUint32(nil, anyPort), 0, 0, 0, 0)
	err := c.multipart(multipartPort, body, func(part []byte) error {
		for len(part) > 0 {
			if len(part) < portStatsLen {
				return errors.New("the counts of a port are cut off")
			}
			n := int(binary.BigEndian.Uint16(part))
			if n < portStatsLen || n > len(part) {
				return fmt.Errorf("counts of a port of %d bytes", n)
			}
			counts[binary.BigEndian.Uint32(part[4:])] = PortCount{
				Received: binary.BigEndian.Uint64(part[16:]), Sent: binary.BigEndian.Uint64(part[24:]),
			}
			part = part[n:]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the packets of ports: %w", err)
	}
	return counts, nil
}

// SetNeighbour sets the MAC address at which the daemon's tunnels reach a neighbour of a bridge. The daemon drops an
// entry that was not used for 15 minutes, and then resolves it (NEIGH_ENTRY_DEFAULT_IDLE_TIME_MS of
// lib/tnl-neigh-cache.c).
func (i Instance) SetNeighbour(bridge string, at netip.Addr, mac net.HardwareAddr) error {
	if _, err := Control(i.DaemonControl(), "tnl/neigh/set", bridge, at.String(), mac.String()); err != nil {
		return fmt.Errorf("set neighbour %s of bridge %q: %w", at, bridge, err)
	}
	return nil
}

// A TunnelRoute is the route of the packets of a daemon's tunnels.
type TunnelRoute struct {
	// From is their source address, unless the tunnel has its own. Via is the next hop; invalid if there is none.
	From, Via netip.Addr
	// Bridge is the bridge whose own link has From.
	Bridge string
}

// String describes it in a few words.
func (r TunnelRoute) String() string {
	return fmt.Sprintf("from %s via %s through %s", r.From, r.Via, r.Bridge)
}

// Route returns the daemon's route to an address; the zero value if it has none. The daemon reads the routes and
// addresses of its namespace when the kernel reports a change.
func (i Instance) Route(to netip.Addr) (r TunnelRoute, err error) {
	text, err := Control(i.DaemonControl(), "ovs/route/lookup", to.String())
	if err != nil {
		if strings.Contains(err.Error(), "Not found") { // lib/ovs-router.c, ovs_router_lookup_cmd
			err = nil
		}
		return r, err
	}
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "src":
			r.From, err = netip.ParseAddr(value)
		case "gateway":
			if r.Via, err = netip.ParseAddr(value); r.Via.IsUnspecified() {
				r.Via = netip.Addr{}
			}
		case "dev":
			r.Bridge = value
		}
		if err != nil {
			return r, fmt.Errorf("read the route to %s: %w", to, err)
		}
	}
	return r, nil
}

// Routed waits until the daemon has a route. gone is closed when the daemon has ended.
func (i Instance) Routed(to netip.Addr, want TunnelRoute, gone <-chan struct{}) error {
	for deadline := time.Now().Add(patience); ; {
		got, err := i.Route(to)
		if got == want {
			return nil
		}
		select {
		case <-gone:
			return fmt.Errorf("wait for the route to %s: %s has ended", to, Daemon)
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("wait for the route to %s %s: %s has one %s", to, want, Daemon, got), err)
		}
	}
}

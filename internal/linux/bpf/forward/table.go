package forward

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/link"
)

// Ways to hook the programs to links.
const (
	TCX    = "tcx"    // the ingress of the host's end of each veth, and of the uplink; Linux 6.6 and newer
	TC     = "tc"     // the same by a tc classifier
	XDP    = "xdp"    // in the driver of the host's end of each veth
	Netkit = "netkit" // the container's end of each netkit, and the ingress of the uplink by tcx; Linux 6.7 and newer
)

// Ways lists these methods.
func Ways() []string { return []string{TCX, TC, XDP, Netkit} }

// A Table holds the destinations of packets of a host's containers.
type Table struct {
	// Way is one of [Ways].
	Way        string
	Containers []Container
	// Ranges are the address ranges of containers of other hosts. They do not overlap.
	Ranges []Range
}

// A Container is a container of this host.
type Container struct {
	// Link is the name of the host's link to it.
	Link string
	// LinkMAC is the address of that link, MAC the address of the container's own link.
	LinkMAC, MAC net.HardwareAddr
	// Addresses are the addresses of the container, of either family.
	Addresses []netip.Addr
}

// A Range is a range of addresses of containers of another host.
type Range struct {
	To netip.Prefix
	// Link is the name of this host's link that leads there.
	Link string
	// Via is the address of that host, a neighbour on the link.
	Via netip.Addr
	// Encap is what the uplink, an external tunnel device, receives with each packet; the zero value is nothing.
	Encap link.Encap
}

// uplinks returns the links to other hosts, each once.
func (t Table) uplinks() []string {
	var list []string
	for _, r := range t.Ranges {
		if !slices.Contains(list, r.Link) {
			list = append(list, r.Link)
		}
	}
	return list
}

// check returns an error if the table is not valid.
func (t Table) check() error {
	if !slices.Contains(Ways(), t.Way) {
		return fmt.Errorf("forward by %q (known: %s)", t.Way, strings.Join(Ways(), ", "))
	}
	return nil
}

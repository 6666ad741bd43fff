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
	TC     = "tc"     // the same by a classifier of tc
	XDP    = "xdp"    // the driver of the host's end of each veth
	Netkit = "netkit" // the container's end of each netkit, and the ingress of the uplink by tcx; Linux 6.7 and newer
)

// Ways lists them.
func Ways() []string { return []string{TCX, TC, XDP, Netkit} }

// A Table is where packets of a host's containers go.
type Table struct {
	// Way is one of [Ways].
	Way        string
	Containers []Container
	// Ranges are those of other hosts' containers. None contains another.
	Ranges []Range
}

// A Container is one of the host's.
type Container struct {
	// Link is the name of the host's link to it.
	Link string
	// LinkMAC is the address of that link, MAC that of the container's own.
	LinkMAC, MAC net.HardwareAddr
	// Addresses are the container's, of either family.
	Addresses []netip.Addr
}

// A Range is containers of another host.
type Range struct {
	To netip.Prefix
	// Link is the name of the host's link that leads there.
	Link string
	// Via is the host, a neighbour of that link.
	Via netip.Addr
	// Encap is what the uplink, an external tunnel device, is told about each packet; the zero value is nothing.
	Encap link.Encap
}

// uplinks are the links to other hosts, each once.
func (t Table) uplinks() []string {
	var list []string
	for _, r := range t.Ranges {
		if !slices.Contains(list, r.Link) {
			list = append(list, r.Link)
		}
	}
	return list
}

// check returns what is wrong with the table.
func (t Table) check() error {
	if !slices.Contains(Ways(), t.Way) {
		return fmt.Errorf("forward by %q (known: %s)", t.Way, strings.Join(Ways(), ", "))
	}
	return nil
}

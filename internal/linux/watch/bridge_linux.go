package watch

import (
	"encoding/binary"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Messages about bridges (include/uapi/linux/if_bridge.h).
const (
	bridgeHeader = 8 // struct br_vlan_msg and struct br_port_msg: the family, and the number of the link at 4

	vlanEntry       = 1 // BRIDGE_VLANDB_ENTRY
	vlanInfo        = 1 // BRIDGE_VLANDB_ENTRY_INFO: flags and VLAN
	vlanRange       = 2 // BRIDGE_VLANDB_ENTRY_RANGE: the last VLAN, if there are several
	vlanState       = 3
	vlanTunnel      = 4
	vlanTunnelID    = 1 // BRIDGE_VLANDB_TINFO_ID
	vlanSuppression = 9
	vlanPVID        = 2 // BRIDGE_VLAN_INFO_PVID
	vlanUntagged    = 4
	forwarding      = 3 // BR_STATE_FORWARDING

	groupAll       = 1  // MDBA_MDB
	groupInfo      = 1  // MDBA_MDB_ENTRY_INFO
	groupSize      = 28 // struct br_mdb_entry; attributes follow
	groupPermanent = 1  // MDB_PERMANENT
	groupBlocked   = 8  // MDB_FLAGS_BLOCKED
	groupSource    = 4  // MDBA_MDB_EATTR_SOURCE
	groupMadeBy    = 5  // MDBA_MDB_EATTR_RTPROT
	groupTo        = 6  // MDBA_MDB_EATTR_DST: of a VXLAN
)

// vlan puts the VLANs of a bridge or of a port of one into words.
func (n names) vlan(m []byte, f func(thing, string)) {
	rest := from(m, bridgeHeader)
	if rest == nil {
		return
	}
	link := n.of(int(u32(m[4:])))
	for kind, entry := range attributes(rest) {
		info := attribute(entry, vlanInfo)
		if kind != vlanEntry || len(info) < 4 {
			continue
		}
		flags, first := binary.NativeEndian.Uint16(info), binary.NativeEndian.Uint16(info[2:])
		last := first
		if several := attribute(entry, vlanRange); len(several) == 2 {
			last = binary.NativeEndian.Uint16(several)
		}
		value := "tagged"
		if flags&vlanUntagged != 0 {
			value = "untagged"
		}
		if flags&vlanPVID != 0 {
			value += ", of untagged packets"
		}
		if state := attribute(entry, vlanState); len(state) == 1 && state[0] != forwarding {
			value += ", state " + number(state)
		}
		if suppressed := attribute(entry, vlanSuppression); len(suppressed) == 1 && suppressed[0] != 0 {
			value += ", neighbours suppressed"
		}
		tunnel := attribute(attribute(entry, vlanTunnel), vlanTunnelID)
		for id := int(first); id <= int(last); id++ {
			said := value
			if tunnel != nil { // those of a range are in a row, too
				said += fmt.Sprintf(", tunnel %d", int(u32(tunnel))+id-int(first))
			}
			f(thing{"link " + link, fmt.Sprintf("VLAN %d of %s", id, link)}, said)
		}
	}
}

// group puts the multicast groups of a bridge or a VXLAN into words. One that it has learned has no value: those come
// and go with whoever listens.
func (n names) group(m []byte, f func(thing, string)) {
	rest := from(m, bridgeHeader)
	if rest == nil {
		return
	}
	table := n.of(int(u32(m[4:])))
	for _, group := range attributes(attribute(rest, groupAll)) {
		for kind, entry := range attributes(group) {
			more := from(entry, groupSize)
			if kind != groupInfo || more == nil {
				continue
			}
			state, flags, vlan := entry[4], entry[5], binary.NativeEndian.Uint16(entry[6:])
			what := fmt.Sprintf("group %s of %s at %s", groupAddress(entry[8:]), table, n.of(int(u32(entry))))
			if vlan != 0 {
				what += fmt.Sprintf(", VLAN %d", vlan)
			}
			if source := attribute(more, groupSource); source != nil {
				what += ", from " + ip(source)
			}
			if to := attribute(more, groupTo); to != nil {
				what += ", to " + ip(to)
			}
			value := ""
			by := attribute(more, groupMadeBy)
			switch { // the bridge's own groups do not say who has made them
			case state == groupPermanent:
				value = "present" + permanently
			case len(by) == 1 && by[0] != protoKernel:
				value = "present"
			}
			if value != "" && flags&groupBlocked != 0 {
				value += ", blocked"
			}
			f(thing{"link " + table, what}, value)
		}
	}
}

// groupAddress is that of a struct br_mdb_entry, with the protocol behind 16 bytes.
func groupAddress(b []byte) string {
	switch binary.BigEndian.Uint16(b[16:]) {
	case unix.ETH_P_IP:
		return ip(b[:4])
	case unix.ETH_P_IPV6:
		return ip(b[:16])
	}
	return net.HardwareAddr(b[:6]).String()
}

package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// NetlinkDrops returns how many messages of a netlink protocol, such as NETLINK_GENERIC (16), the kernel has dropped
// because the receive buffer of a socket was full, of all sockets in the thread's network namespace that are open. A
// datapath of Open vSwitch in the kernel asks its daemon about packets by such messages, and the packets go with them
// (queue_userspace_packet, net/openvswitch/datapath.c; the column Drops of netlink_native_seq_show,
// net/netlink/af_netlink.c).
func NetlinkDrops(protocol int) (uint64, error) {
	text, err := os.ReadFile("/proc/thread-self/net/netlink")
	if err != nil {
		return 0, fmt.Errorf("read netlink sockets: %w", err)
	}
	return netlinkDrops(string(text), protocol)
}

func netlinkDrops(text string, protocol int) (sum uint64, err error) {
	const of, drops = 1, 8 // columns
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) <= drops || fields[of] != strconv.Itoa(protocol) {
			continue
		}
		n, err := strconv.ParseUint(fields[drops], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read netlink sockets: %w", err)
		}
		sum += n
	}
	return sum, nil
}

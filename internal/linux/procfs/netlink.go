package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// NetlinkQueues returns what is in the receive buffers of the open sockets of a netlink protocol, such as
// NETLINK_GENERIC (16), in the thread's network namespace: how many bytes of messages wait there, and how many messages
// the kernel has dropped because a buffer was full. A datapath of Open vSwitch in the kernel asks its daemon about
// packets by such messages, and the packets go with them (queue_userspace_packet, net/openvswitch/datapath.c; columns
// Rmem and Drops of netlink_native_seq_show, net/netlink/af_netlink.c).
func NetlinkQueues(protocol int) (waiting, dropped uint64, err error) {
	text, err := os.ReadFile("/proc/thread-self/net/netlink")
	if err != nil {
		return 0, 0, fmt.Errorf("read netlink sockets: %w", err)
	}
	return netlinkQueues(string(text), protocol)
}

func netlinkQueues(text string, protocol int) (waiting, dropped uint64, err error) {
	const of, queued, drops = 1, 4, 8 // columns
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) <= drops || fields[of] != strconv.Itoa(protocol) {
			continue
		}
		w, err := strconv.ParseUint(fields[queued], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read netlink sockets: %w", err)
		}
		d, err := strconv.ParseUint(fields[drops], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read netlink sockets: %w", err)
		}
		waiting, dropped = waiting+w, dropped+d
	}
	return waiting, dropped, nil
}

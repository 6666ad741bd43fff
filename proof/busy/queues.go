package busy

import (
	"fmt"
	"time"

	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/sock"
)

// genericNetlink is NETLINK_GENERIC (include/uapi/linux/netlink.h).
const genericNetlink = 16

// Queues returns what is in the queues from which programs of the calling thread's network namespace take packets that
// they forward or refuse, such as switches in userspace: how many bytes wait there, and how many packets were dropped
// because a queue was full. They are packet sockets, and those by which the kernel asks a program what to do with a
// packet. The queues of tap devices are not among them.
func Queues() (waiting, dropped uint64, err error) {
	if waiting, dropped, err = sock.PacketQueues(); err != nil {
		return 0, 0, err
	}
	asked, lost, err := procfs.NetlinkQueues(genericNetlink)
	return waiting + asked, dropped + lost, err
}

const (
	// look is how often it is looked for what waits, and looks how often at most: ten seconds in all. A daemon of an
	// emulated CPU has been seen to take four for what an attack had sent.
	look, looks = 5 * time.Millisecond, 2000
	// batch is how long what was taken last may take: ovs-vswitchd lets packets go when it has looked at up to 64 of them
	// (UPCALL_MAX_BATCH, ofproto/ofproto-dpif-upcall.c).
	batch = 100 * time.Millisecond
)

// Drain waits until nothing waits in queues any more: what nobody has looked at has neither passed nor been refused.
// That it does not arrive says nothing. The function waiting returns how many bytes wait in all of them (see [Queues]).
// Meanwhile is called now and then; nil: nothing is to be done. The error says that it takes too long.
func Drain(waiting func() uint64, meanwhile func()) error {
	for n := 0; ; n++ {
		left := waiting()
		switch {
		case left == 0 && n == 0:
			return nil
		case left == 0:
			time.Sleep(batch)
			return nil
		case n == looks:
			return fmt.Errorf("switches have not read %d bytes of packets after %v: the machine is too busy to tell, or a "+
				"program on a host does not read its packet socket", left, looks*look)
		}
		if meanwhile != nil {
			meanwhile()
		}
		time.Sleep(look)
	}
}

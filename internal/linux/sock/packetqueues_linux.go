package sock

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A packetDiag asks for packet sockets (struct packet_diag_req, include/uapi/linux/packet_diag.h).
type packetDiag struct{}

const (
	packetDiagReqSize  = 20
	packetDiagMsgSize  = 16
	packetShowMemInfo  = 0x10 // PACKET_SHOW_MEMINFO
	packetDiagMemInfo  = 6    // PACKET_DIAG_MEMINFO
	skMemInfoRmemAlloc = 0    // SK_MEMINFO_RMEM_ALLOC, include/uapi/linux/sock_diag.h
	skMemInfoDrops     = 8    // SK_MEMINFO_DROPS
	skMemInfoVars      = 9    // SK_MEMINFO_VARS
	sockDiagByFamily   = 20   // SOCK_DIAG_BY_FAMILY
	packetDiagReqShown = 8    // where the request says what is shown
)

func (packetDiag) Len() int { return packetDiagReqSize }

func (packetDiag) Serialize() []byte {
	b := make([]byte, packetDiagReqSize)
	b[0] = unix.AF_PACKET
	binary.NativeEndian.PutUint32(b[packetDiagReqShown:], packetShowMemInfo)
	return b
}

// PacketQueues returns what is in the receive buffers of the packet sockets of the thread's network namespace, taken
// together, those of switches in userspace, for example: how many bytes of memory the packets take that wait there, and
// how many packets were dropped because a buffer was full.
func PacketQueues() (waiting, dropped uint64, err error) {
	req := nl.NewNetlinkRequest(sockDiagByFamily, unix.NLM_F_DUMP)
	req.AddData(packetDiag{})
	messages, err := req.Execute(unix.NETLINK_SOCK_DIAG, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("list packet sockets: %w", err)
	}
	for _, m := range messages {
		if len(m) < packetDiagMsgSize {
			return 0, 0, fmt.Errorf("list packet sockets: a message of %d bytes", len(m))
		}
		attrs, err := nl.ParseRouteAttr(m[packetDiagMsgSize:])
		if err != nil {
			return 0, 0, fmt.Errorf("list packet sockets: %w", err)
		}
		for _, a := range attrs {
			if a.Attr.Type == packetDiagMemInfo && len(a.Value) >= 4*(skMemInfoDrops+1) {
				waiting += uint64(binary.NativeEndian.Uint32(a.Value[4*skMemInfoRmemAlloc:]))
				dropped += uint64(binary.NativeEndian.Uint32(a.Value[4*skMemInfoDrops:]))
			}
		}
	}
	return waiting, dropped, nil
}

// ReceiveQueue returns what is in the receive buffer of a socket: how many bytes of memory the packets take that wait
// there, and how many packets were dropped because it was full (SO_MEMINFO, include/uapi/asm-generic/socket.h).
func ReceiveQueue(c syscall.Conn) (waiting, dropped uint64, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var info [skMemInfoVars]uint32
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(info))
		_, _, errno = unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	}); err != nil {
		return 0, 0, err
	}
	if errno != 0 {
		return 0, 0, os.NewSyscallError("read SO_MEMINFO", errno)
	}
	return uint64(info[skMemInfoRmemAlloc]), uint64(info[skMemInfoDrops]), nil
}

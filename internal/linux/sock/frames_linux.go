package sock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unread is how many bytes a socket of [Frames] holds until it is read: a hundred thousand small frames.
const unread = 64 << 20

// room gives a socket the largest allowed buffer. Without CAP_NET_ADMIN in the first user namespace, that is
// net.core.rmem_max: 212992 bytes by default, a few hundred frames (socket(7)).
func room(fd int) error {
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, unread)
	if errors.Is(err, unix.EPERM) {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, unread)
	}
	return err
}

// Frames opens a socket at a link of the calling thread's network namespace. A write sends a frame unchanged, and
// bypasses the namespace's own filters. A read returns a frame that the link has received, before the filters have seen
// it and without the outermost VLAN tag (packet(7)). It requires CAP_NET_RAW.
func Frames(index int) (*os.File, error) {
	return frames(index, binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL)))
}

// FramesOut is like [Frames], but the socket receives nothing.
func FramesOut(index int) (*os.File, error) { return frames(index, 0) }

func frames(index int, protocol uint16) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			room(fd),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: index}),
		)
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open a packet socket at link %d: %w", index, err)
	}
	return os.NewFile(uintptr(fd), "frames"), nil
}

// Promiscuous has the link of a socket of [Frames] take frames for any address, or no longer: packet(7),
// PACKET_ADD_MEMBERSHIP.
func Promiscuous(f *os.File, index int, on bool) error {
	option := unix.PACKET_ADD_MEMBERSHIP
	if !on {
		option = unix.PACKET_DROP_MEMBERSHIP
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptPacketMreq(int(fd), unix.SOL_PACKET, option,
			&unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC})
	})
	return errors.Join(err, failed)
}

// Unmarked makes a socket of [Frames] ignore frames with that mark (skb->mark; SKF_AD_MARK,
// include/uapi/linux/filter.h).
func Unmarked(f *os.File, mark uint32) error {
	const adOff, adMark = 0xfffff000, 20 // SKF_AD_OFF, SKF_AD_MARK
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: adOff + adMark},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: mark},
		{Code: unix.BPF_RET | unix.BPF_K},
		{Code: unix.BPF_RET | unix.BPF_K, K: math.MaxUint32},
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
	})
	return errors.Join(err, failed)
}

// Unsummed has a datagram socket send without checksums over IPv4 (SO_NO_CHECK, socket(7)).
func Unsummed(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) })
	return errors.Join(err, failed)
}

// Missed returns how many frames a socket of [Frames] had no room for since it was asked last (PACKET_STATISTICS,
// packet(7)).
func Missed(f *os.File) (frames int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		var s *unix.TpacketStats
		if s, failed = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); failed == nil {
			frames = int(s.Drops)
		}
	}); err != nil {
		return 0, err
	}
	return frames, failed
}

// Stamp makes the kernel record when a socket of [Frames] receives a frame, for [ReadStamped] (SO_TIMESTAMPNS,
// socket(7)).
func Stamp(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	return errors.Join(err, failed)
}

// ReadStamped waits for a frame like Read, and returns when the kernel received it; the zero time if the kernel does
// not report it.
func ReadStamped(f *os.File, frame []byte) (n int, at time.Time, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, at, err
	}
	var failed error
	if err := raw.Read(func(fd uintptr) bool {
		n, at, failed = stamped(int(fd), frame)
		return !errors.Is(failed, unix.EAGAIN)
	}); err != nil {
		return 0, time.Time{}, err
	}
	return n, at, failed
}

// TakeStamped is like [ReadStamped], but it does not wait, and heeds no deadline: without a frame it returns
// [io.EOF].
func TakeStamped(f *os.File, frame []byte) (n int, at time.Time, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, at, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { n, at, failed = stamped(int(fd), frame) }); err != nil {
		return 0, time.Time{}, err
	}
	if errors.Is(failed, unix.EAGAIN) {
		failed = io.EOF
	}
	return n, at, failed
}

// stamped reads a frame and its time from a socket that does not block.
func stamped(fd int, frame []byte) (n int, at time.Time, err error) {
	control := make([]byte, unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{}))))
	n, held, _, _, err := unix.Recvmsg(fd, frame, control, 0)
	if err != nil {
		return 0, at, fmt.Errorf("read a frame: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:held])
	if err != nil {
		return n, at, fmt.Errorf("read the time of a frame: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS {
			at = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return n, at, nil
}

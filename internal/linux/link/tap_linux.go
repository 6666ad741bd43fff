package link

import (
	"errors"

	"golang.org/x/sys/unix"
)

// What a reader of a TAP device takes as it is: frames without checksums, and large TCP and UDP segments
// (include/uapi/linux/if_tun.h; those of UDP are known since Linux 6.2).
const (
	offloads    = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	offloadsUDP = unix.TUN_F_USO4 | unix.TUN_F_USO6
)

// OpenTAP makes or finds a TAP device in the network namespace of the calling thread, and returns a descriptor whose
// reads and writes are frames behind a struct virtio_net_hdr of 10 bytes (include/uapi/linux/virtio_net.h), together at
// most [LargestFrame] bytes. The device has a carrier as long as the descriptor is open. If the device is to be found
// and does not exist, the error is [ErrNotFound].
func OpenTAP(name string, t TAP) (fd int, err error) {
	if !t.New { // or the kernel would make it
		h, err := Open()
		if err != nil {
			return 0, err
		}
		_, err = h.ByName(name)
		h.Close()
		if err != nil {
			return 0, err
		}
	}
	mode := unix.O_RDWR | unix.O_CLOEXEC
	if t.NonBlocking {
		mode |= unix.O_NONBLOCK
	}
	if fd, err = unix.Open("/dev/net/tun", mode, 0); err != nil {
		return 0, err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if t.New {
		flags |= unix.IFF_TUN_EXCL
	}
	if t.MultiQueue {
		flags |= unix.IFF_MULTI_QUEUE
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(flags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err == nil && unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads|offloadsUDP) != nil {
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads)
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

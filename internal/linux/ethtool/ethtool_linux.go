package ethtool

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// command holds the commands of ioctl(2) SIOCETHTOOL to read and to switch an offload (include/uapi/linux/ethtool.h).
type command struct{ get, set uint32 }

func commands() map[Offload]command {
	return map[Offload]command{
		TX: {unix.ETHTOOL_GTXCSUM, unix.ETHTOOL_STXCSUM}, RX: {unix.ETHTOOL_GRXCSUM, unix.ETHTOOL_SRXCSUM},
		SG: {unix.ETHTOOL_GSG, unix.ETHTOOL_SSG}, TSO: {unix.ETHTOOL_GTSO, unix.ETHTOOL_STSO},
		GSO: {unix.ETHTOOL_GGSO, unix.ETHTOOL_SGSO}, GRO: {unix.ETHTOOL_GGRO, unix.ETHTOOL_SGRO},
	}
}

// value is struct ethtool_value of include/uapi/linux/ethtool.h.
type value struct{ command, data uint32 }

// request is struct ifreq of include/uapi/linux/if.h with a pointer in it.
type request struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// Get reports whether an offload of a link is on. If there is no such link, the error is fs.ErrNotExist.
func Get(link string, o Offload) (bool, error) {
	v := value{command: commands()[o].get}
	if err := call(fmt.Sprintf("read offload %q of link %q", o, link), link, &v); err != nil {
		return false, err
	}
	return v.data != 0, nil
}

// Set switches an offload of a link. If the link cannot have the offload, or cannot be without it, the error is a
// [linux.UnsupportedError].
func Set(link string, o Offload, on bool) error {
	v := value{command: commands()[o].set}
	state := "off"
	if on {
		v.data, state = 1, "on"
	}
	what := fmt.Sprintf("switch offload %q of link %q %s", o, link, state)
	if err := call(what, link, &v); err != nil {
		return err
	}
	// The kernel silently drops combinations that are not possible: there is no TSO without checksums (net/core/dev.c,
	// netdev_fix_features).
	if is, err := Get(link, o); err != nil {
		return err
	} else if is != on {
		return &linux.UnsupportedError{
			What: what, Missing: fmt.Sprintf("offload %q as asked for", o),
			Hint: "it depends on other offloads: TSO needs checksums and sg, and GSO needs sg",
		}
	}
	return nil
}

func call(what, link string, v *value) error {
	if link == "" || len(link) >= unix.IFNAMSIZ || strings.ContainsRune(link, 0) {
		return fmt.Errorf("%s: invalid link name (valid: 1 to %d bytes)", what, unix.IFNAMSIZ-1)
	}
	if v.command == 0 {
		return fmt.Errorf("%s: unknown offload (known: tx, rx, sg, tso, gso, gro)", what)
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer unix.Close(s)
	r := request{data: unsafe.Pointer(v)}
	copy(r.name[:], link)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(v)
	switch {
	case errno == 0:
		return nil
	case errors.Is(errno, unix.EOPNOTSUPP), errors.Is(errno, unix.EINVAL):
		return &linux.UnsupportedError{
			What: what, Missing: "an offload of this link that can be switched", Hint: "ethtool -k shows which are fixed",
			Err: errno,
		}
	case errors.Is(errno, unix.ENODEV):
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case errors.Is(errno, unix.EPERM):
		return &linux.UnsupportedError{What: what, Missing: "CAP_NET_ADMIN", Hint: "run it as root", Err: errno}
	}
	return fmt.Errorf("%s: %w", what, errno)
}

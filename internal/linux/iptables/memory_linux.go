package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// The options of ip_tables and ip6_tables: IPT_SO_GET_INFO and IP6T_SO_GET_INFO,
// include/uapi/linux/netfilter_ipv4/ip_tables.h, and the offsets in struct ipt_getinfo of the name, which is passed in,
// and the size, which is returned.
const (
	getInfo    = 64
	infoLength = 84
	infoSize   = 80
)

// Memory returns the length in bytes of the table that the kernel walks: all rules with their matches and targets,
// without their counters (struct xt_table_info). nf_tables does not report it.
func (t Tool) Memory() (int64, error) {
	what := "read the memory of " + t.what()
	if t.Variant != Legacy {
		return 0, &linux.UnsupportedError{What: what, Missing: "a figure of the kernel's for rules of nf_tables"}
	}
	family, level := unix.AF_INET, unix.SOL_IP
	if t.V6 {
		family, level = unix.AF_INET6, unix.SOL_IPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	var info [infoLength]byte
	copy(info[:], name)
	length := uint32(len(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), getInfo, uintptr(unsafe.Pointer(&info)),
		uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		err = errno
	}
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return int64(binary.NativeEndian.Uint32(info[infoSize:])), nil
}

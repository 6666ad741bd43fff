package ovs

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// udpSegments is the feature of a link that accepts UDP segments larger than the MTU (net/ethtool/common.c,
// netdev_features_strings).
const udpSegments = "tx-udp-segmentation"

// Sets of strings and their length (include/uapi/linux/ethtool.h).
const (
	featureStrings = 4  // ETH_SS_FEATURES
	stringLen      = 32 // ETH_GSTRING_LEN
	maxFeatures    = 256
)

// SegmentDatagrams makes the kernel cut large UDP segments (UDP_SEGMENT) before they reach a link of the calling
// thread's namespace. The userspace datapath accepts TCP segments unchanged and drops UDP ones (tried with 3.1: "error
// sending Ethernet packet: Message too long").
func SegmentDatagrams(link string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switch off %s of link %q: %w", udpSegments, link, err)
	}
	defer unix.Close(s)
	call := func(data unsafe.Pointer) error {
		var r struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [24 - unsafe.Sizeof(uintptr(0))]byte
		}
		copy(r.name[:unix.IFNAMSIZ-1], link)
		r.data = data
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
		runtime.KeepAlive(data)
		if errno != 0 {
			return fmt.Errorf("switch off %s of link %q: %w", udpSegments, link, errno)
		}
		return nil
	}
	count := struct {
		command, reserved uint32
		mask              uint64
		length            uint32
		_                 uint32
	}{command: unix.ETHTOOL_GSSET_INFO, mask: 1 << featureStrings}
	if err := call(unsafe.Pointer(&count)); err != nil {
		return err
	}
	var names struct {
		command, set, length uint32
		text                 [maxFeatures * stringLen]byte
	}
	if count.length > maxFeatures {
		return fmt.Errorf("switch off %s of link %q: it has %d features, which is more than anyone knew of", udpSegments,
			link, count.length)
	}
	names.command, names.set, names.length = unix.ETHTOOL_GSTRINGS, featureStrings, count.length
	if err := call(unsafe.Pointer(&names)); err != nil {
		return err
	}
	for n := range int(count.length) {
		name := names.text[n*stringLen:][:stringLen]
		if name, _, _ = bytes.Cut(name, []byte{0}); string(name) != udpSegments {
			continue
		}
		var change struct {
			command, blocks uint32
			words           [maxFeatures / 32]struct{ valid, wanted uint32 }
		}
		change.command, change.blocks = unix.ETHTOOL_SFEATURES, (count.length+31)/32
		change.words[n/32].valid = 1 << (n % 32)
		return call(unsafe.Pointer(&change))
	}
	return nil // a kernel without such segments
}

package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// A TAP says how [OpenTAP] opens a TAP device.
type TAP struct {
	// New makes the device, which ends with the descriptor. Otherwise somebody has made it.
	New bool
	// MultiQueue is true for a device that has several queues. The descriptor is one of them.
	MultiQueue bool
	// NonBlocking reads return at once if there is no frame.
	NonBlocking bool
}

// LargestFrame is the size in bytes of the largest frame of a TAP device: a segment of 64 KiB with all headers. The
// kernel does not pass larger ones to a device whose gso_max_size is 65536 (include/linux/netdevice.h,
// GSO_LEGACY_MAX_SIZE).
const LargestFrame = 66 << 10

// CheckTUN returns nil if programs can make links through /dev/net/tun, and otherwise what is missing. What describes
// their purpose.
func CheckTUN(what string) error {
	const device = "/dev/net/tun"
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, fs.ErrPermission):
		return &linux.UnsupportedError{
			What: what, Missing: "access to " + device, Hint: "run as root, or chmod 666 " + device, Err: err,
		}
	case errors.Is(err, fs.ErrNotExist):
		return &linux.UnsupportedError{What: what, Missing: device, Hint: "use a kernel with CONFIG_TUN", Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

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

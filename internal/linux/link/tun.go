package link

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// CheckTUN says whether programs can make links of their own by /dev/net/tun: nil, or what is missing. What is what
// they are to do.
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

package idle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nettoll/nettoll/internal/linux"
)

// device is where a program says how many microseconds an interrupt may take to be noticed. The least value of all
// programs that have it open counts (Documentation/power/pm_qos_interface.rst). With 0 a governor takes no state but
// the first (drivers/cpuidle/governors).
const device = "/dev/cpu_dma_latency"

// Hold keeps all CPUs of the machine from sleeping until the file is closed, at the latest when the process ends. If
// the machine was started with idle=poll there is nothing to keep, and the file is nil. The error is a
// [linux.UnsupportedError] if something is missing: a cpuidle driver, the device, the permission to open it.
func Hold() (*os.File, error) {
	root := os.DirFS("/")
	if Polls(root) {
		return nil, nil
	}
	if err := driven(root); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &linux.UnsupportedError{What: keep, Missing: device, Hint: "use a kernel with CONFIG_CPU_IDLE", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return nil, &linux.UnsupportedError{
			What: keep, Missing: "permission to open " + device, Hint: "run it as root", Err: err,
		}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", keep, err)
	}
	if _, err := f.Write(binary.NativeEndian.AppendUint32(nil, 0)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", keep, err), f.Close())
	}
	return f, nil
}

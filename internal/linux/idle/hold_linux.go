package idle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/thread"
)

// device is the file in which a program requests an upper limit for the wake-up latency, in microseconds. The smallest
// request of all programs that have it open counts (Documentation/power/pm_qos_interface.rst). With 0, a governor uses
// only the first idle state (drivers/cpuidle/governors).
const device = "/dev/cpu_dma_latency"

// Hold keeps all CPUs of the machine from sleeping until the file is closed, at the latest when the process ends. If
// the machine was started with idle=poll, the file is nil, because CPUs never sleep. The error is a
// [linux.UnsupportedError] if something is missing: a cpuidle driver, the device, or the permission to open it.
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

// Settle lets CPUs that were held awake return to their usual behaviour. A CPU that has once been in the polling state
// keeps a poll limit of up to 250 µs (cpuidle_poll_time, drivers/cpuidle/cpuidle.c). The governor haltpoll then polls
// for that long before it halts, until 18 long waits have halved the limit away (adjust_poll_limit,
// drivers/cpuidle/governors/haltpoll.c). Threads that wake each other sooner never wait that long: round trips then
// took 11 µs instead of 58. So Settle lets a thread on each CPU wait often enough.
func Settle(cpus []int) error {
	const waits, long = 24, time.Millisecond
	errs := make([]error, len(cpus))
	var running sync.WaitGroup
	for i, cpu := range cpus {
		running.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with its affinity
			if errs[i] = thread.Pin(cpu); errs[i] != nil {
				return
			}
			for range waits {
				time.Sleep(long)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

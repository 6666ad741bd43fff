//go:build !linux

package thread

import (
	"runtime"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported(what string) error {
	return &linux.UnsupportedError{What: what, Missing: "Linux", Hint: "threads are placed on CPUs only there"}
}

// ID is 0 here.
func ID() int { return 0 }

// Pin is not supported here.
func Pin(...int) error { return unsupported("pin thread") }

// CPUs counts the machine's CPUs: here, an experiment can only be planned.
func CPUs() ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}

// RunTime is 0 here.
func RunTime() int64 { return 0 }

// UserTime is 0 here.
func UserTime() int64 { return 0 }

// Park is not supported here.
func Park(map[int]bool) error { return unsupported("park threads") }

// Delay is 0 here.
func Delay() int64 { return 0 }

// Punctual does nothing here.
func Punctual(bool) {}

// Prompt does nothing here.
func Prompt() {}

// Reserve does nothing here.
func Reserve(int) {}

//go:build !linux

package thread

import "github.com/nettoll/nettoll/internal/linux"

func unsupported(what string) error {
	return &linux.UnsupportedError{What: what, Missing: "Linux", Hint: "threads are placed on CPUs only there"}
}

// ID is 0 here.
func ID() int { return 0 }

// Pin is not supported here.
func Pin(...int) error { return unsupported("pin thread") }

// CPUs is not supported here.
func CPUs() ([]int, error) { return nil, unsupported("read thread's CPUs") }

// RunTime is 0 here.
func RunTime() int64 { return 0 }

// Park is not supported here.
func Park(map[int]bool) error { return unsupported("park threads") }

//go:build !linux

package futex

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

func unsupported() error {
	return &linux.UnsupportedError{What: "wait on a futex", Missing: "Linux", Hint: "futexes exist only there"}
}

// Wait is not supported here.
func Wait(*uint32, uint32, time.Duration) error { return unsupported() }

// WaitUntil is not supported here.
func WaitUntil(*uint32, uint32, int64) error { return unsupported() }

// Wake does nothing here: nobody can wait.
func Wake(*uint32, int) {}

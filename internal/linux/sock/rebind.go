package sock

import (
	"errors"
	"syscall"
	"time"
)

// lingering is how long a socket that was closed may stand on. A child that a process has forked holds copies of its
// files until it executes its program (do_close_on_exec, fs/exec.c), and on a busy machine it waits for a CPU
// meanwhile.
const lingering = 2 * time.Second

// Rebind calls bind, which binds a socket to an address that one closed just before had, until that one is gone. An
// address that stays in use is the error.
func Rebind(bind func() error) error {
	for deadline := time.Now().Add(lingering); ; time.Sleep(time.Millisecond) {
		err := bind()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return err
		}
	}
}

package sock

import (
	"errors"
	"syscall"
	"time"
)

// lingering is how long a closed socket may still exist. A forked child holds copies of this process's files until it
// calls exec (do_close_on_exec, fs/exec.c), and on a busy machine it may wait for a CPU before that.
const lingering = 2 * time.Second

// Rebind calls bind, which binds a socket to the address of a socket that was just closed, until the old socket is
// gone. If the address stays in use, that is the error.
func Rebind(bind func() error) error {
	for deadline := time.Now().Add(lingering); ; time.Sleep(time.Millisecond) {
		err := bind()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return err
		}
	}
}

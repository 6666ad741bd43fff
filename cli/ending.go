package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// ends lists the signals that end a command in good order: an interrupt, SIGTERM, and SIGHUP (loss of the terminal)
// unless it is ignored, as under nohup(1).
func ends() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// outlivePipes keeps this process alive if nobody reads its standard output or error any more. Writing then fails
// instead of ending the process (package os/signal, "SIGPIPE"). Child processes are not affected.
func outlivePipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// guarded returns the exit status of f, or [exitCrashed] if f panics.
func guarded(stderr io.Writer, f func() int) (code int) {
	defer func() {
		if fault := recover(); fault != nil {
			fmt.Fprintf(stderr, "nettoll: internal error: %v\n\n%s\nThis is a bug in nettoll. Please report it with the "+
				"command line and the text above.\n", fault, debug.Stack())
			code = exitCrashed
		}
	}()
	return f()
}

package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// An ExhaustedError reports that the kernel refused a process, a thread, memory or an open file because a limit is
// reached.
type ExhaustedError struct {
	// Limit names the limit, as far as it is known, and what would help.
	Limit string
	// Err is the cause; nil if a child died of it.
	Err error
}

// Error names the limit and what would help.
func (e *ExhaustedError) Error() string {
	if e.Err == nil {
		return e.Limit
	}
	return fmt.Sprintf("%v: %s", e.Err, e.Limit)
}

// Unwrap returns the cause.
func (e *ExhaustedError) Unwrap() error { return e.Err }

// exhausted turns errors of clone(2), and of opening files for it, that mean a lack of resources into an
// [ExhaustedError]. It returns other errors unchanged.
func exhausted(err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return &ExhaustedError{Limit: tasks(), Err: err}
	case errors.Is(err, syscall.ENOMEM):
		return &ExhaustedError{Limit: memory(), Err: err}
	case errors.Is(err, syscall.EMFILE):
		return &ExhaustedError{Limit: files(), Err: err}
	}
	return err
}

// Reached returns the limit that a Go program has reached, from the line of its crash, and what would help; "" if it
// was not a limit. Threads need memory, too (newosproc, runtime/os_linux.go).
func Reached(crash string) string {
	switch {
	case strings.HasPrefix(crash, "runtime: failed to create new OS thread") &&
		!strings.Contains(crash, fmt.Sprintf("errno=%d)", int(syscall.ENOMEM))),
		strings.HasPrefix(crash, "runtime/cgo: pthread_create failed"): // EAGAIN, whichever of the two was lacking
		return tasks()
	case strings.HasPrefix(crash, "runtime: "), strings.Contains(crash, "out of memory"),
		strings.Contains(crash, "cannot allocate memory"), strings.Contains(crash, "failed to reserve"):
		return memory()
	}
	return ""
}

// tasks names the limit on processes and threads that is reached.
func tasks() string {
	all := procfs.Ceilings(os.DirFS("/"))
	if i := slices.IndexFunc(all, procfs.Ceiling.Near); i >= 0 {
		return fmt.Sprintf("the limit of processes and threads is reached: %s (hint: %s, or measure fewer pairs or stacks "+
			"at once)", all[i], all[i].Help)
	}
	return "the limit of processes and threads is reached (hint: raise ulimit -u, pids.max of the control group, or the " +
		"sysctls kernel.threads-max and kernel.pid_max; or measure fewer pairs or stacks at once)"
}

// files returns how many files a process may have open.
func files() string {
	return fmt.Sprintf("ulimit -n (RLIMIT_NOFILE) is %d (hint: raise it, or measure fewer pairs or stacks at once)",
		mostFiles())
}

// memory names the limit on memory that is reached.
func memory() string {
	for _, l := range []struct{ name, limit, option string }{
		{"Max address space", "ulimit -v (RLIMIT_AS)", "-v"},
		{"Max data size", "ulimit -d (RLIMIT_DATA)", "-d"},
	} {
		if n, limited := procfs.Rlimit(os.DirFS("/"), l.name); limited {
			return fmt.Sprintf("out of memory: %s is %d MiB (hint: ulimit %s unlimited, or measure fewer pairs or stacks at "+
				"once)", l.limit, n>>20, l.option)
		}
	}
	return fmt.Sprintf("out of memory: the machine has %d MiB available (hint: close other programs, raise memory.max "+
		"of the control group, or measure fewer pairs or stacks at once)",
		procfs.ReadLimits().Memory>>20)
}

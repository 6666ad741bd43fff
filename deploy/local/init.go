package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nettoll/nettoll/host/agent"
	"github.com/nettoll/nettoll/internal/linux/process"
)

const (
	// exitUnsupported is the exit status that reports to the parent that the machine lacks something (EX_UNAVAILABLE,
	// sysexits.h).
	exitUnsupported = 69
	// exitUsage is for wrong arguments.
	exitUsage = 2
)

// Init is the main function of a host's PID 1, the command "host-init". It turns its namespaces into a host, starts the
// agent with the given arguments, which [agent.Args] reads, reaps orphans, and returns the agent's exit status. It
// writes errors to stderr.
func Init(args []string, stderr io.Writer) int {
	given, err := agent.Args(args)
	if err != nil {
		fmt.Fprintf(stderr, "host-init: %v\n", err)
		return exitUsage
	}
	// The following steps would change the mounts of a user who runs this command by hand.
	if os.Getpid() != 1 {
		fmt.Fprintln(stderr, "host-init: only for PID 1 of a host's own namespaces (nettoll run starts it)")
		return exitUsage
	}
	if err := process.Isolate(given.Name, given.Cgroups); err != nil {
		fmt.Fprintf(stderr, "host-init: %v\n", err)
		if errors.Is(err, errors.ErrUnsupported) {
			return exitUnsupported
		}
		return 1
	}
	// The files that the agent inherits are open here under the same numbers, without close-on-exec.
	status, err := process.Supervise("/proc/self/exe", append([]string{argv0, "agent"}, args...), os.Environ())
	if err != nil {
		fmt.Fprintf(stderr, "host-init: %v\n", err)
		return 1
	}
	return status
}

// argv0 is the name of a host's processes in a list of processes.
const argv0 = "nettoll"

// environ returns the environment of a host. One thread that runs Go code is enough for PID 1 and for the agent; the
// agent does not pass this setting on.
func environ(base []string) []string {
	env := make([]string, 0, len(base)+1)
	for _, e := range base {
		if !strings.HasPrefix(e, "GOMAXPROCS=") {
			env = append(env, e)
		}
	}
	return append(env, "GOMAXPROCS=1")
}

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
	// exitUnsupported tells the parent that the machine lacks something (EX_UNAVAILABLE, sysexits.h).
	exitUnsupported = 69
	// exitUsage is for wrong arguments.
	exitUsage = 2
)

// Init is the life of a host's PID 1, the command "host-init": it makes its namespaces a host, starts the agent with
// the arguments it was given, which [agent.Args] reads, reaps orphans, and returns the agent's exit status. What goes
// wrong is said on stderr.
func Init(args []string, stderr io.Writer) int {
	name, _, err := agent.Args(args)
	if err != nil {
		fmt.Fprintf(stderr, "host-init: %v\n", err)
		return exitUsage
	}
	// What follows would change the mounts of whoever calls it by hand.
	if os.Getpid() != 1 {
		fmt.Fprintln(stderr, "host-init: only for PID 1 of a host's own namespaces (nettoll run starts it)")
		return exitUsage
	}
	if err := process.Isolate(name); err != nil {
		fmt.Fprintf(stderr, "host-init: %v\n", err)
		if errors.Is(err, errors.ErrUnsupported) {
			return exitUnsupported
		}
		return 1
	}
	// The files the agent inherits are open here under the same numbers, and not close-on-exec.
	status, err := process.Supervise("/proc/self/exe", append([]string{argv0, "agent"}, args...), os.Environ())
	if err != nil {
		fmt.Fprintf(stderr, "host-init: %v\n", err)
		return 1
	}
	return status
}

// argv0 is how the processes of a host are called in a list of processes.
const argv0 = "nettoll"

// environ returns the environment of a host. One thread that runs Go is enough for PID 1 and for the agent; the agent
// does not pass this on.
func environ(base []string) []string {
	env := make([]string, 0, len(base)+1)
	for _, e := range base {
		if !strings.HasPrefix(e, "GOMAXPROCS=") {
			env = append(env, e)
		}
	}
	return append(env, "GOMAXPROCS=1")
}

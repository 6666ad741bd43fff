package runtimetest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/internal/testnet"
)

// began is the name of the process of a worker in a container, with the number of CPUs that it could use at first.
const began = "began on %d CPU"

// Main is the TestMain of a runtime. The test program is that of the labs' hosts and containers as well, and has mounts
// and a /run of its own.
func Main(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"host-init", "agent", "worker", "daemon", "sink"}, os.Args[1]) {
		if slices.Contains(os.Args, "--container") {
			// [Want.limited] reads it. The Go runtime has counted the CPUs before any other code ran.
			_ = os.WriteFile("/proc/self/comm", fmt.Appendf(nil, began, runtime.NumCPU()), 0o600)
		}
		os.Exit(cli.Run(context.Background(), "", cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	startAgain()
	testnet.Main(m)
}

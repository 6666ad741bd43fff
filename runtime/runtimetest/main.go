package runtimetest

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/internal/testnet"
)

// Main is the TestMain of a runtime. The test program is that of the labs' hosts and containers as well, and has mounts
// and a /run of its own.
func Main(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"host-init", "agent", "worker", "daemon", "sink"}, os.Args[1]) {
		os.Exit(cli.Run(context.Background(), "", cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	startAgain()
	testnet.Main(m)
}

package steptest

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
)

// Main is [testnet.Main] for a test binary that is one of the daemons of its own labs when it is started as such.
func Main(m *testing.M, daemons map[string]host.Daemon) {
	if len(os.Args) < 3 || os.Args[1] != host.DaemonCommand {
		testnet.Main(m)
		return
	}
	control, err := net.FileConn(os.Stdin)
	if err == nil {
		err = daemons[os.Args[2]](context.Background(), control, os.Args[3:], os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

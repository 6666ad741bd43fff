package wireguard_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/nettoll/nettoll/encryption/wireguard"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestMain lets the test binary be the embedded device of its own labs.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == host.DaemonCommand {
		control, err := net.FileConn(os.Stdin)
		if err == nil {
			err = wireguard.Encryption{}.Daemons()[os.Args[2]](context.Background(), control, os.Args[3:], os.Stderr)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testnet.Main(m)
}

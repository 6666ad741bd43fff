package containerd_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime/containerd"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// TestMain is the program of the labs' hosts and containers as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"host-init", "agent", "worker", "daemon", "sink"}, os.Args[1]) {
		os.Exit(cli.Run(context.Background(), "", cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	runtimetest.Alone()
	testnet.Main(m)
}

func TestConformance(t *testing.T) {
	runtimetest.Conformance(t, containerd.Runtime{})
	for _, command := range []string{"runc", "crun"} {
		t.Run(command, func(t *testing.T) {
			root := []string{"dev", "nettoll", "nettoll.sock", "proc", "run", "sys"}
			for name, rights := range map[string]uint64{"usual": runtimetest.Usual, "all": runtimetest.Own(t)} {
				t.Run(name, func(t *testing.T) {
					runtimetest.Inhabited(t, containerd.Runtime{}, map[string]string{"command": command, "capabilities": name},
						runtimetest.Want{Capabilities: rights, Root: root, Writable: true, AnyCPU: true, Swaps: true})
				})
			}
			runtimetest.Confined(t, containerd.Runtime{}, map[string]string{"command": command},
				runtimetest.Want{Capabilities: runtimetest.Usual, Root: root, Writable: true})
		})
	}
}

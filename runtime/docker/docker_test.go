package docker_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime/docker"
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
	runtimetest.Conformance(t, docker.Runtime{})
	root := []string{".dockerenv", "dev", "etc", "nettoll", "nettoll.sock", "proc", "sys"}
	const younger = 7 << 38 // CAP_PERFMON, CAP_BPF and CAP_CHECKPOINT_RESTORE, of Linux 5.8 and 5.9
	for name, rights := range map[string]uint64{"usual": runtimetest.Usual, "all": runtimetest.Own(t)} {
		t.Run(name, func(t *testing.T) {
			runtimetest.Inhabited(t, docker.Runtime{}, map[string]string{"capabilities": name},
				runtimetest.Want{
					Capabilities: rights, Unknown: rights & younger, Root: root, NewPrivileges: true, Filtered: true, Writable: true,
				})
		})
	}
	runtimetest.Confined(t, docker.Runtime{}, nil, runtimetest.Want{
		Capabilities: runtimetest.Usual, Root: root, NewPrivileges: true, Filtered: true, Writable: true,
	})
}

package docker_test

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/runtime/dockertest"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	dockertest.Main()
	runtimetest.Main(m)
}

// TestTaken wants a container whose network namespace cannot have its name to be told and to be gone, although its
// worker runs by then.
func TestTaken(t *testing.T) {
	testnet.Skip(t, docker.Runtime{}.Check(nil))
	k := runtimetest.Kernel(t, testnet.New(t))
	var s host.Stack
	err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		host.Namespace{Name: "src0"},
		docker.Daemon{},
		docker.Container{Contained: runtime.Contained{Name: "src0", Namespace: "src0"}},
	}})
	if err == nil || !strings.Contains(err.Error(), "make container src0: bind network namespace: ") {
		t.Errorf("a container whose name is taken: %v", err)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
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
	t.Run("users", func(t *testing.T) {
		runtimetest.Inhabited(t, docker.Runtime{}, map[string]string{"userns": "true"}, runtimetest.Want{
			Capabilities: runtimetest.Usual, Root: root, NewPrivileges: true, Filtered: true, Writable: true, Users: true,
		})
	})
	runtimetest.Profiled(t, docker.Runtime{}, nil)
}

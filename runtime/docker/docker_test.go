package docker_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		docker.Containerd{},
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
	runtimetest.Entered(t, docker.Runtime{}, nil)
	runtimetest.Profiled(t, docker.Runtime{}, nil)
}

// TestCannotStart wants a program that cannot be executed to be reported with the reason of Docker.
func TestCannotStart(t *testing.T) {
	runtimetest.CannotStart(t, docker.Runtime{}, nil, "make container src0: ", "permission denied")
}

// TestMachineCannotStart wants the same of the machine's Docker, which is left as it was.
func TestMachineCannotStart(t *testing.T) {
	theirs := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", theirs.Host)
	untouched := theirs.Inhabit()
	runtimetest.CannotStart(t, docker.Runtime{}, map[string]string{"use": "machine"}, "make container src0: ", "permission denied")
	untouched()
}

func TestOutdated(t *testing.T) {
	runtimetest.Outdated(t, docker.Runtime{}, nil, []string{"dockerd", "docker"}, "containerd")
	runtimetest.Outdated(t, docker.Runtime{}, map[string]string{"use": "machine"}, []string{"docker"})
}

// TestMachineOutdated wants a daemon of the machine to be refused that is too old, with its version.
func TestMachineOutdated(t *testing.T) {
	testnet.Root(t)
	dir := t.TempDir()
	t.Setenv("DOCKER_HOST", "unix:///run/theirs.sock")
	t.Setenv("PATH", dir)
	for version, refused := range map[string]bool{"19.03.15": true, "20.10.24+dfsg1": false, "dev": false} {
		script := fmt.Sprintf("#!/bin/sh\necho '{\"ServerVersion\": %q}'\n", version)
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := docker.Runtime{}.Daemon(t.Context())
		if want := "a daemon of Docker 20.10 or newer (found 19.03.15)"; refused && (!errors.Is(err, errors.ErrUnsupported) ||
			!strings.Contains(err.Error(), want)) || !refused && err != nil {
			t.Errorf("a daemon of version %s: %v, want it to be refused: %v", version, err, refused)
		}
	}
}

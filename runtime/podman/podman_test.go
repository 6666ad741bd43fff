package podman_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/podman"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }

func TestConformance(t *testing.T) {
	runtimetest.Conformance(t, podman.Runtime{})
	for _, command := range []string{"runc", "crun"} {
		t.Run(command, func(t *testing.T) {
			root := []string{"dev", "etc", "nettoll", "nettoll.sock", "proc", "run", "sys"}
			for name, rights := range map[string]uint64{"usual": runtimetest.Usual, "all": runtimetest.Own(t)} {
				t.Run(name, func(t *testing.T) {
					runtimetest.Inhabited(t, podman.Runtime{}, map[string]string{"command": command, "capabilities": name},
						runtimetest.Want{Capabilities: rights, Root: root, NewPrivileges: true, Filtered: true, Writable: true})
				})
			}
			runtimetest.Confined(t, podman.Runtime{}, map[string]string{"command": command}, runtimetest.Want{
				Capabilities: runtimetest.Usual, Root: root, NewPrivileges: true, Filtered: true, Writable: true,
			})
			t.Run("users", func(t *testing.T) {
				runtimetest.Inhabited(t, podman.Runtime{}, map[string]string{"command": command, "userns": "true"},
					runtimetest.Want{
						Capabilities: runtimetest.Usual, Root: root, NewPrivileges: true, Filtered: true, Writable: true, Users: true,
					})
			})
			runtimetest.Entered(t, podman.Runtime{}, map[string]string{"command": command})
			runtimetest.Profiled(t, podman.Runtime{}, map[string]string{"command": command})
		})
	}
}

// TestCannotStart wants a program that cannot be executed to be reported with the reason of runc. crun before 1.9 needs
// a host that shows it one version of cgroups.
func TestCannotStart(t *testing.T) {
	runtimetest.CannotStart(t, podman.Runtime{}, nil, "make container src0: ", "permission denied")
}

func TestOutdated(t *testing.T) {
	for _, command := range []string{"runc", "crun"} {
		t.Run(command, func(t *testing.T) {
			runtimetest.Outdated(t, podman.Runtime{}, map[string]string{"command": command},
				[]string{"podman", command}, "conmon")
		})
	}
}

// TestPrograms wants Podman to start the programs that the PATH has, whose versions are checked, and not others in the
// directories that it looks in by default.
func TestPrograms(t *testing.T) {
	testnet.Skip(t, podman.Runtime{}.Check(part.Params{runtime.Command: runtime.RunC}))
	for program, want := range map[string]string{"runc": "make container src0: ", "conmon": "outdated conmon version"} {
		t.Run(program, func(t *testing.T) {
			dir := t.TempDir()
			started := filepath.Join(dir, "started")
			script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\nexit 1\n", started)
			if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			k := runtimetest.Kernel(t, testnet.New(t))
			var s host.Stack
			err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
				host.Namespace{Name: "src0"}, podman.Store{}, podman.Container{
					Contained: runtime.Contained{Name: "src0", Namespace: "src0"}, Command: runtime.RunC,
				},
			}})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a container by a %s that fails: %v, want %q", program, err, want)
			}
			if err := s.Undo(t.Context(), k); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(started); err != nil {
				t.Errorf("another %s was started: %v", program, err)
			}
		})
	}
}

// TestHybrid wants what helps if crun does not take the cgroups of a host.
func TestHybrid(t *testing.T) { runtimetest.Hybrid(t, podman.Runtime{}) }

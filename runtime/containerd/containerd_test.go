package containerd_test

import (
	"testing"

	"github.com/nettoll/nettoll/runtime/containerd"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }

func TestConformance(t *testing.T) {
	runtimetest.Conformance(t, containerd.Runtime{})
	for _, command := range []string{"runc", "crun"} {
		t.Run(command, func(t *testing.T) {
			root := []string{"dev", "nettoll", "nettoll.sock", "proc", "run", "sys"}
			for name, rights := range map[string]uint64{"usual": runtimetest.Usual, "all": runtimetest.Own(t)} {
				t.Run(name, func(t *testing.T) {
					runtimetest.Inhabited(t, containerd.Runtime{}, map[string]string{"command": command, "capabilities": name},
						runtimetest.Want{Capabilities: rights, Root: root, Writable: true, Swaps: true})
				})
			}
			runtimetest.Confined(t, containerd.Runtime{}, map[string]string{"command": command},
				runtimetest.Want{Capabilities: runtimetest.Usual, Root: root, Writable: true})
			t.Run("users", func(t *testing.T) {
				runtimetest.Inhabited(t, containerd.Runtime{}, map[string]string{"command": command, "userns": "true"},
					runtimetest.Want{
						Capabilities: runtimetest.Usual, Root: root, Writable: true, Swaps: true, Users: true,
					})
			})
			runtimetest.Entered(t, containerd.Runtime{}, map[string]string{"command": command})
			runtimetest.Profiled(t, containerd.Runtime{}, map[string]string{"command": command})
		})
	}
}

// TestCannotStart wants a program that cannot be executed to be reported with the reason of runc. crun before 1.9 needs
// a host that shows it one version of cgroups.
func TestCannotStart(t *testing.T) {
	runtimetest.CannotStart(t, containerd.Runtime{}, nil, "make container src0: ", "permission denied")
}

func TestOutdated(t *testing.T) {
	for _, command := range []string{"runc", "crun"} {
		t.Run(command, func(t *testing.T) {
			runtimetest.Outdated(t, containerd.Runtime{}, map[string]string{"command": command},
				[]string{"containerd", "ctr", command})
		})
	}
}

// TestHybrid wants what helps if crun does not take the cgroups of a host.
func TestHybrid(t *testing.T) { runtimetest.Hybrid(t, containerd.Runtime{}) }

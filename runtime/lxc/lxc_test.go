package lxc_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/lxc"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }

func TestConformance(t *testing.T) {
	runtimetest.Conformance(t, lxc.Runtime{})
	root := []string{"dev", "nettoll", "proc", "sys"}
	for name, rights := range map[string]uint64{"usual": runtimetest.Usual, "all": runtimetest.Own(t)} {
		t.Run(name, func(t *testing.T) {
			runtimetest.Inhabited(t, lxc.Runtime{}, map[string]string{"capabilities": name},
				runtimetest.Want{Capabilities: rights, Root: root})
		})
	}
	t.Run("users", func(t *testing.T) {
		runtimetest.Inhabited(t, lxc.Runtime{}, map[string]string{"userns": "true"},
			runtimetest.Want{Capabilities: runtimetest.Usual, Root: root, Users: true})
	})
	runtimetest.Confined(t, lxc.Runtime{}, nil, runtimetest.Want{Capabilities: runtimetest.Usual, Root: root})
	runtimetest.Entered(t, lxc.Runtime{}, nil)
	runtimetest.Profiled(t, lxc.Runtime{}, nil)
}

// A program that cannot be started is told with LXC's reason, and nothing is left of its container.
func TestCannotStart(t *testing.T) {
	testnet.Program(t, "lxc-start", "lxc")
	runtimetest.CannotStart(t, lxc.Runtime{}, nil, "lxc-start: exit status 1: ", "Permission denied")
}

func TestContainers(t *testing.T) {
	got, err := lxc.Runtime{}.Containers([]runtime.Container{{Name: "src0", Namespace: "src0"}, {Name: "snk0"}},
		part.Params{"capabilities": "all", "no-new-privileges": "true"})
	if err != nil {
		t.Fatal(err)
	}
	want := []host.Step{
		host.Namespace{Name: "src0"},
		lxc.Container{Contained: runtime.Contained{
			Name: "src0", Namespace: "src0", Rights: runtime.Rights{Privileged: true},
		}},
		lxc.Container{Contained: runtime.Contained{Name: "snk0", Rights: runtime.Rights{Privileged: true}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if text := got[2].String(); text != "lxc container snk0 in the host's network namespace, with all capabilities" {
		t.Errorf("it is described as %q", text)
	}
}

func TestOutdated(t *testing.T) { runtimetest.Outdated(t, lxc.Runtime{}, nil, []string{"lxc-start"}) }

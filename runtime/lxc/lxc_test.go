package lxc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
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

// TestCannotStart wants a program that cannot be started to be told.
func TestCannotStart(t *testing.T) {
	testnet.Program(t, "lxc-start", "lxc")
	m := testnet.New(t)
	bad := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(bad, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := steptest.Kernel(t, m, host.KernelConfig{Journal: forgetful{}, Worker: func(string) *exec.Cmd {
		return &exec.Cmd{Path: bad, Args: []string{"nettoll"}}
	}})
	var s host.Stack
	err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		host.Namespace{Name: "src0"}, lxc.Container{Contained: runtime.Contained{Name: "src0", Namespace: "src0"}},
	}})
	if err == nil || !strings.Contains(err.Error(), "lxc-start: exit status 1: ") ||
		!strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("%v, want the reason of LXC", err)
	}
}

type forgetful struct{}

func (forgetful) Write(host.Note) error { return nil }

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

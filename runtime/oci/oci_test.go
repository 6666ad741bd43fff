package oci_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/steptest"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/oci"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }

func TestConformance(t *testing.T) {
	runtimetest.Conformance(t, oci.Runtime{})
	for _, command := range []string{"runc", "crun"} {
		t.Run(command, func(t *testing.T) {
			root := []string{"dev", "nettoll", "proc", "sys"}
			for name, rights := range map[string]uint64{"usual": runtimetest.Usual, "all": runtimetest.Own(t)} {
				t.Run(name, func(t *testing.T) {
					runtimetest.Inhabited(t, oci.Runtime{}, map[string]string{"command": command, "capabilities": name},
						runtimetest.Want{Capabilities: rights, Root: root})
				})
			}
			t.Run("users", func(t *testing.T) {
				runtimetest.Inhabited(t, oci.Runtime{}, map[string]string{"command": command, "userns": "true"},
					runtimetest.Want{Capabilities: runtimetest.Usual, Root: root, Users: true})
			})
			runtimetest.Confined(t, oci.Runtime{}, map[string]string{"command": command},
				runtimetest.Want{Capabilities: runtimetest.Usual, Root: root})
			runtimetest.Entered(t, oci.Runtime{}, map[string]string{"command": command})
			runtimetest.Profiled(t, oci.Runtime{}, map[string]string{"command": command})
		})
	}
}

// TestCannotStart wants a program that cannot be started to be told, and nothing to be left of its container.
func TestCannotStart(t *testing.T) {
	m := testnet.New(t)
	bad := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(bad, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	var notes journal
	k := steptest.Kernel(t, m, host.KernelConfig{Journal: &notes, Worker: func(string) *exec.Cmd {
		return &exec.Cmd{Path: bad, Args: []string{"nettoll"}}
	}})
	for command, want := range map[string]string{
		"runc": "permission denied", "no-runtime": `missing program "no-runtime"`,
	} {
		var s host.Stack
		err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
			host.Namespace{Name: "src0"}, oci.Container{Contained: runtime.Contained{Name: "src0", Namespace: "src0"}, Command: command},
		}})
		if _, missing := exec.LookPath("runc"); missing != nil && command == "runc" {
			testnet.Skip(t, err)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", command, err, want)
		}
		if err := s.Undo(t.Context(), k); err != nil {
			t.Error(err)
		}
	}
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hierarchies {
		for _, name := range notes {
			if _, err := os.Stat(filepath.Join(h.Dir, name)); err == nil {
				t.Errorf("cgroup %s is left in %s", name, h.Dir)
			}
		}
	}
	if len(notes) < 2 {
		t.Errorf("the journal has the cgroups %q", notes)
	}
}

// journal keeps the cgroups that are noted in it.
type journal []string

func (j *journal) Write(n host.Note) error {
	var m runtime.Made
	if len(n.Kept) > 0 {
		if err := json.Unmarshal(n.Kept, &m); err != nil {
			return err
		}
		*j = append(*j, m.Cgroup)
	}
	return nil
}

func TestContainers(t *testing.T) {
	got, err := oci.Runtime{}.Containers([]runtime.Container{{Name: "src0", Namespace: "src0"}, {Name: "snk0"}},
		part.Params{"command": "crun", "capabilities": "all", "no-new-privileges": "true", "cpus": "0.5"})
	if err != nil {
		t.Fatal(err)
	}
	rights, limits := runtime.Rights{Privileged: true}, runtime.Limits{CPUs: 0.5}
	want := []host.Step{
		host.Namespace{Name: "src0"},
		oci.Container{Command: "crun", Contained: runtime.Contained{
			Name: "src0", Namespace: "src0", Rights: rights, Limits: limits,
		}},
		oci.Container{Command: "crun", Contained: runtime.Contained{Name: "snk0", Rights: rights, Limits: limits}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	texts := []string{
		"namespace src0", "crun container src0, with all capabilities, limited to 0.5 CPUs",
		"crun container snk0 in the host's network namespace, with all capabilities, limited to 0.5 CPUs",
	}
	for i, s := range got {
		if i > 0 && s.String() != texts[i] {
			t.Errorf("step %d is %q, want %q", i, s, texts[i])
		}
	}
}

func TestOutdated(t *testing.T) {
	for _, command := range []string{"runc", "crun"} {
		t.Run(command, func(t *testing.T) {
			runtimetest.Outdated(t, oci.Runtime{}, map[string]string{"command": command}, []string{command})
		})
	}
}

// TestHybrid wants what helps if crun does not take the cgroups of a host.
func TestHybrid(t *testing.T) { runtimetest.Hybrid(t, oci.Runtime{}) }

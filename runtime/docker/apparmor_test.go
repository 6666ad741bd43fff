package docker_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// TestNotProfiled wants a runtime to be found out that leaves out the profile it was asked for, as Docker does if it does
// not see AppArmor.
func TestNotProfiled(t *testing.T) {
	runtimetest.Load(t)
	testnet.Skip(t, docker.Runtime{}.Check(nil))
	m := testnet.New(t)
	k := runtimetest.Kernel(t, m)
	over(t, "mount", "-t", "tmpfs", "tmpfs")
	defer over(t, "umount")
	var s host.Stack
	err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		docker.Containerd{},
		docker.Daemon{},
		docker.Container{Contained: runtime.Contained{
			Name: "src0", Namespace: "src0", Rights: runtime.Rights{AppArmor: runtime.DefaultProfile},
		}},
	}})
	const want = `make container src0: it has the AppArmor profile "unconfined" (want "docker-default")`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}

// over mounts something over securityfs, or unmounts it, in the mounts of this test.
func over(t *testing.T, command ...string) {
	t.Helper()
	const at = "/sys/kernel/security"
	if out, err := exec.Command(command[0], append(command[1:], at)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestLoadsNoProfile wants a daemon that sees AppArmor to load no profile into the kernel, although Docker would.
func TestLoadsNoProfile(t *testing.T) {
	runtimetest.Load(t)
	testnet.Skip(t, docker.Runtime{}.Check(nil))
	m := testnet.New(t)
	k := runtimetest.Kernel(t, m)
	runtimetest.Unload(t)
	over(t, "mount", "-t", "tmpfs", "tmpfs") // the same file system cannot be mounted above itself
	defer over(t, "umount")
	var s host.Stack
	if err := s.Apply(t.Context(), k, host.Plan{Steps: []host.Step{
		runtime.Profiles{},
		docker.Containerd{},
		docker.Daemon{},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), k); err != nil {
		t.Error(err)
	}
	loaded, err := rights.Profiles("list them")
	if err != nil || slices.Contains(loaded, runtime.DefaultProfile) {
		t.Errorf("beside the daemon the kernel has the profiles %q, %v", loaded, err)
	}
	if err := s.Undo(t.Context(), k); err != nil {
		t.Error(err)
	}
}

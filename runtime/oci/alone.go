package oci

import (
	"context"
	"os/exec"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// Alone is a container that an OCI runtime makes, with this program waiting in it and nothing of a lab.
type Alone struct{ Container }

// Kind returns "oci-alone".
func (Alone) Kind() string { return "oci-alone" }

// String describes the step in plain words.
func (a Alone) String() string { return a.Command + " container " + a.Name + ", by its command alone" }

// Apply makes the container.
func (a Alone) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Alone(ctx, k, a, func(program, cgroup string) (*exec.Cmd, error) {
		dir, err := a.write(k, bundle{
			program: program, args: runtime.Waiting(), own: true, cgroup: cgroup,
		})
		if err != nil {
			return nil, err
		}
		state, err := k.RunDir(stateDir)
		return exec.CommandContext(ctx, a.Command, "--root", state, "run", "--detach", "--bundle", dir, a.Name), err
	})
}

// Verify wants the container to be there.
func (a Alone) Verify(k *host.Kernel) error { return runtime.VerifyAlone(k, a) }

package podman

import (
	"context"
	"os/exec"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// Alone is a container that Podman makes, with this program waiting in it and nothing of a lab.
type Alone struct{ Container }

// Kind returns "podman-alone".
func (Alone) Kind() string { return "podman-alone" }

// String describes the step in plain words.
func (a Alone) String() string { return "podman container " + a.Name + ", by podman run alone" }

// Apply makes the container.
func (a Alone) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Alone(ctx, k, a, func(program, cgroup string) (*exec.Cmd, error) {
		return command(ctx, k, slices.Concat([]string{
			"--runtime", a.Command, "run", "--detach", "--pull", "never", "--name", a.Name, "--network", "none",
			"--cgroup-parent", "/" + cgroup, "--volume", program + ":" + runtime.Program + ":ro",
		}, a.ProfileFlags(), []string{runtime.Image, runtime.Program}, runtime.Waiting())...)
	})
}

// Verify wants the container to be there.
func (a Alone) Verify(k *host.Kernel) error { return runtime.VerifyAlone(k, a) }

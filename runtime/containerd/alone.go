package containerd

import (
	"context"
	"os/exec"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// Alone is a container that containerd makes, with this program waiting in it and nothing of a lab.
type Alone struct{ Container }

// Kind returns "containerd-alone".
func (Alone) Kind() string { return "containerd-alone" }

// String describes the step in plain words.
func (a Alone) String() string { return "containerd container " + a.Name + ", by ctr run alone" }

// Apply makes the container.
func (a Alone) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Alone(ctx, k, a, func(program, cgroup string) (*exec.Cmd, error) {
		return command(ctx, k, slices.Concat([]string{
			"run", "--detach", "--null-io", "--cgroup", "/" + cgroup, "--runc-binary", a.Command,
			"--mount", "type=bind,src=" + program + ",dst=" + runtime.Program + ",options=bind:ro",
		}, a.profile(), []string{image, a.Name, runtime.Program}, runtime.Waiting())...)
	})
}

// Verify wants the container to be there.
func (a Alone) Verify(k *host.Kernel) error { return runtime.VerifyAlone(k, a) }

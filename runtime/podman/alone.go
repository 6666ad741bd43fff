package podman

import (
	"context"
	"os/exec"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// Alone is a container that Podman makes, with this program waiting in it and nothing of a lab.
type Alone struct {
	Name string `json:"name"`
	// Command is the program that makes it.
	Command string `json:"command"`
}

// Kind returns "podman-alone".
func (Alone) Kind() string { return "podman-alone" }

// String describes the step in plain words.
func (a Alone) String() string { return "podman container " + a.Name + ", by podman run alone" }

// UndoneFirst makes Alone a [host.FirstUndone].
func (Alone) UndoneFirst() {}

// Outlives returns UntilBoot: cgroups belong to the machine.
func (Alone) Outlives() host.Lifetime { return host.UntilBoot }

// Groups makes Alone a [host.Grouping].
func (Alone) Groups() {}

// container is the same with a worker.
func (a Alone) container() Container { return Container{Name: a.Name, Command: a.Command} }

// Apply makes the container.
func (a Alone) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Alone(ctx, k, a, func(program, cgroup string) (*exec.Cmd, error) {
		return command(ctx, k, append([]string{
			"--runtime", a.Command, "run", "--detach", "--pull", "never", "--name", a.Name, "--network", "none",
			"--cgroup-parent", "/" + cgroup, "--volume", program + ":" + runtime.Program + ":ro", runtime.Image,
			runtime.Program,
		}, runtime.Waiting()...)...)
	})
}

// Remove ends the container.
func (a Alone) Remove(ctx context.Context, k *host.Kernel) error { return a.container().Remove(ctx, k) }

// Verify wants the container to be there.
func (a Alone) Verify(k *host.Kernel) error { return runtime.VerifyAlone(k, a) }

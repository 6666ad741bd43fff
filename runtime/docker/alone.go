package docker

import (
	"context"
	"os/exec"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// Alone is a container that Docker makes, with this program waiting in it and nothing of a lab.
type Alone struct{ Container }

// Kind returns "docker-alone".
func (Alone) Kind() string { return "docker-alone" }

// String describes the step in plain words.
func (a Alone) String() string { return "docker container " + a.Name + ", by docker run alone" }

// Apply makes the container.
func (a Alone) Apply(ctx context.Context, k *host.Kernel) error {
	if a.Machine {
		return a.borrow(ctx, k)
	}
	return runtime.Alone(ctx, k, a, func(program, cgroup string) (*exec.Cmd, error) {
		return command(ctx, k, slices.Concat([]string{
			"run", "--detach", "--pull", "never", "--name", a.Name, "--network", "none", "--cgroup-parent", "/" + cgroup,
			"--volume", program + ":" + runtime.Program + ":ro",
		}, a.ProfileFlags(), []string{runtime.Image, runtime.Program}, runtime.Waiting())...)
	})
}

// borrow has the machine's daemon make the container.
func (a Alone) borrow(ctx context.Context, k *host.Kernel) error {
	d, err := machineOf(k)
	if err != nil {
		return err
	}
	by, err := d.borrowed(k)
	if err != nil {
		return err
	}
	return d.said(ctx, runtime.AloneBy(ctx, k, a, by, func(program string, m runtime.Made) (*exec.Cmd, error) {
		return d.command(ctx, k, slices.Concat(
			[]string{"run", "--detach", "--pull", "never", "--network", "none"}, d.args(m, a.Name), a.ProfileFlags(),
			[]string{"--mount", bind(runtime.Mount{From: program, To: runtime.Program}), d.Image, runtime.Program},
			runtime.Waiting())...)
	}))
}

// Verify wants the container to be there.
func (a Alone) Verify(k *host.Kernel) error {
	if !a.Machine {
		return runtime.VerifyAlone(k, a)
	}
	var m runtime.Made
	if _, err := k.Kept(&m); err != nil {
		return err
	}
	_, err := machine{Socket: m.Daemon}.run(context.Background(), k, "inspect", "--format", "{{.Name}}", m.Known(a.Name))
	if err == nil {
		return nil
	}
	d := &host.DriftError{Step: a.String()}
	d.Add("container", "present", err.Error())
	return d
}

package lxc

import (
	"context"
	"os/exec"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// Alone is a container that LXC makes, with this program waiting in it and nothing of a lab.
type Alone struct{ Container }

// Kind returns "lxc-alone".
func (Alone) Kind() string { return "lxc-alone" }

// String describes the step in plain words.
func (a Alone) String() string { return "lxc container " + a.Name + ", by lxc-start alone" }

// Apply makes the container.
func (a Alone) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Alone(ctx, k, a, func(program, cgroup string) (*exec.Cmd, error) {
		dir, err := a.write(k, config{
			program: program, args: runtime.Waiting(), own: true, cgroup: cgroup,
		})
		return exec.CommandContext(ctx, start, "--lxcpath", dir, "--name", a.Name, "--daemon"), err
	})
}

// Verify wants the container to be there.
func (a Alone) Verify(k *host.Kernel) error { return runtime.VerifyAlone(k, a) }

package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Container is a container of Docker, with a worker as its only process.
type Container struct {
	runtime.Contained
	// Machine says that the machine's own daemon makes it, see [Machine].
	Machine bool `json:"machine,omitempty"`
	// Published are ports at which others reach it at the address of its host, for TCP and UDP: "20000-20065".
	Published string `json:"published,omitempty"`
}

// Kind returns "docker-container".
func (Container) Kind() string { return "docker-container" }

// String describes the step in plain words.
func (c Container) String() string {
	s := c.Described("docker")
	if c.Machine {
		s += ", in " + ours
	}
	if c.Published != "" {
		s += ", ports " + c.Published + " published"
	}
	return s
}

// Outward reports whether the machine's daemon makes it.
func (c Container) Outward() bool { return c.Machine }

// Outlives returns UntilRemoved for a container of the machine's daemon, which is on disk, and else UntilBoot.
func (c Container) Outlives() host.Lifetime {
	if c.Machine {
		return host.UntilRemoved
	}
	return c.Contained.Outlives()
}

// Apply makes the container.
func (c Container) Apply(ctx context.Context, k *host.Kernel) error {
	if c.Machine {
		return c.borrow(ctx, k)
	}
	return runtime.Launch{
		Run:         func(h *runtime.Handing, m runtime.Made) error { return c.run(ctx, k, h, m.Cgroup) },
		Said:        func() string { return runtime.Client(command).Logs(ctx, k, c.Name) },
		OutOfMemory: func() bool { return runtime.Client(command).OutOfMemory(ctx, k, c.Name) },
		Adopt:       true,
	}.Start(ctx, k, c, c.Contained)
}

// run runs the container.
func (c Container) run(ctx context.Context, k *host.Kernel, h *runtime.Handing, cgroup string) error {
	network := "host"
	if c.Namespace != "" {
		network = "none"
	}
	args := []string{
		"run", "--detach", "--pull", "never", "--name", c.Name, "--network", network, "--cgroup-parent", "/" + cgroup,
	}
	args = append(args, runtime.Publish(c.Published)...)
	rights, err := c.Flags()
	if err != nil {
		return err
	}
	args = slices.Concat(args, rights, c.Limits.Flags(), h.Flags(), []string{runtime.Image}, h.Args)
	cmd, err := command(ctx, k, args...)
	if err != nil {
		return err
	}
	return runtime.Run(cmd)
}

// Remove ends the container. Its cgroups go in any case, also if the host is gone.
func (c Container) Remove(ctx context.Context, k *host.Kernel) error {
	var m runtime.Made
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	if c.Machine {
		return c.giveBack(ctx, k, m)
	}
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	if _, err := os.Stat(filepath.Join(at, socket)); err == nil {
		cmd, err := command(ctx, k, "rm", "--force", "--volumes", c.Name)
		if err != nil {
			return err
		}
		if err := runtime.Run(cmd); err != nil && !strings.Contains(err.Error(), "No such container") {
			errs = append(errs, err)
		}
	}
	if c.Namespace != "" {
		errs = append(errs, host.Namespace{Name: c.Namespace}.Remove(ctx, k))
	}
	return errors.Join(append(errs, m.RemoveCgroups())...)
}

// Verify wants the worker to be there, in its namespace.
func (c Container) Verify(k *host.Kernel) error { return runtime.Verify(k, c, c.Contained) }

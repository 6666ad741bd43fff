package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Container is a container of Podman, with a worker as its only process.
type Container struct {
	Name string `json:"name"`
	// Namespace is that of its network; "" is the host's own.
	Namespace string `json:"namespace,omitempty"`
	// Command is the program that makes it: "runc" or "crun".
	Command string `json:"command"`
	runtime.Rights
	// Limits are those of its cgroups.
	Limits runtime.Limits `json:"limits,omitzero"`
}

// Kind returns "podman-container".
func (Container) Kind() string { return "podman-container" }

// String describes the step in plain words.
func (c Container) String() string {
	s := "podman container " + c.Name
	if c.Namespace == "" {
		s += " in the host's network namespace"
	}
	return s + c.Rights.String() + c.Limits.Described()
}

// UndoneFirst makes Container a [host.FirstUndone].
func (Container) UndoneFirst() {}

// Concurrent makes Container a [host.Concurrent].
func (Container) Concurrent() {}

// Outlives returns UntilBoot: cgroups belong to the machine.
func (Container) Outlives() host.Lifetime { return host.UntilBoot }

// Groups makes Container a [host.Grouping].
func (Container) Groups() {}

// Apply makes the container.
func (c Container) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Make(ctx, k, c, c.Name, func(worker *runtime.Starting, cgroup string) (int, error) {
		worker.Limits = c.Limits
		worker.OutOfMemory = func() bool { return c.outOfMemory(ctx, k) }
		pid, err := runtime.Handed(ctx, k, worker, "", func(h *runtime.Handing) error { return c.run(ctx, k, h, cgroup) })
		if err != nil {
			err = errors.Join(fmt.Errorf("make container %s: %w", c.Name, err), c.said(ctx, k))
			worker.Failed()
		}
		return pid, err
	})
}

// run runs the container.
func (c Container) run(ctx context.Context, k *host.Kernel, h *runtime.Handing, cgroup string) error {
	network := "host"
	if c.Namespace != "" {
		network = "ns:" + k.Path(c.Namespace)
	}
	args := []string{
		"--runtime", c.Command, "run", "--detach", "--pull", "never", "--name", c.Name, "--network", network,
		"--cgroup-parent", "/" + cgroup,
	}
	rights, err := c.Flags()
	if err != nil {
		return err
	}
	args = slices.Concat(args, rights, c.Limits.Flags(), h.Flags(), []string{runtime.Image}, h.Args)
	cmd, err := command(ctx, k, args...)
	if err != nil {
		return err
	}
	if cmd.Dir, err = c.ending(k); err != nil {
		return err
	}
	return runtime.Run(cmd)
}

// ending is the working directory of the monitor of the container.
func (c Container) ending(k *host.Kernel) (string, error) {
	return k.RunDir(filepath.Join(dir, "ending", c.Name))
}

// outOfMemory asks Podman. The monitor writes an empty file "oom" into its working directory, where older versions of
// Podman do not look.
func (c Container) outOfMemory(ctx context.Context, k *host.Kernel) bool {
	if runtime.OutOfMemory(ctx, k, c.Name, command) {
		return true
	}
	at, err := c.ending(k)
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(at, "oom"))
	return err == nil
}

// said returns what the container has written, as an error; nil if that is nothing.
func (c Container) said(ctx context.Context, k *host.Kernel) error {
	cmd, err := command(context.WithoutCancel(ctx), k, "logs", "--tail", "5", c.Name)
	if err != nil {
		return nil
	}
	out, err := cmd.CombinedOutput()
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return fmt.Errorf("it said: %s", text)
	}
	return nil
}

// Remove ends the container. Its cgroups go in any case, also if the host is gone.
func (c Container) Remove(ctx context.Context, k *host.Kernel) error {
	var m runtime.Made
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	if _, err := os.Stat(filepath.Join(at, "storage.conf")); err == nil {
		cmd, err := command(ctx, k, "rm", "--force", "--ignore", "--time", "0", "--volumes", c.Name)
		if err != nil {
			return err
		}
		errs = append(errs, runtime.Run(cmd))
	}
	ending, err := c.ending(k)
	return errors.Join(append(errs, m.RemoveCgroups(), err, os.RemoveAll(ending))...)
}

// Verify wants the worker to be there, in its namespace.
func (c Container) Verify(k *host.Kernel) error { return runtime.Verify(k, c, c.Name, c.Namespace) }

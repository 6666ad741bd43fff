package podman

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Container is a container of Podman, with a worker as its only process.
type Container struct {
	runtime.Contained
	// Command is the program that makes it: "runc" or "crun".
	Command string `json:"command"`
	// Link is what joins it to its network if Podman makes that; nil if nettoll does. Podman then makes the network
	// namespace, too.
	Link *Link `json:"link,omitempty"`
	// Published are ports at which others reach it at the address of its host, for TCP and UDP: "20000-20065".
	Published string `json:"published,omitempty"`
}

// Kind returns "podman-container".
func (Container) Kind() string { return "podman-container" }

// String describes the step in plain words.
func (c Container) String() string {
	s := c.Described("podman")
	if c.Link != nil {
		s += ", by " + c.Link.String()
	}
	if c.Published != "" {
		s += ", ports " + c.Published + " published"
	}
	return s
}

// Apply makes the container.
func (c Container) Apply(ctx context.Context, k *host.Kernel) error {
	if err := c.launch(ctx, k); err != nil || c.Link == nil || c.Link.Type != runtime.TypeVeth {
		return err
	}
	if err := runtime.Link(*c.Link).Near(k); err != nil {
		return errors.Join(err, c.Remove(context.WithoutCancel(ctx), k))
	}
	return nil
}

// makes reports whether Podman makes the network namespace of the container, which the host then adopts.
func (c Container) makes() bool { return c.Link != nil || c.Users }

// launch makes the container, with its link.
func (c Container) launch(ctx context.Context, k *host.Kernel) error {
	return runtime.Launch{
		Run:         func(h *runtime.Handing, m runtime.Made) error { return c.run(ctx, k, h, m.Cgroup) },
		Said:        func() string { return runtime.Client(command).Logs(ctx, k, c.Name) },
		OutOfMemory: func() bool { return c.outOfMemory(ctx, k) },
		Adopt:       c.makes(),
	}.Start(ctx, k, c, c.Contained)
}

// run runs the container.
func (c Container) run(ctx context.Context, k *host.Kernel, h *runtime.Handing, cgroup string) error {
	network := "host"
	if c.Link != nil {
		var err error
		if network, err = c.Link.flag(); err != nil {
			return err
		}
	} else if c.Users {
		network = "none"
	} else if c.Namespace != "" {
		network = "ns:" + k.Path(c.Namespace)
	}
	args := []string{
		"--runtime", c.Command, "run", "--detach", "--pull", "never", "--name", c.Name, "--network", network,
		"--cgroup-parent", "/" + cgroup,
	}
	args = append(args, runtime.Publish(c.Published)...)
	rights, err := c.Flags()
	if err != nil {
		return err
	}
	args = slices.Concat(args, rights, c.UserFlags(), c.Limits.Flags(), h.Flags(), []string{runtime.Image}, h.Args)
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
	if runtime.Client(command).OutOfMemory(ctx, k, c.Name) {
		return true
	}
	at, err := c.ending(k)
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(at, "oom"))
	return err == nil
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
	if c.makes() {
		errs = append(errs, host.Namespace{Name: c.Namespace}.Remove(ctx, k))
	}
	ending, err := c.ending(k)
	return errors.Join(append(errs, m.RemoveCgroups(), err, os.RemoveAll(ending))...)
}

// Verify wants the worker to be there, in its namespace.
func (c Container) Verify(k *host.Kernel) error { return runtime.Verify(k, c, c.Contained) }

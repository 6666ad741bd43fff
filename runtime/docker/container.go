package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/sysctl"
	"github.com/nettoll/nettoll/runtime"
)

// A Container is a container of Docker, with a worker as its only process.
type Container struct {
	Name string `json:"name"`
	// Namespace is the name that the host gives its network namespace; "" if it is the host's own.
	Namespace string `json:"namespace,omitempty"`
	// Published are ports at which others reach it at the address of its host, for TCP and UDP: "20000-20065".
	Published string `json:"published,omitempty"`
	runtime.Rights
	// Limits are those of its cgroups.
	Limits runtime.Limits `json:"limits,omitzero"`
}

// Kind returns "docker-container".
func (Container) Kind() string { return "docker-container" }

// String describes the step in plain words.
func (c Container) String() string {
	s := "docker container " + c.Name
	if c.Namespace == "" {
		s += " in the host's network namespace"
	}
	if c.Published != "" {
		s += ", ports " + c.Published + " published"
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
		worker.OutOfMemory = func() bool { return runtime.OutOfMemory(ctx, k, c.Name, command) }
		pid, err := runtime.Handed(ctx, k, worker, c.Namespace, func(h *runtime.Handing) error {
			return c.run(ctx, k, h, cgroup)
		})
		if err == nil && c.Namespace != "" {
			err = k.Do(c.Namespace, allowIPv6)
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("make container %s: %w", c.Name, err), c.said(ctx, k))
			worker.Failed()
		}
		return pid, err
	})
}

// allowIPv6 takes back, in a network namespace, that Docker disables IPv6 there until one of its own networks has it
// (moby, libnetwork/osl/namespace_linux.go).
func allowIPv6() error {
	err := sysctl.Write("net.ipv6.conf.all.disable_ipv6", "0") // and of all links, also later ones
	if errors.Is(err, fs.ErrNotExist) {
		return nil // this kernel has no IPv6
	}
	return err
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
	if c.Published != "" {
		for _, protocol := range []string{"tcp", "udp"} {
			args = append(args, "--publish", c.Published+":"+c.Published+"/"+protocol)
		}
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
	return runtime.Run(cmd)
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
func (c Container) Verify(k *host.Kernel) error { return runtime.Verify(k, c, c.Name, c.Namespace) }

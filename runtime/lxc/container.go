package lxc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/runtime"
)

// A Container is a container that LXC makes, with a worker as its only process.
type Container struct {
	runtime.Contained
	// Link is what joins it to its network if LXC makes that; nil if nettoll does. LXC then makes the network namespace,
	// too.
	Link *Link `json:"link,omitempty"`
	// Gateways are those of its link, as in [runtime.Joint].
	Gateways []string `json:"gateways,omitempty"`
}

// Kind returns "lxc-container".
func (Container) Kind() string { return "lxc-container" }

// String describes the step in plain words.
func (c Container) String() string {
	s := c.Described("lxc")
	if c.Link == nil {
		return s
	}
	s += " with " + c.Link.String()
	for _, via := range c.Gateways {
		s += ", default route by " + cmp.Or(via, "the link")
	}
	return s
}

const (
	// containersDir is where LXC finds its containers, below the directory of a host's programs.
	containersDir = "lxc"
	// eventsFile has what happened to the memory of a container that has ended, beside its configuration.
	eventsFile = "memory"
	// monitorEnd is how long a monitor may take to end after its container.
	monitorEnd = time.Second
)

// Apply makes the container.
func (c Container) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Make(ctx, k, c, c.Contained, func(worker *runtime.Starting, m *runtime.Made) (pid int, err error) {
		f := config{
			program: worker.Program, args: worker.Worker.Args[1:], cgroup: m.Cgroup, network: "/proc/self/ns/net",
		}
		if f.own = c.makes(); c.Link != nil {
			f.link = c.Link.config(c.Gateways)
		} else if !f.own && c.Namespace != "" {
			f.network = k.Path(c.Namespace)
		}
		dir, err := c.write(k, f)
		if err == nil {
			if err = surface(); c.Limits.Described() == "" {
				err = nil // it works in a deeper group, too
			}
		}
		if err == nil {
			pid, err = c.run(ctx, dir, worker)
		}
		if err == nil && f.own {
			err = c.Adopt(k, pid)
		}
		if err != nil {
			err = c.failed(err, worker.Failed()+logged(dir, c.Name))
		}
		return pid, err
	})
}

// surface moves PID 1 to the roots of all hierarchies if it is that of a host. LXC makes groups below those of PID 1:
// those of a container are then of the first level, as with runc. In v2 only these can have controllers, for limits and
// for what is known about memory, because there are processes in the group of PID 1 (cgroups(7)).
func surface() error {
	first, err1 := os.Stat("/proc/1/exe")
	self, err2 := os.Stat("/proc/self/exe")
	if errors.Join(err1, err2) != nil || !os.SameFile(first, self) {
		return nil
	}
	return cgroup.ToRoots(1)
}

// write writes the configuration and makes the root of the container. It returns the directory of all containers.
func (c Container) write(k *host.Kernel, f config) (dir string, err error) {
	if dir, err = k.RunDir(containersDir); err != nil {
		return "", err
	}
	own := filepath.Join(dir, c.Name)
	f.name, f.newPrivileges, f.profile = c.Name, c.NewPrivileges, c.AppArmor
	if f.root, err = runtime.Reachable(k, filepath.Join(containersDir, c.Name, "rootfs")); err != nil {
		return "", err
	}
	if f.users = c.Users; f.users {
		if f.program, err = runtime.ReachableProgram(k, f.program); err != nil {
			return "", err
		}
	}
	if f.capabilities, err = c.Capabilities(); err != nil {
		return "", err
	}
	limited, err := c.Limits.Hierarchy()
	if err != nil {
		return "", err
	}
	if f.limits = limits(c.Limits, limited.V2, limited.Swaps()); c.Limits.Memory > 0 {
		// LXC removes the cgroups of a container that has ended.
		events := limited.MemoryEvents(f.cgroup)
		f.ending = fmt.Sprintf("cat %s > %s", events, filepath.Join(own, eventsFile))
	}
	for _, name := range []string{"proc", "dev", "sys"} {
		if err := os.MkdirAll(filepath.Join(f.root, name), 0o755); err != nil {
			return "", err
		}
	}
	filter, err := c.Filter()
	if err != nil {
		return "", err
	}
	if filter != nil {
		f.filter = filepath.Join(own, "seccomp")
		if err := os.WriteFile(f.filter, []byte(profile(filter)), 0o600); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(filepath.Join(f.root, program), nil, 0o600); err != nil { // what is mounted over
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(own, "config"), []byte(f.String()), 0o600)
}

// run starts the container and returns the number of its worker.
func (c Container) run(ctx context.Context, dir string, worker *runtime.Starting) (pid int, err error) {
	cmd := exec.Command(start, "--lxcpath", dir, "--name", c.Name, "--foreground", "--logfile",
		filepath.Join(dir, c.Name, "log"), "--logpriority", "ERROR")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = worker.In, worker.Out, worker.Err
	cmd.Env, cmd.ExtraFiles = worker.Worker.Env, worker.Worker.ExtraFiles
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(gone)
	}()
	worker.OutOfMemory = func() bool {
		select {
		case <-gone: // the monitor has written the file before
		case <-time.After(monitorEnd):
		}
		text, err := os.ReadFile(filepath.Join(dir, c.Name, eventsFile))
		return err == nil && cgroup.Killed(string(text))
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("it has ended")
			}
			return 0, err
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			return 0, errors.Join(ctx.Err(), <-ended)
		case <-tick.C:
			if pid, ok := child(cmd.Process.Pid); ok {
				return pid, nil
			}
		}
	}
}

// makes reports whether LXC makes the network namespace of the container.
func (c Container) makes() bool { return c.Link != nil || c.Users }

// child finds the worker among the children of its monitor. Before it is one, the child is a copy of the monitor.
func child(monitor int) (pid int, ok bool) {
	children, err := procfs.Children(monitor)
	if err != nil {
		return 0, false
	}
	for _, pid := range children {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil &&
			strings.HasPrefix(string(line), program+"\x00") {
			return pid, true
		}
	}
	return 0, false
}

// logged returns what LXC has logged about a container, "" if nothing.
func logged(dir, container string) string {
	text, _ := os.ReadFile(filepath.Join(dir, container, "log"))
	return string(text)
}

// failed explains why LXC has failed. The first error has the reason.
func (c Container) failed(err error, said string) error {
	if errors.Is(err, exec.ErrNotFound) {
		return missing("make container "+c.Name, err)
	}
	for line := range strings.Lines(said) {
		if _, reason, ok := strings.Cut(line, "ERROR"); ok {
			return fmt.Errorf("%s: %w: %s", start, err, strings.Join(strings.Fields(reason), " "))
		}
	}
	return fmt.Errorf("%s: %w: %s", start, err, strings.TrimSpace(said))
}

// Remove ends the container. Its cgroups go in any case, also if the host is gone.
func (c Container) Remove(ctx context.Context, k *host.Kernel) error {
	var m runtime.Made
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	if err := errors.Join(m.RemoveCgroups(), cgroup.Remove(m.Cgroup+monitor, m.Bases...),
		cgroup.Remove(m.Cgroup+pivot, m.Bases...)); err != nil {
		return err
	}
	var errs []error
	if c.makes() {
		errs = append(errs, host.Namespace{Name: c.Namespace}.Remove(ctx, k))
	}
	dir, err := k.RunDir(containersDir)
	return errors.Join(append(errs, err, os.RemoveAll(filepath.Join(dir, c.Name)))...)
}

// Verify wants the worker to be there, in its namespace.
func (c Container) Verify(k *host.Kernel) error { return runtime.Verify(k, c, c.Contained) }

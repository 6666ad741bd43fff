package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/runtime"
)

// A Container is a container that an OCI runtime makes, with a worker as its only process.
type Container struct {
	runtime.Contained
	// Command is the program that makes it: "runc" or "crun".
	Command string `json:"command"`
}

// Kind returns "oci-container".
func (Container) Kind() string { return "oci-container" }

// String describes the step in plain words.
func (c Container) String() string { return c.Described(c.Command) }

// Directories below that of a host's programs.
const (
	rootDir   = "oci/rootfs" // the root of all containers of a host
	stateDir  = "oci/state"  // of the runtime
	bundleDir = "oci/bundles/"
)

// Apply makes the container.
func (c Container) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Make(ctx, k, c, c.Contained, func(worker *runtime.Starting, m *runtime.Made) (pid int, err error) {
		b := bundle{program: worker.Program, args: worker.Worker.Args[1:], env: worker.Worker.Env, cgroup: m.Cgroup}
		if b.own = c.Users; !b.own && c.Namespace != "" {
			b.network = k.Path(c.Namespace)
		}
		dir, err := c.write(k, b)
		if err == nil {
			pid, err = c.run(ctx, k, dir, worker)
		}
		if err == nil && b.own {
			err = c.Adopt(k, pid)
		}
		if err != nil {
			err = c.failed(err, worker.Failed())
		}
		return pid, err
	})
}

// write completes the bundle by what the container may do, writes it and returns its directory.
func (c Container) write(k *host.Kernel, b bundle) (dir string, err error) {
	b.newPrivileges, b.limits, b.profile, b.users = c.NewPrivileges, c.Limits, c.AppArmor, c.Users
	if b.users {
		if b.program, err = runtime.ReachableProgram(k, b.program); err != nil {
			return "", err
		}
	}
	if b.capabilities, err = c.Capabilities(); err != nil {
		return "", err
	}
	if b.filter, err = c.Filter(); err != nil {
		return "", err
	}
	limited, err := c.Limits.Hierarchy()
	if err != nil {
		return "", err
	}
	b.swaps = limited.Swaps()
	if b.root, err = root(k); err != nil {
		return "", err
	}
	if dir, err = k.RunDir(bundleDir + c.Name); err != nil {
		return "", err
	}
	text, err := b.config()
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
}

// root makes the root of all containers of a host, with what is mounted over. Runtimes would make it themselves, but
// two of them at the same time are in each other's way.
func root(k *host.Kernel) (dir string, err error) {
	if dir, err = runtime.Reachable(k, rootDir); err != nil {
		return "", err
	}
	for _, name := range []string{"proc", "dev", "sys"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, program), nil, 0o600)
}

// run runs the container and returns the number of its worker.
func (c Container) run(ctx context.Context, k *host.Kernel, dir string, worker *runtime.Starting) (pid int, err error) {
	state, err := k.RunDir(stateDir)
	if err != nil {
		return 0, err
	}
	at, files := filepath.Join(dir, "pid"), worker.Worker.ExtraFiles
	cmd := exec.CommandContext(ctx, c.Command, "--root", state, "run", "--detach", "--bundle", dir, "--pid-file", at,
		"--preserve-fds", strconv.Itoa(len(files)), c.Name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = worker.In, worker.Out, worker.Err, files
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(at)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(text)))
}

// failed explains why a runtime has failed. Its last line has the reason.
func (c Container) failed(err error, said string) error {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	text := lines[len(lines)-1]
	if errors.Is(err, exec.ErrNotFound) {
		return &linux.UnsupportedError{
			What: "make container " + c.Name, Missing: fmt.Sprintf("program %q", c.Command),
			Hint: "install the package " + c.Command, Err: err,
		}
	}
	return fmt.Errorf("%s run: %w: %s", c.Command, err, text)
}

// Remove ends the container. Its cgroups go in any case, also if the host is gone. They go first, and the processes
// with them: runc would kill these, too, and then wait for 100 ms (delete.go, killContainer).
func (c Container) Remove(ctx context.Context, k *host.Kernel) error {
	var m runtime.Made
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	errs := []error{m.RemoveCgroups()}
	if c.Users {
		errs = append(errs, host.Namespace{Name: c.Namespace}.Remove(ctx, k))
	}
	state, err := k.RunDir(stateDir)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if _, err := os.Stat(filepath.Join(state, c.Name)); err == nil {
		out, err := exec.CommandContext(ctx, c.Command, "--root", state, "delete", "--force", c.Name).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s delete: %w: %s", c.Command, err, bytes.TrimSpace(out)))
		}
	}
	dir, err := k.RunDir(bundleDir + c.Name)
	return errors.Join(append(errs, err, os.RemoveAll(dir))...)
}

// Verify wants the worker to be there, in its namespace.
func (c Container) Verify(k *host.Kernel) error { return runtime.Verify(k, c, c.Contained) }

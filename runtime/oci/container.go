package oci

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// A Container is a container that an OCI runtime makes, with a worker as its only process.
type Container struct {
	Name string `json:"name"`
	// Namespace is that of its network; "" is the host's own.
	Namespace string `json:"namespace,omitempty"`
	// Command is the program that makes it.
	Command string `json:"command"`
	// Privileged leaves all capabilities to its root.
	Privileged bool `json:"privileged,omitempty"`
}

// made is what a [Container] keeps.
type made struct {
	Cgroup string `json:"cgroup"`        // in all hierarchies
	PID    int    `json:"pid,omitempty"` // of the worker, on its host
}

// Kind returns "oci-container".
func (Container) Kind() string { return "oci-container" }

// String describes the step in plain words.
func (c Container) String() string {
	s := c.Command + " container " + c.Name
	if c.Namespace == "" {
		s += " in the host's network namespace"
	}
	if c.Privileged {
		s += ", with all capabilities"
	}
	return s
}

// UndoneFirst makes Container a [host.FirstUndone].
func (Container) UndoneFirst() {}

// Outlives returns UntilBoot: cgroups belong to the machine.
func (Container) Outlives() host.Lifetime { return host.UntilBoot }

// Groups makes Container a [host.Grouping].
func (Container) Groups() {}

// Directories below that of a host's programs.
const (
	rootDir   = "oci/rootfs" // the root of all containers of a host
	stateDir  = "oci/state"  // of the runtime
	bundleDir = "oci/bundles/"
)

// Apply makes the container.
func (c Container) Apply(ctx context.Context, k *host.Kernel) (err error) {
	cmd, err := k.WorkerCommand(c.Name)
	if err != nil {
		return err
	}
	m := made{Cgroup: "nettoll-" + strings.ToLower(rand.Text())}
	if err := k.Keep(m); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Remove(context.WithoutCancel(ctx), k))
		}
	}()
	dir, err := c.write(k, cmd, m.Cgroup)
	if err != nil {
		return err
	}
	r := &host.Resident{Tail: new(process.Tail)}
	if m.PID, err = c.run(ctx, k, dir, cmd.ExtraFiles, r); err != nil {
		return err
	}
	if err := k.Keep(m); err != nil {
		return errors.Join(err, r.Close())
	}
	k.Settle(c.Name, r)
	return k.Hold(r)
}

// write writes the bundle and returns its directory.
func (c Container) write(k *host.Kernel, worker *exec.Cmd, cgroup string) (dir string, err error) {
	b := bundle{args: worker.Args[1:], env: worker.Env, cgroup: cgroup, capabilities: usuals()}
	if c.Privileged {
		b.capabilities = known()
	}
	if c.Namespace != "" {
		b.network = k.Path(c.Namespace)
	}
	if b.root, err = k.RunDir(rootDir); err != nil {
		return "", err
	}
	if b.program, err = executable(k, worker.Path); err != nil {
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

// executable returns a path at which the host finds a program: /proc/self/exe is that of whoever looks.
func executable(k *host.Kernel, path string) (string, error) {
	same, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find the program of workers: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		if found, err := os.Stat(resolved); err == nil && os.SameFile(found, same) {
			return resolved, nil
		}
	}
	// It was replaced or removed since it was started, or is where the host does not see it.
	dir, err := k.RunDir("oci")
	if err != nil {
		return "", err
	}
	copied := filepath.Join(dir, "nettoll")
	if _, err := os.Stat(copied); err == nil {
		return copied, nil
	}
	from, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("copy the program of workers: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return "", fmt.Errorf("copy the program of workers: %w", err)
	}
	_, err = io.Copy(to, from)
	return copied, errors.Join(err, to.Close())
}

// run runs the container and fills in its worker. It returns the worker's number.
func (c Container) run(ctx context.Context, k *host.Kernel, dir string, files []*os.File, r *host.Resident) (
	pid int, err error,
) {
	state, err := k.RunDir(stateDir)
	if err != nil {
		return 0, err
	}
	var ours, theirs [3]*os.File
	defer func() {
		for i := range theirs {
			if theirs[i] != nil {
				_ = theirs[i].Close()
			}
			if err != nil && ours[i] != nil {
				_ = ours[i].Close()
			}
		}
	}()
	for i := range theirs {
		if theirs[i], ours[i], err = os.Pipe(); err != nil {
			return 0, err
		}
		if i > 0 { // an output
			theirs[i], ours[i] = ours[i], theirs[i]
		}
	}
	at := filepath.Join(dir, "pid")
	cmd := exec.CommandContext(ctx, c.Command, "--root", state, "run", "--detach", "--bundle", dir, "--pid-file", at,
		"--preserve-fds", strconv.Itoa(len(files)), c.Name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = theirs[0], theirs[1], theirs[2], files
	cmd.Env = os.Environ()
	if err := cmd.Run(); err != nil {
		_ = theirs[2].Close()
		theirs[2] = nil
		said, _ := io.ReadAll(io.LimitReader(ours[2], 4096)) // what it has said is all there: nobody else has the pipe
		return 0, c.failed(err, said)
	}
	text, err := os.ReadFile(at)
	if err != nil {
		return 0, fmt.Errorf("%s run: %w", c.Command, err)
	}
	if pid, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
		return 0, fmt.Errorf("%s run: read the number of the process: %w", c.Command, err)
	}
	worker, err := os.FindProcess(pid) // from now on, another process of that number is another one
	if err != nil {
		return 0, fmt.Errorf("%s run: %w", c.Command, err)
	}
	if r.Done, err = process.Await(pid); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(r.Tail, ours[2])
		_ = ours[2].Close()
	}()
	r.In, r.Out, r.PID = ours[0], ours[1], pid
	r.Kill = func() { _ = worker.Kill() } // it may be gone
	return pid, nil
}

// failed explains why a runtime has failed. Its last line has the reason.
func (c Container) failed(err error, said []byte) error {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	text := lines[len(lines)-1]
	if errors.Is(err, exec.ErrNotFound) {
		return &linux.UnsupportedError{
			What: "make container " + c.Name, Missing: fmt.Sprintf("program %q", c.Command),
			Hint: "install the package " + c.Command, Err: err,
		}
	}
	if strings.Contains(text, "hybrid") { // crun before 1.9
		return &linux.UnsupportedError{
			What: "make container " + c.Name, Missing: "cgroups of one version", Err: errors.New(text),
			Hint: "use command=" + runc + ", or unmount " + filepath.Join(cgroup.Dir, "unified"),
		}
	}
	return fmt.Errorf("%s run: %w: %s", c.Command, err, text)
}

// Remove ends the container. Its cgroups go in any case, also if the host is gone.
func (c Container) Remove(ctx context.Context, k *host.Kernel) error {
	var m made
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	var errs []error
	state, err := k.RunDir(stateDir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(state, c.Name)); err == nil {
		out, err := exec.CommandContext(ctx, c.Command, "--root", state, "delete", "--force", c.Name).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s delete: %w: %s", c.Command, err, bytes.TrimSpace(out)))
		}
	}
	if err := cgroup.Remove(m.Cgroup); err != nil {
		errs = append(errs, err)
	}
	dir, err := k.RunDir(bundleDir + c.Name)
	return errors.Join(append(errs, err, os.RemoveAll(dir))...)
}

// Verify wants the worker to be there, in its namespace.
func (c Container) Verify(k *host.Kernel) error {
	var m made
	if _, err := k.Kept(&m); err != nil {
		return err
	}
	d := &host.DriftError{Step: c.String()}
	theirs, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", m.PID))
	if err != nil {
		d.Add("worker of "+c.Name, "present", "absent")
		return d
	}
	defer theirs.Close()
	own, err := k.Open(c.Namespace)
	if err != nil {
		return err
	}
	defer own.Close()
	same, err := netns.Same(own, theirs)
	if err != nil {
		return err
	}
	if !same {
		d.Add("network namespace of the worker of "+c.Name, "that of the container", "another")
		return d
	}
	return nil
}

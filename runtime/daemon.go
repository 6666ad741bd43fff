package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/mount"
	"github.com/nettoll/nettoll/part"
)

// A Daemon is a program of a host that makes containers on request.
type Daemon struct {
	// Program is the program and its arguments.
	Program host.Program
	// Dir is the directory of everything that it keeps, below that of the host's programs. It is removed with it.
	Dir string
	// Socket is where it listens, in Dir.
	Socket string
	// Load returns the command that loads an image from an archive, its input; nil: it has no image.
	Load func(ctx context.Context, k *host.Kernel) (*exec.Cmd, error)
}

// How long a daemon may take to listen, and to end.
const (
	listening = 30 * time.Second
	grace     = 10 * time.Second
)

// Apply starts the daemon and gives it the image [Image], if it is to have one.
func (d Daemon) Apply(ctx context.Context, k *host.Kernel) (err error) {
	at, err := k.RunDir(d.Dir)
	if err != nil {
		return err
	}
	// A daemon that is killed leaves its temporary files, which go with the host.
	d.Program.Env = append(d.Program.Env, Temporary(at))
	r, err := k.Start(d.Program)
	if err != nil {
		return errors.Join(err, mount.Remove(at))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Died(), r.Stop(grace), mount.Remove(at))
		}
	}()
	if err := k.Keep(r.Process()); err != nil {
		return err
	}
	if err := listens(ctx, filepath.Join(at, d.Socket), r.Done()); err != nil {
		return err
	}
	if d.Load == nil {
		return nil
	}
	load, err := d.Load(ctx, k)
	if err != nil {
		return err
	}
	var image bytes.Buffer
	if err := WriteImage(&image, Image, nil); err != nil {
		return err
	}
	load.Stdin = &image
	return Run(load)
}

// Temporary is the variable of the environment that has a program keep temporary files in a directory.
func Temporary(dir string) string { return "TMPDIR=" + dir }

// Run runs a command of a runtime's client. The error has what the command has written.
func Run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return &linux.UnsupportedError{
			What: "make containers", Missing: fmt.Sprintf("program %q", cmd.Args[0]),
			Hint: "nettoll doctor says which package brings it", Err: err,
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return err
}

// A Client returns a command of a runtime's client, for the containers of a host.
type Client func(ctx context.Context, k *host.Kernel, args ...string) (*exec.Cmd, error)

// Logs returns the last lines that a container has written, by the commands of Docker; "" if they are not known.
func (c Client) Logs(ctx context.Context, k *host.Kernel, container string) string {
	cmd, err := c(context.WithoutCancel(ctx), k, "logs", "--tail", "5", container)
	if err != nil {
		return ""
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return ""
	}
	return string(out)
}

// listens waits until something listens at a socket.
func listens(ctx context.Context, socket string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, listening)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return errors.New("the daemon has ended")
		case <-ctx.Done():
			return fmt.Errorf("wait for the daemon to listen at %s: %w", socket, ctx.Err())
		case <-tick.C:
		}
	}
}

// Remove ends the daemon.
func (d Daemon) Remove(k *host.Kernel) error {
	var p host.Process
	if kept, err := k.Kept(&p); err != nil || !kept {
		return err
	}
	if err := k.Stop(p, grace); err != nil {
		return err
	}
	at, err := k.RunDir(d.Dir)
	return errors.Join(err, mount.Remove(at))
}

// Verify wants the daemon that a step has started to run.
func (d Daemon) Verify(k *host.Kernel, step host.Step) error {
	var p host.Process
	if _, err := k.Kept(&p); err != nil {
		return err
	}
	if k.Runs(p) {
		return nil
	}
	drift := &host.DriftError{Step: step.String()}
	drift.Add(d.Program.Name, "running", "ended")
	return drift
}

// A Needed program, the Debian package that brings it, and the oldest version that has all that nettoll uses: "20.10".
// If Least is "", any version will do.
type Needed struct{ Program, Package, Least string }

// Check returns a [linux.UnsupportedError] if containers cannot be made on this machine with these parameters: by
// cgroups, by the rights of this user, because a program is missing or too old, or because nettoll itself cannot run in
// them.
func Check(by string, p part.Params, needed ...Needed) error {
	what := "make containers by " + by
	if err := cgroup.Usable(what); err != nil {
		return err
	}
	if err := Need(what, needed...); err != nil {
		return err
	}
	if err := static(what, "/proc/self/exe"); err != nil {
		return err
	}
	if err := CheckUsers(p); err != nil {
		return err
	}
	return LimitsOf(p).Check()
}

// CheckControllers returns a [linux.UnsupportedError] if cgroups of v2 alone lack a controller that a runtime always
// uses.
func CheckControllers(by string, controllers ...string) error {
	return cgroup.Delegated("make containers by "+by, controllers...)
}

// Need returns a [linux.UnsupportedError] if a program is missing or too old.
func Need(what string, needed ...Needed) error {
	for _, n := range needed {
		path, err := exec.LookPath(n.Program)
		if err != nil {
			return &linux.UnsupportedError{
				What: what, Missing: fmt.Sprintf("program %q", n.Program), Hint: "install the package " + n.Package, Err: err,
			}
		}
		if err := n.recent(what, path); err != nil {
			return err
		}
	}
	return nil
}

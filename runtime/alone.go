package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
)

// CommandTime is the metric of [Alone]: how long the command took, in seconds.
const CommandTime = "command_time"

// Waiting are the arguments of this program in a container that is only made and removed. It waits for messages of a
// network that it does not have.
func Waiting() []string { return []string{"sink"} }

// Alone applies a step of a [Commanding] runtime: it gives the command that makes a container with the program, and
// reports how long that took as [CommandTime]. Nothing is left of a container that could not be made.
func Alone(ctx context.Context, k *host.Kernel, step host.Step,
	command func(program, cgroup string) (*exec.Cmd, error),
) error {
	return AloneBy(ctx, k, step, nil, func(program string, m Made) (*exec.Cmd, error) {
		return command(program, m.Cgroup)
	})
}

// AloneBy is [Alone], by a daemon of the machine if there is one.
func AloneBy(ctx context.Context, k *host.Kernel, step host.Step, by *Borrowed,
	command func(program string, m Made) (*exec.Cmd, error),
) (err error) {
	m, err := noted(k, by)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, step.Remove(context.WithoutCancel(ctx), k))
		}
	}()
	program, err := executable(k, "/proc/self/exe", by)
	if err != nil {
		return err
	}
	cmd, err := command(program, m)
	if err != nil {
		return err
	}
	took, err := timed(k, cmd)
	if by != nil {
		err = errors.Join(err, m.settle(k, err))
	}
	if err != nil {
		return err
	}
	k.Metric(CommandTime, took.Seconds())
	return nil
}

// timed runs a command and returns how long that took. What the command starts may keep its output, which is a file for
// that reason.
func timed(k *host.Kernel, cmd *exec.Cmd) (time.Duration, error) {
	dir, err := k.RunDir("alone")
	if err != nil {
		return 0, err
	}
	out, err := os.CreateTemp(dir, "output")
	if err != nil {
		return 0, err
	}
	defer out.Close()
	if err := os.Remove(out.Name()); err != nil {
		return 0, err
	}
	cmd.Stdout, cmd.Stderr = out, out
	began := time.Now()
	err = cmd.Run()
	took := time.Since(began)
	if err != nil {
		const most = 4096
		said := make([]byte, most)
		n, _ := out.ReadAt(said, 0) // it is shorter, or the end is missing
		err = fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(said[:n]))
	}
	return took, err
}

// VerifyAlone wants the control group of a container to be there that [Alone] has made.
func VerifyAlone(k *host.Kernel, step host.Step) error {
	var m Made
	if _, err := k.Kept(&m); err != nil {
		return err
	}
	if there, err := cgroup.Exists(m.Cgroup, m.Bases...); there || err != nil {
		return err
	}
	d := &host.DriftError{Step: step.String()}
	d.Add("control group", "present", "absent")
	return d
}

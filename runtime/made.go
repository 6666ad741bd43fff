package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/rights"
)

// Made is what the step of a container with a worker keeps.
type Made struct {
	// Cgroup is its control group, from the roots of all hierarchies or from Bases. It outlives the host.
	Cgroup string   `json:"cgroup"`
	Bases  []string `json:"bases,omitempty"`
	// PID is that of the worker on its host, or on the machine if Daemon made it; 0 before it was started.
	PID int `json:"pid,omitempty"`
	// Daemon is the socket of a daemon of the machine that makes the container; "" if its host does.
	Daemon string `json:"daemon,omitempty"`
	// Settled says that the daemon has done or refused that. Until then it may still do it.
	Settled bool `json:"settled,omitempty"`
}

// Known is the name of the container for a daemon of the machine, which has no other of that name.
func (m Made) Known(container string) string { return m.Cgroup + "-" + container }

// Make applies the step of a container. Start starts the worker and returns its PID; if it does not, it calls
// [Starting.Failed]. Nothing is left of a container that could not be made.
func Make(ctx context.Context, k *host.Kernel, step host.Step, c Contained,
	start func(worker *Starting, m *Made) (pid int, err error),
) (err error) {
	return makeBy(ctx, k, step, c, nil, start)
}

// makeBy is [Make], by a daemon of the machine if there is one.
func makeBy(ctx context.Context, k *host.Kernel, step host.Step, c Contained, by *Borrowed,
	start func(worker *Starting, m *Made) (pid int, err error),
) (err error) {
	m, err := noted(k, by)
	if err != nil {
		return err
	}
	worker, err := prepare(k, c.Name, by)
	if err != nil {
		return err
	}
	worker.Limits, worker.rights = c.Limits, c.Rights
	defer func() {
		if err != nil {
			err = errors.Join(err, step.Remove(context.WithoutCancel(ctx), k))
		}
	}()
	if m.PID, err = start(worker, &m); err != nil {
		return c.suspected(mixed(c.Name, err))
	}
	proc, err := m.proc(k)
	if err == nil {
		err = c.profiled(ctx, proc, m.PID)
	}
	if err != nil {
		if said := strings.TrimSpace(worker.Failed()); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return c.suspected(fmt.Errorf("make container %s: %w", c.Name, err))
	}
	return errors.Join(worker.Started(k, m.PID), k.Keep(m))
}

// noted chooses the control group of a container that is about to be made, and keeps it.
func noted(k *host.Kernel, by *Borrowed) (m Made, err error) {
	if by != nil {
		m.Daemon = by.Socket
	}
	m.Cgroup = "nettoll-" + strings.ToLower(rand.Text()) // which nobody else has
	if m.Bases, err = cgroup.Bases(); err != nil {
		return m, err
	}
	return m, k.Keep(m)
}

// RemoveCgroups ends what is left of a container, and removes its cgroups, also if the host is gone.
func (m Made) RemoveCgroups() error { return cgroup.Remove(m.Cgroup, m.Bases...) }

// proc is the directory /proc in which the worker is.
func (m Made) proc(k *host.Kernel) (string, error) {
	if m.Daemon == "" {
		return "/proc", nil
	}
	o, err := k.Outside()
	if err != nil {
		return "", err
	}
	return o.Path("/proc"), nil
}

// Verify wants the worker that a step has made to be there, in the network namespace of its container and
// with its AppArmor profile.
func Verify(k *host.Kernel, step host.Step, c Contained) error {
	var m Made
	if _, err := k.Kept(&m); err != nil {
		return err
	}
	proc, err := m.proc(k)
	if err != nil {
		return err
	}
	d := &host.DriftError{Step: step.String()}
	present, within, err := k.Within(proc, m.PID, c.Namespace)
	switch {
	case err != nil:
		return err
	case !present:
		d.Add("worker of "+c.Name, "present", "absent")
	case !within:
		d.Add("network namespace of the worker of "+c.Name, "that of the container", "another")
	case c.AppArmor == "":
		return nil
	default:
		has, err := rights.ProfileOf(proc, m.PID)
		if err != nil || has == c.AppArmor {
			return err
		}
		d.Add("AppArmor profile of the worker of "+c.Name, c.AppArmor, has)
	}
	return d
}

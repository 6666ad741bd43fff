package docker

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/runtime"
)

// borrow has the machine's daemon make the container.
func (c Container) borrow(ctx context.Context, k *host.Kernel) error {
	d, err := machineOf(k)
	if err != nil {
		return err
	}
	by, err := d.borrowed(k)
	if err != nil {
		return err
	}
	if c.Namespace == "" {
		return errors.New(ours + " cannot put a container into the network namespace of a host")
	}
	known := "" // once it was run
	client := runtime.Client(d.command)
	return runtime.Launch{
		Run: func(h *runtime.Handing, m runtime.Made) error {
			known = m.Known(c.Name)
			return c.runBy(ctx, k, d, h, m)
		},
		Said:        func() string { return client.Logs(ctx, k, known) },
		OutOfMemory: func() bool { return client.OutOfMemory(ctx, k, known) },
		Adopt:       true,
		By:          by,
	}.Start(ctx, k, c, c.Contained)
}

// runBy has the machine's daemon run the container.
func (c Container) runBy(
	ctx context.Context, k *host.Kernel, d machine, h *runtime.Handing, m runtime.Made,
) error {
	rights, err := c.Flags()
	if err != nil {
		return err
	}
	if c.NewPrivileges {
		rights = append(rights, "--security-opt", "no-new-privileges=false") // the daemon may have another default
	}
	args := slices.Concat([]string{"run", "--detach", "--pull", "never", "--network", "none"}, d.args(m, c.Name), rights,
		c.Limits.Flags())
	for _, mount := range h.Mounts() {
		args = append(args, "--mount", bind(mount))
	}
	for _, v := range h.Env() {
		if strings.HasPrefix(v, "GO") { // those of the Go runtime: everybody who may use the daemon can read them
			args = append(args, "--env", v)
		}
	}
	_, err = d.run(ctx, k, slices.Concat(args, []string{d.Image}, h.Args)...)
	return err
}

// bind is the value of a flag --mount. Unlike --volume, it makes no directory if the daemon does not find the file.
func bind(m runtime.Mount) string {
	s := "type=bind,source=" + m.From + ",target=" + m.To
	if !m.Writable {
		s += ",readonly"
	}
	return s
}

// giveBack removes the container from the machine's daemon, also if the host is gone. The daemon may use hierarchies of
// cgroups that the host does not see.
func (c Container) giveBack(ctx context.Context, k *host.Kernel, m runtime.Made) error {
	outside, err := k.Outside()
	if err != nil {
		return err
	}
	d := machine{Socket: m.Daemon}
	err = d.gone(ctx, k, m.Settled, "No such container", "rm", "--force", "--volumes", m.Known(c.Name))
	if c.Namespace != "" {
		err = errors.Join(err, host.Namespace{Name: c.Namespace}.Remove(ctx, k))
	}
	return errors.Join(err, cgroup.RemoveAt(outside.Path(cgroup.Dir), m.Cgroup))
}

package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Container is a container of containerd, with a worker as its only process.
type Container struct {
	runtime.Contained
	// Command is the program that makes it: "runc" or "crun".
	Command string `json:"command"`
}

// Kind returns "containerd-container".
func (Container) Kind() string { return "containerd-container" }

// String describes the step in plain words.
func (c Container) String() string { return c.Described("containerd") }

// Concurrent reports whether others can be made meanwhile. With user namespaces each ctr makes the same snapshot of the
// image and fails if another one is at it.
func (c Container) Concurrent() bool { return !c.Users }

// Apply makes the container.
func (c Container) Apply(ctx context.Context, k *host.Kernel) error {
	return runtime.Launch{
		Run:  func(h *runtime.Handing, m runtime.Made) error { return c.run(ctx, k, h, m.Cgroup) },
		Said: func() string { return c.said(k) }, Adopt: c.Users,
	}.Start(ctx, k, c, c.Contained)
}

// log is the file of what a container writes before it has its files.
func (c Container) log(k *host.Kernel) (string, error) {
	at, err := k.RunDir(dir)
	return filepath.Join(at, c.Name+".log"), err
}

// run runs the container.
func (c Container) run(ctx context.Context, k *host.Kernel, h *runtime.Handing, cgroup string) error {
	log, err := c.log(k)
	if err != nil {
		return err
	}
	args := []string{
		"run", "--detach", "--log-uri", "file://" + log, "--cgroup", "/" + cgroup, "--runc-binary", c.Command,
	}
	if c.Users {
		if _, err := runtime.Reachable(k, dir); err != nil {
			return err
		}
	}
	switch {
	case c.Users: // the container gets a network namespace of its own
	case c.Namespace == "":
		args = append(args, "--net-host")
	default:
		args = append(args, "--with-ns", "network:"+k.Path(c.Namespace))
	}
	args = append(args, c.UserFlags()...)
	switch capabilities, err := c.Capabilities(); {
	case err != nil:
		return err
	case c.Privileged:
		for _, capability := range capabilities {
			args = append(args, "--cap-add", capability)
		}
	case c.Bare:
		for _, capability := range runtime.UsualCapabilities() {
			args = append(args, "--cap-drop", capability)
		}
	}
	if c.Filtered {
		args = append(args, "--seccomp")
	}
	if c.NewPrivileges {
		args = append(args, "--allow-new-privs")
	}
	args = append(args, c.profile()...)
	if c.Limits.CPUs > 0 {
		args = append(args, "--cpu-period", strconv.Itoa(runtime.Period),
			"--cpu-quota", strconv.FormatInt(c.Limits.Quota(), 10))
	}
	if c.Limits.Memory > 0 {
		args = append(args, "--memory-limit", strconv.FormatInt(c.Limits.Memory, 10))
	}
	for _, m := range h.Mounts() {
		// A user namespace may not take away nosuid and nodev, which /run has (mount_namespaces(7), locked flags).
		args = append(args, "--mount", "type=bind,src="+m.From+",dst="+m.To+",options=bind:nosuid:nodev:"+m.Mode())
	}
	for _, v := range h.Env() {
		args = append(args, "--env", v)
	}
	cmd, err := command(ctx, k, slices.Concat(args, []string{image, c.Name}, h.Args)...)
	if err != nil {
		return err
	}
	if err := c.Limits.SetCPUs(cgroup); err != nil { // ctr can since 2.0 only
		return err
	}
	return runtime.Run(cmd)
}

// profile is the flag that chooses the AppArmor profile; none if there is to be none.
func (c Container) profile() []string {
	if c.AppArmor == "" {
		return nil
	}
	return []string{"--apparmor-profile", c.AppArmor}
}

// said returns what the container has written.
func (c Container) said(k *host.Kernel) string {
	log, err := c.log(k)
	if err != nil {
		return ""
	}
	out, _ := os.ReadFile(log) // there is none of a container that was not made
	return string(out)
}

// Remove ends the container. Its cgroups go in any case, also if the host is gone.
func (c Container) Remove(ctx context.Context, k *host.Kernel) error {
	var m runtime.Made
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	socket, err := own().At(k)
	if err != nil {
		return err
	}
	var errs []error
	if _, err := os.Stat(socket); err == nil {
		for _, args := range [][]string{{"tasks", "rm", "--force", c.Name}, {"containers", "rm", c.Name}} {
			cmd, err := command(ctx, k, args...)
			if err != nil {
				return err
			}
			if err := runtime.Run(cmd); err != nil && !strings.Contains(err.Error(), "not found") {
				errs = append(errs, err)
			}
		}
	}
	if c.Users {
		errs = append(errs, host.Namespace{Name: c.Namespace}.Remove(ctx, k))
	}
	return errors.Join(append(errs, m.RemoveCgroups())...)
}

// Verify wants the worker to be there, in its namespace.
func (c Container) Verify(k *host.Kernel) error { return runtime.Verify(k, c, c.Contained) }

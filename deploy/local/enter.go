package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Namespace opens a network namespace of the host by its name; "" is the host's own. The namespace exists while the
// file is open. The caller closes the file.
func (h *Host) Namespace(name string) (*os.File, error) {
	if name == "" {
		return h.NetNS()
	}
	// Files in the mount namespace of another process can be reached through its root (proc_pid_root(5)).
	f, err := netns.Open(fmt.Sprintf("/proc/%d/root%s/%s", h.PID(), host.DefaultDir, name))
	if alive := h.alive(); alive != nil {
		if err == nil {
			_ = f.Close()
		}
		return nil, alive
	}
	if err != nil {
		return nil, fmt.Errorf("host %q: %w", h.Name(), err)
	}
	return f, nil
}

// Run runs a command on the host until it ends: among its processes, with its mounts and its name, and in one of its
// network namespaces ("" is its own). If the host does not have the command's directory, the command runs in the root
// directory. See [process.RunInside].
func (h *Host) Run(cmd *exec.Cmd, namespace string, terminal bool, started func(*os.Process)) error {
	inside, err := process.OpenNamespaces(h.PID())
	if err != nil {
		return errors.Join(h.alive(), err)
	}
	defer inside.Close()
	if err := h.alive(); err != nil {
		return err
	}
	if namespace != "" {
		of, err := h.Namespace(namespace)
		if err != nil {
			return err
		}
		_ = inside.Net.Close()
		inside.Net = of
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", h.PID(), cmd.Dir)); err != nil {
		cmd.Dir = "/"
	}
	return process.RunInside(cmd, inside, terminal, started)
}

// alive returns an error if the host has ended: until then, its PID is not reused.
func (h *Host) alive() error {
	select {
	case <-h.exited:
		return fmt.Errorf("host %q has ended", h.Name())
	default:
		return nil
	}
}

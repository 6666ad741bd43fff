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

// Namespace opens a network namespace of the host by its name, "" for the host's own. It lives on while the file is
// open. The file is the caller's to close.
func (h *Host) Namespace(name string) (*os.File, error) {
	if name == "" {
		return h.NetNS()
	}
	// What stands in the mount namespace of another process can be reached through its root (proc_pid_root(5)).
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

// Run runs a command to its end on the host: among its processes, with its mounts and its name, and in one of its
// network namespaces, "" for its own. Where the host does not have its directory that is the root. See
// [process.RunInside].
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

// alive says that the host has not ended: until then its number is nobody else's.
func (h *Host) alive() error {
	select {
	case <-h.exited:
		return fmt.Errorf("host %q has ended", h.Name())
	default:
		return nil
	}
}

package runtime

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nettoll/nettoll/host"
)

// A Containerd is the daemon containerd of a host.
type Containerd struct {
	// Program is its name, and that of its Debian package.
	Program string
	// Dir is the directory of everything that it keeps, below that of the host's programs.
	Dir string
}

// Names in the directory of a containerd.
const (
	containerdSocket   = "containerd.sock"
	containerdSettings = "config.toml"
)

// At is where it listens.
func (c Containerd) At(k *host.Kernel) (socket string, err error) {
	at, err := k.RunDir(c.Dir)
	return filepath.Join(at, containerdSocket), err
}

// daemon is the daemon that keeps everything at a directory.
func (c Containerd) daemon(at string) Daemon {
	return Daemon{
		Dir: c.Dir, Socket: containerdSocket,
		Program: host.Program{
			Name: c.Program, Package: c.Program, Args: []string{c.Program, "--config", filepath.Join(at, containerdSettings)},
		},
	}
}

// containerdConfig is the configuration of one that keeps everything at a directory (containerd-config.toml(5)). What
// Kubernetes needs, and stores of other systems, are left out.
func containerdConfig(at string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version = 2\nroot = %q\nstate = %q\n", filepath.Join(at, "root"), filepath.Join(at, "state"))
	b.WriteString("disabled_plugins = [\"io.containerd.grpc.v1.cri\"")
	for _, store := range []string{"aufs", "btrfs", "devmapper", "zfs"} {
		fmt.Fprintf(&b, ", %q", "io.containerd.snapshotter.v1."+store)
	}
	fmt.Fprintf(&b, "]\n[grpc]\naddress = %q\n[ttrpc]\naddress = %q\n", filepath.Join(at, containerdSocket),
		filepath.Join(at, containerdSocket+".ttrpc"))
	return b.String()
}

// Apply starts the daemon, and gives it the image by a command as in [Daemon], unless that is nil.
func (c Containerd) Apply(ctx context.Context, k *host.Kernel,
	load func(ctx context.Context, k *host.Kernel) (*exec.Cmd, error),
) error {
	at, err := k.RunDir(c.Dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(at, containerdSettings), []byte(containerdConfig(at)), 0o600); err != nil {
		return err
	}
	d := c.daemon(at)
	d.Load = load
	return d.Apply(ctx, k)
}

// Remove ends the daemon.
func (c Containerd) Remove(k *host.Kernel) error { return c.daemon("").Remove(k) }

// Verify wants the daemon that a step has started to run.
func (c Containerd) Verify(k *host.Kernel, step host.Step) error { return c.daemon("").Verify(k, step) }

package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// The programs of containerd, both of the Debian package of the second.
const (
	client = "ctr"
	daemon = "containerd"
)

// least is the oldest containerd whose ctr can add and drop capabilities (github.com/containerd/containerd/pull/6289,
// of November 2021). Two flags came shortly before, --cpu-quota (pull/4456) and --apparmor-profile (pull/4709).
const least = "1.6"

// A Daemon is the daemon of a host. It has the image of all containers.
type Daemon struct{}

// Kind returns "containerd-daemon".
func (Daemon) Kind() string { return "containerd-daemon" }

// String describes the step in plain words.
func (Daemon) String() string { return "containerd, with an image that holds nothing" }

// Groups makes Daemon a [host.Grouping].
func (Daemon) Groups() {}

// What a host's daemon keeps, and where it listens, below the directory of the host's programs.
const (
	dir      = "containerd"
	socket   = "containerd.sock"
	settings = "config.toml"
)

// image is the name that the daemon gives the image of [runtime.WriteImage].
const image = "docker.io/library/" + runtime.Image

// command is a command of the client, for a host's daemon.
func command(ctx context.Context, k *host.Kernel, args ...string) (*exec.Cmd, error) {
	at, err := k.RunDir(dir)
	if err != nil {
		return nil, err
	}
	all := append([]string{"--address", filepath.Join(at, socket), "--namespace", "nettoll"}, args...)
	cmd := exec.CommandContext(ctx, client, all...)
	cmd.Env = append(os.Environ(), runtime.Temporary(at))
	return cmd, nil
}

// daemonOf is the daemon of a host, which keeps everything at a directory.
func daemonOf(at string) runtime.Daemon {
	return runtime.Daemon{
		Dir: dir, Socket: socket,
		Program: host.Program{
			Name: daemon, Package: daemon, Args: []string{daemon, "--config", filepath.Join(at, settings)},
		},
		Load: func(ctx context.Context, k *host.Kernel) (*exec.Cmd, error) {
			return command(ctx, k, "images", "import", "-")
		},
	}
}

// config is the configuration of a daemon (containerd-config.toml(5)). What Kubernetes needs, and stores of other
// systems, are left out.
func config(at string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version = 2\nroot = %q\nstate = %q\n", filepath.Join(at, "root"), filepath.Join(at, "state"))
	b.WriteString("disabled_plugins = [\"io.containerd.grpc.v1.cri\"")
	for _, store := range []string{"aufs", "btrfs", "devmapper", "zfs"} {
		fmt.Fprintf(&b, ", %q", "io.containerd.snapshotter.v1."+store)
	}
	fmt.Fprintf(&b, "]\n[grpc]\naddress = %q\n[ttrpc]\naddress = %q\n", filepath.Join(at, socket),
		filepath.Join(at, socket+".ttrpc"))
	return b.String()
}

// Apply starts the daemon and gives it the image.
func (d Daemon) Apply(ctx context.Context, k *host.Kernel) error {
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(at, settings), []byte(config(at)), 0o600); err != nil {
		return err
	}
	return daemonOf(at).Apply(ctx, k)
}

// Remove ends the daemon.
func (Daemon) Remove(_ context.Context, k *host.Kernel) error { return daemonOf("").Remove(k) }

// Verify wants the daemon to run.
func (d Daemon) Verify(k *host.Kernel) error { return daemonOf("").Verify(k, d) }

package containerd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

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

// image is the name that the daemon gives the image of [runtime.WriteImage].
const image = "docker.io/library/" + runtime.Image

// dir is the directory of what a host's daemon keeps, below that of the host's programs.
const dir = "containerd"

// own is what [Daemon] starts.
func own() runtime.Containerd { return runtime.Containerd{Program: daemon, Dir: dir} }

// command is a command of the client, for a host's daemon.
func command(ctx context.Context, k *host.Kernel, args ...string) (*exec.Cmd, error) {
	socket, err := own().At(k)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, client, append([]string{"--address", socket, "--namespace", "nettoll"}, args...)...)
	cmd.Env = append(os.Environ(), runtime.Temporary(filepath.Dir(socket)))
	return cmd, nil
}

// Apply starts the daemon and gives it the image.
func (Daemon) Apply(ctx context.Context, k *host.Kernel) error {
	return own().Apply(ctx, k, func(ctx context.Context, k *host.Kernel) (*exec.Cmd, error) {
		return command(ctx, k, "images", "import", "-")
	})
}

// Remove ends the daemon.
func (Daemon) Remove(_ context.Context, k *host.Kernel) error { return own().Remove(k) }

// Verify wants the daemon to run.
func (d Daemon) Verify(k *host.Kernel) error { return own().Verify(k, d) }

package docker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// The programs of Docker, and their Debian package. containerd starts runc.
const (
	client     = "docker"
	dockerd    = "dockerd"
	containerd = "containerd"
	pkg        = "docker.io"
)

// least is the oldest Docker whose daemon takes --ip6tables (github.com/docker-library/docker/commit/094faa8) and knows
// cgroups of version 2 (github.com/docker/docker.github.io/pull/11042), and whose client takes --pull. It speaks
// version 1.41 of the API.
const least = "20.10"

// A Daemon is the daemon of a host, which needs [Containerd]. It has the image of all containers.
type Daemon struct {
	// Networks has it set up the firewall and forwarding of its host, as its networks need them. Otherwise it leaves both
	// alone.
	Networks bool `json:"networks,omitempty"`
	// Proxy has it start a program for each published port.
	Proxy bool `json:"proxy,omitempty"`
	// Users has it give containers user namespaces, see the step [Users].
	Users bool `json:"users,omitempty"`
}

// Kind returns "docker-daemon".
func (Daemon) Kind() string { return "docker-daemon" }

// String describes the step in plain words.
func (d Daemon) String() string {
	s := "dockerd, with an image that holds nothing"
	if d.Networks {
		s += ", which sets up the firewall"
	}
	if d.Users {
		s += ", which gives containers user namespaces"
	}
	return s
}

// Groups makes Daemon a [host.Grouping].
func (Daemon) Groups() {}

// What a host's daemon keeps, and where it listens, below the directory of the host's programs.
const (
	dir    = "docker"
	socket = "docker.sock"
)

// command is a command of the client, for a host's daemon.
func command(ctx context.Context, k *host.Kernel, args ...string) (*exec.Cmd, error) {
	at, err := k.RunDir(dir)
	if err != nil {
		return nil, err
	}
	return commandAt(ctx, k, filepath.Join(at, socket), args...)
}

// commandAt is a command of the client, for a daemon with a socket.
func commandAt(ctx context.Context, k *host.Kernel, socket string, args ...string) (*exec.Cmd, error) {
	at, err := k.RunDir(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, client, append([]string{"--host", "unix://" + socket}, args...)...)
	// Settings of a user, such as proxies for containers, have no effect here.
	cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+at, "DOCKER_CONTEXT=", "DOCKER_HOST=", runtime.Temporary(at))
	return cmd, nil
}

// daemon is that of a host, which keeps everything at a directory.
func (d Daemon) daemon(at, containerd string) runtime.Daemon {
	args := []string{
		dockerd, "--config-file", filepath.Join(at, settings), "--host", "unix://" + filepath.Join(at, socket),
		"--data-root", filepath.Join(at, "data"), "--exec-root", filepath.Join(at, "exec"),
		"--pidfile", filepath.Join(at, "pid"), "--exec-opt", "native.cgroupdriver=cgroupfs", "--bridge", "none",
		"--containerd", containerd,
	}
	if d.Networks {
		// IPv6 too; younger daemons do that by default.
		args = append(args, "--experimental", "--ip6tables", fmt.Sprintf("--userland-proxy=%t", d.Proxy))
	} else {
		args = append(args, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false")
	}
	if d.Users {
		args = append(args, "--userns-remap", remapped)
	}
	return runtime.Daemon{
		Dir: dir, Socket: socket, Program: host.Program{Name: dockerd, Package: pkg, Args: args},
		Load: func(ctx context.Context, k *host.Kernel) (*exec.Cmd, error) {
			return command(ctx, k, "load", "--quiet")
		},
	}
}

// settings is a file for the daemon to read instead of the one of the machine's Docker.
const settings = "daemon.json"

// prepared is the daemon of a host, which can be started.
func (d Daemon) prepared(k *host.Kernel) (runtime.Daemon, error) {
	at, err := k.RunDir(dir)
	if err == nil && d.Users {
		_, err = runtime.Reachable(k, dir)
	}
	if err != nil {
		return runtime.Daemon{}, err
	}
	if err := os.WriteFile(filepath.Join(at, settings), []byte("{}"), 0o600); err != nil {
		return runtime.Daemon{}, err
	}
	containerd, err := beneath().At(k)
	return d.daemon(at, containerd), err
}

// Apply starts the daemon and gives it the image.
func (d Daemon) Apply(ctx context.Context, k *host.Kernel) error {
	prepared, err := d.prepared(k)
	if err != nil {
		return err
	}
	return prepared.Apply(ctx, k)
}

// Remove ends the daemon.
func (d Daemon) Remove(_ context.Context, k *host.Kernel) error { return d.daemon("", "").Remove(k) }

// Verify wants the daemon to run.
func (d Daemon) Verify(k *host.Kernel) error { return d.daemon("", "").Verify(k, d) }

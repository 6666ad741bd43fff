package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/mount"
	"github.com/nettoll/nettoll/runtime"
)

// The programs of Docker, and their Debian package. The daemon starts containerd, which starts runc.
const (
	client     = "docker"
	daemon     = "dockerd"
	containerd = "containerd"
	pkg        = "docker.io"
)

// A Daemon is the daemon of a host. It has the image of all containers.
type Daemon struct{}

// Kind returns "docker-daemon".
func (Daemon) Kind() string { return "docker-daemon" }

// String describes the step in plain words.
func (Daemon) String() string { return "dockerd, with an image that holds nothing" }

// Groups makes Daemon a [host.Grouping].
func (Daemon) Groups() {}

// dir is the directory of a host's daemon, below that of its programs.
const dir = "docker"

// socket is where a host's daemon listens.
func socket(k *host.Kernel) (string, error) {
	at, err := k.RunDir(dir)
	return filepath.Join(at, "docker.sock"), err
}

// command is a command of the client, for a host's daemon.
func command(ctx context.Context, k *host.Kernel, args ...string) (*exec.Cmd, error) {
	at, err := socket(k)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, client, append([]string{"--host", "unix://" + at}, args...)...)
	// Settings of a user, such as proxies for containers, have no effect here.
	cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+filepath.Dir(at), "DOCKER_CONTEXT=", "DOCKER_HOST=")
	return cmd, nil
}

// ready is how long a daemon may take to listen, and grace to end.
const (
	ready = 30 * time.Second
	grace = 10 * time.Second
)

// Apply starts the daemon and gives it the image.
func (d Daemon) Apply(ctx context.Context, k *host.Kernel) (err error) {
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	settings := filepath.Join(at, "daemon.json") // and not those of the machine's Docker
	if err := os.WriteFile(settings, []byte("{}"), 0o600); err != nil {
		return err
	}
	// It leaves networks and the firewall of its host alone: those of the lab are nettoll's.
	r, err := k.Start(host.Program{Name: daemon, Package: pkg, Args: []string{
		daemon, "--config-file", settings,
		"--host", "unix://" + filepath.Join(at, "docker.sock"), "--data-root", filepath.Join(at, "data"),
		"--exec-root", filepath.Join(at, "exec"), "--pidfile", filepath.Join(at, "pid"),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--bridge", "none", "--iptables=false", "--ip6tables=false",
		"--ip-forward=false", "--ip-masq=false",
	}})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Died(), r.Stop(grace), mount.Remove(at))
		}
	}()
	p, err := r.Process()
	if err != nil {
		return err
	}
	if err := k.Keep(p); err != nil {
		return err
	}
	if err := answers(ctx, filepath.Join(at, "docker.sock"), r.Done()); err != nil {
		return err
	}
	load, err := command(ctx, k, "load", "--quiet")
	if err != nil {
		return err
	}
	var image bytes.Buffer
	if err := runtime.WriteImage(&image); err != nil {
		return err
	}
	load.Stdin = &image
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("docker load: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// answers waits until a daemon listens.
func answers(ctx context.Context, socket string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return errors.New("the daemon has ended")
		case <-ctx.Done():
			return fmt.Errorf("wait for the daemon to listen at %s: %w", socket, ctx.Err())
		case <-tick.C:
		}
	}
}

// Remove ends the daemon.
func (Daemon) Remove(_ context.Context, k *host.Kernel) error {
	var p host.Process
	if kept, err := k.Kept(&p); err != nil || !kept {
		return err
	}
	if err := k.Stop(p, grace); err != nil {
		return err
	}
	at, err := k.RunDir(dir)
	return errors.Join(err, mount.Remove(at))
}

// Verify wants the daemon to run.
func (d Daemon) Verify(k *host.Kernel) error {
	var p host.Process
	if _, err := k.Kept(&p); err != nil {
		return err
	}
	if k.Runs(p) {
		return nil
	}
	drift := &host.DriftError{Step: d.String()}
	drift.Add(daemon, "running", "ended")
	return drift
}

package docker

import (
	"context"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// A Containerd is the containerd below the daemon of a host. dockerd would start one, too, but takes a second to end it
// (stopDaemon, libcontainerd/supervisor/remote_daemon_linux.go), has it look for stores that nobody uses, and gives up
// if it does not answer within 15 s.
type Containerd struct{}

// Kind returns "docker-containerd".
func (Containerd) Kind() string { return "docker-containerd" }

// String describes the step in plain words.
func (Containerd) String() string { return "containerd for dockerd" }

// Groups makes Containerd a [host.Grouping].
func (Containerd) Groups() {}

// beneath is what [Containerd] starts.
func beneath() runtime.Containerd {
	return runtime.Containerd{Program: containerd, Dir: "docker-containerd"}
}

// Apply starts the daemon.
func (Containerd) Apply(ctx context.Context, k *host.Kernel) error {
	return beneath().Apply(ctx, k, nil)
}

// Remove ends the daemon.
func (Containerd) Remove(_ context.Context, k *host.Kernel) error { return beneath().Remove(k) }

// Verify wants the daemon to run.
func (c Containerd) Verify(k *host.Kernel) error { return beneath().Verify(k, c) }

package kubernetes

import (
	"context"
	"io"
	"maps"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/worker"
)

// Commands of this program in pods.
const (
	// PodCommand is the first process of a pod, see [Pod].
	PodCommand = "pod"
	// ScoutCommand tells about a node, see [Scout].
	ScoutCommand = "scout"
	// FreshCommand is the first process of a pod that sends from its start on, see [Fresh].
	FreshCommand = "fresh"
	// workerCommand is a worker.
	workerCommand = "worker"
)

const (
	// alone is how long a pod stays when its workers are gone.
	alone = time.Minute
	// first is how much longer it waits for them to come: those of a lab come when all of its pods run.
	first = 2 * time.Minute
)

// Pod is the main function of the first process of a pod, in which workers run.
func Pod(ctx context.Context) error { return process.Linger(ctx, alone, first) }

// Methods of a scout.
const (
	methodAbout   = "about"   // nothing → about
	methodLoad    = "load"    // nothing → load
	methodProgram = "program" // program.Needed → string: its version
)

// about is what a scout knows of its node.
type about struct {
	Facts map[string]any `json:"facts"`
	CPUs  []int          `json:"cpus"` // that workers may use
}

// load is how busy a node has been since it started.
type load struct {
	At    int64          `json:"at"`  // ns of its CLOCK_MONOTONIC
	CPU   procfs.CPUTime `json:"cpu"` // s by mode
	Load1 float64        `json:"load1"`
}

// Scout answers questions about the node of its pod, and sends and receives flows, until the input ends.
func Scout(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	methods := protocol.Methods{
		methodAbout: protocol.Method(func(context.Context, struct{}) (about, error) {
			cpus, err := thread.CPUs()
			a := about{Facts: procfs.Machine(), CPUs: cpus}
			if links, err := worker.OwnLinks(); err == nil {
				if mtu := leastMTU(links); mtu > 0 {
					a.Facts[podMTU] = mtu
				}
			}
			return a, err
		}),
		methodLoad: protocol.Method(func(context.Context, struct{}) (l load, err error) {
			l.At = clock.Now()
			if l.CPU, err = procfs.ReadCPUTime(); err == nil {
				l.Load1, err = procfs.Load1()
			}
			return l, err
		}),
		methodProgram: protocol.Method(func(ctx context.Context, n program.Needed) (string, error) { return n.Version(ctx) }),
	}
	maps.Copy(methods, new(flows).methods())
	return protocol.Serve(ctx, in, out, methods)
}

package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Inside a container that inherits no files, the program of the worker is at Program, and the socket from which it
// takes its files at HandedFrom.
const (
	Program    = "/nettoll"
	HandedFrom = "/nettoll.sock"
)

// arrival is how long a worker may take to ask for its files once its container was started, and mostArrival how long
// one may that has little CPU time.
const (
	arrival     = 10 * time.Second
	mostArrival = time.Minute
)

// arrives returns how long a worker with these limits may take.
func (l Limits) arrives() time.Duration {
	if l.CPUs == 0 || l.CPUs >= 1 {
		return arrival
	}
	return min(time.Duration(float64(arrival)/l.CPUs), mostArrival)
}

// workersDir is the directory of the sockets of workers, below that of a host's programs.
const workersDir = "workers"

// A Handing hands a worker in a container its files, for runtimes whose containers inherit none: a daemon starts them.
type Handing struct {
	// Socket has to be mounted at [HandedFrom].
	Socket string
	// Args are the program and the arguments of the worker.
	Args []string

	worker   *Starting
	listener *net.UnixListener
}

// Hand prepares to hand the worker its files. The caller closes the Handing.
func (s *Starting) Hand(k *host.Kernel) (*Handing, error) {
	dir, err := k.RunDir(workersDir)
	if err != nil {
		return nil, err
	}
	h := &Handing{Socket: filepath.Join(dir, s.container+".sock"), worker: s}
	here := h.Socket
	if s.by != nil {
		h.Socket = filepath.Join(s.by.Dir, s.known+".sock")
		here = s.by.Path(h.Socket)
	}
	h.Args = append([]string{Program}, s.Worker.Args[1:]...)
	h.Args = append(h.Args, host.HandedOption, HandedFrom)
	if h.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: here, Net: "unix"}); err != nil {
		return nil, err
	}
	if s.rights.Users {
		if err := h.open(k); err != nil {
			return nil, errors.Join(err, h.Close())
		}
	}
	return h, nil
}

// open lets root of a container with a user namespace, another user of the host, use the program and the socket.
func (h *Handing) open(k *host.Kernel) (err error) {
	if h.worker.Program, err = ReachableProgram(k, h.worker.Program); err != nil {
		return err
	}
	if _, err := Reachable(k, workersDir); err != nil {
		return err
	}
	return os.Chmod(h.Socket, 0o666)
}

// Arrived waits until the worker has asked for its files, and hands them over. It returns the PID of the worker, 0 if
// it is not a process of the host, and its network namespace, which the caller closes.
func (h *Handing) Arrived(ctx context.Context) (pid int, ns *os.File, err error) {
	end := time.Now().Add(h.worker.Limits.arrives())
	if of, ok := ctx.Deadline(); ok && of.Before(end) {
		end = of
	}
	stop := context.AfterFunc(ctx, func() { _ = h.listener.SetDeadline(time.Now()) })
	defer stop()
	_ = h.listener.SetDeadline(end)
	conn, err := h.listener.AcceptUnix()
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("wait for the worker in the container: %w", err), ctx.Err())
	}
	defer conn.Close()
	_ = conn.SetDeadline(end)
	if h.worker.by == nil {
		if pid, err = process.PeerProcess(conn); err != nil {
			return 0, nil, err
		}
	}
	theirs, err := process.Taken(conn, 1)
	if err != nil {
		return 0, nil, err
	}
	if len(theirs) != 1 {
		for _, f := range theirs {
			_ = f.Close()
		}
		return 0, nil, fmt.Errorf("the worker handed over %d files (want its network namespace)", len(theirs))
	}
	files := append([]*os.File{h.worker.In, h.worker.Out, h.worker.Err}, h.worker.Worker.ExtraFiles...)
	if err := process.Hand(conn, files...); err != nil {
		_ = theirs[0].Close()
		return 0, nil, err
	}
	return pid, theirs[0], nil
}

// Close removes the socket.
func (h *Handing) Close() error { return h.listener.Close() }

// A Mount is a file of the host that a container needs.
type Mount struct {
	From, To string
	Writable bool
}

// Mode is "ro" or "rw".
func (m Mount) Mode() string {
	if m.Writable {
		return "rw"
	}
	return "ro"
}

// Mounts are the program of the worker and its socket.
func (h *Handing) Mounts() []Mount {
	return []Mount{{From: h.worker.Program, To: Program}, {From: h.Socket, To: HandedFrom, Writable: true}}
}

// Env is the environment of the worker.
func (h *Handing) Env() []string { return h.worker.Worker.Env }

// Flags are flags of 'docker run' and 'podman run': the mounts and the environment of the worker.
func (h *Handing) Flags() (flags []string) {
	for _, m := range h.Mounts() {
		flags = append(flags, "--volume", m.From+":"+m.To+":"+m.Mode())
	}
	for _, v := range h.Env() {
		flags = append(flags, "--env", v)
	}
	return flags
}

// A Launch says how a runtime starts a container that inherits no files.
type Launch struct {
	// Run runs the container. It returns once that runs.
	Run func(h *Handing, m Made) error
	// Said returns what the container has written until its worker had its files.
	Said func() string
	// Adopt is true if the container makes its own network namespace, which the host is to adopt.
	Adopt bool
	// OutOfMemory is as in [Starting].
	OutOfMemory func() bool
	// By, if not nil, is a daemon of the machine that makes the container.
	By *Borrowed
}

// Start applies the step of such a container, as [Make] does.
func (l Launch) Start(ctx context.Context, k *host.Kernel, step host.Step, c Contained) error {
	return makeBy(ctx, k, step, c, l.By, func(worker *Starting, m *Made) (int, error) {
		worker.OutOfMemory, worker.known = l.outOfMemory(m.Cgroup), m.Known(c.Name)
		if err := l.ahead(c.Limits, m.Cgroup); err != nil {
			worker.Failed()
			return 0, err
		}
		pid, err := l.worker(ctx, k, worker, c.Namespace, m)
		if err == nil {
			return pid, nil
		}
		worker.Failed()
		err = fmt.Errorf("make container %s: %w", c.Name, err)
		if said := strings.TrimSpace(l.Said()); said != "" {
			err = fmt.Errorf("%w\nit said: %s", err, said)
		}
		return 0, err
	})
}

// ahead sets those limits of a container that its runtime may leave out.
func (l Launch) ahead(limits Limits, group string) error {
	if l.By != nil { // its daemon chooses the control group
		return nil
	}
	return limits.setSwap(group)
}

// outOfMemory asks the control group above the container before the runtime, which takes seconds on a busy machine.
func (l Launch) outOfMemory(group string) func() bool {
	if l.OutOfMemory == nil {
		return nil
	}
	return func() bool { return cgroup.KilledBelow(group) || l.OutOfMemory() }
}

// worker runs the container and waits for its worker.
func (l Launch) worker(ctx context.Context, k *host.Kernel, s *Starting, namespace string, m *Made) (int, error) {
	h, err := s.Hand(k)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	err = l.Run(h, *m)
	if l.By != nil {
		err = errors.Join(err, m.settle(k, err))
	}
	if err != nil {
		return 0, err
	}
	pid, ns, err := h.Arrived(ctx)
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	if l.By != nil {
		if pid, err = l.By.process(s.known, ns); err != nil {
			return 0, err
		}
	}
	if !l.Adopt || namespace == "" {
		return pid, nil
	}
	return pid, host.Namespace{Name: namespace}.Adopt(k, ns)
}

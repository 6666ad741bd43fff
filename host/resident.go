package host

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// A Resident is a worker that a runtime has started in a container. It waits there for its work.
type Resident struct {
	// In and Out are its standard input and output.
	In  io.WriteCloser
	Out io.ReadCloser
	// Tail is the end of its standard error.
	Tail *process.Tail
	// Group is its control group.
	Group cgroup.Group
	// Ended says how it has ended, once it has; Status is its exit status or signal then.
	Ended  func(status string) string
	Status func() string
	// Kill ends it; it may be gone. Done is closed when it is gone. If both are nil, [Kernel.Settle] sets them, and
	// Status.
	Kill func()
	Done <-chan struct{}
	// PID is its number on the host, which [Kernel.Settle] sets; 0 if it is not a process of the host.
	PID int

	taken bool // somebody uses it
}

// HandedOption precedes, among the arguments of a worker, the socket from which it takes its files. Without it, it
// inherits them.
const HandedOption = "--handed"

// ending is how long a worker that nobody else can kill at once has to end with its input.
const ending = 200 * time.Millisecond

// How waits for its end, and says how it has ended.
func (r *Resident) How() string {
	<-r.Done
	return r.Ended(r.Status())
}

// Close kills it, waits for its end and closes its standard files. It is idempotent.
func (r *Resident) Close() error {
	r.Kill()
	<-r.Done
	_ = r.In.Close()
	_ = r.Out.Close()
	return nil
}

// WorkerCommand returns the command of a worker in a container: arguments, environment and inherited files. The
// standard files are the caller's.
func (k *Kernel) WorkerCommand(container string) (*exec.Cmd, error) {
	if k.worker == nil {
		return nil, errors.New("start a worker in a container: this host has none")
	}
	return k.worker(container), nil
}

// Settle gives the host the worker of a container, and the stack of the step. It watches the process, whose number on
// the host is pid, and reads its standard error. A worker with Kill is not a process of the host: it is gone when
// nobody has its standard error open.
func (k *Kernel) Settle(container string, worker Resident, pid int, stderr *os.File) error {
	r, closed := &worker, make(chan struct{})
	r.Tail = new(process.Tail)
	if kill := r.Kill; kill != nil {
		r.Done = closed
		r.Kill = func() {
			_ = r.In.Close() // a worker ends with its input, unless it is stopped
			select {
			case <-closed:
			case <-time.After(ending):
				kill()
			}
		}
	} else {
		r.PID = pid
		found, err := os.FindProcess(pid) // from now on, another process of that number is another one
		if err != nil {
			return fmt.Errorf("find the worker of %s: %w", container, err)
		}
		r.Kill = func() { _ = found.Kill() }
		if r.Done, r.Status, err = process.Await(pid); err != nil {
			return err
		}
	}
	go func() {
		defer close(closed)
		_, _ = io.Copy(r.Tail, stderr)
		_ = stderr.Close()
	}()
	k.mu.Lock()
	if k.residents == nil {
		k.residents = map[string]*Resident{}
	}
	k.residents[container] = r
	k.mu.Unlock()
	return k.Hold(r)
}

// GroupWorkers has workers beside containers that start from now on join control groups of [cgroup.MakeLeaf], in turn.
// Without any they stay in that of their parent.
func (k *Kernel) GroupWorkers(names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.groups = names
}

// Enroll moves a worker beside containers into the next control group of [Kernel.GroupWorkers].
func (k *Kernel) Enroll(pid int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.groups) == 0 {
		return nil
	}
	next := k.groups[0]
	k.groups = append(k.groups[1:len(k.groups):len(k.groups)], next)
	return cgroup.Move(pid, next)
}

// A ContainerUse is what a container with a worker has used so far.
type ContainerUse struct {
	Name string `json:"name"`
	cgroup.Use
}

// ContainerUse asks the control groups of all containers that have workers, in the order of their names. A container
// that has ended is left out.
func (k *Kernel) ContainerUse() ([]ContainerUse, error) {
	k.mu.Lock()
	residents := maps.Clone(k.residents)
	k.mu.Unlock()
	list := []ContainerUse{}
	for _, name := range slices.Sorted(maps.Keys(residents)) {
		use, err := residents[name].Group.Use()
		select {
		case <-residents[name].Done: // its cgroups may be gone
			continue
		default:
		}
		if err != nil {
			return nil, fmt.Errorf("read the cgroup of container %s: %w", name, err)
		}
		list = append(list, ContainerUse{name, use})
	}
	return list, nil
}

// Within says whether there is a process in proc, a directory such as /proc, and whether it is in a network namespace
// of the host.
func (k *Kernel) Within(proc string, pid int, ns string) (present, within bool, err error) {
	theirs, err := netns.Open(filepath.Join(proc, strconv.Itoa(pid), "ns", "net"))
	if err != nil {
		return false, false, nil
	}
	defer theirs.Close()
	own, err := k.Open(ns)
	if err != nil {
		return true, false, err
	}
	defer own.Close()
	within, err = netns.Same(own, theirs)
	return true, within, err
}

// Resident returns the worker of a container, which is the caller's from then on.
func (k *Kernel) Resident(container string) (*Resident, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.residents[container]
	if r == nil || r.taken {
		return nil, fmt.Errorf("no worker waits in container %q", container)
	}
	r.taken = true
	return r, nil
}

package host

import (
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/nettoll/nettoll/internal/linux/process"
)

// A Resident is a worker that a runtime has started in a container. It waits there for its work.
type Resident struct {
	// In and Out are its standard input and output.
	In  io.WriteCloser
	Out io.ReadCloser
	// Tail is the end of its standard error.
	Tail *process.Tail
	// PID is the number that it has on the host.
	PID int
	// Kill ends it; it may be gone. Done is closed when it is gone.
	Kill func()
	Done <-chan struct{}
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

// Settle gives the host the worker of a container.
func (k *Kernel) Settle(container string, r *Resident) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.residents == nil {
		k.residents = map[string]*Resident{}
	}
	k.residents[container] = r
}

// Resident returns the worker of a container, which is the caller's from then on.
func (k *Kernel) Resident(container string) (*Resident, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.residents[container]
	if r == nil {
		return nil, fmt.Errorf("no worker waits in container %q", container)
	}
	delete(k.residents, container)
	return r, nil
}

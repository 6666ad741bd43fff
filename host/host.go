package host

import "context"

// A WorkerSpec describes a worker to start.
type WorkerSpec struct {
	// ID names the worker in errors and records: "source@host1".
	ID string `json:"id"`
	// CPUs is the affinity of the process, numbers as in /proc/cpuinfo. Empty means every CPU.
	CPUs []int `json:"cpus,omitempty"`
	// Container is the name of the container in which it runs; "" means next to the containers, on the host.
	Container string `json:"container,omitempty"`
}

// A Worker is a process that drives traffic for containers.
type Worker interface {
	// Call calls a method of the worker and waits for its result. A nil result discards it.
	Call(ctx context.Context, method string, params, result any) error
	// Done is closed when the process is gone.
	Done() <-chan struct{}
	// Err returns why the process is gone, with the last lines of its standard error. It is nil before Done is closed,
	// and if the worker was asked to end.
	Err() error
	// Kill ends the process and waits for it. It is idempotent.
	Kill() error
}

// A Stopper is a host or a worker that can report why it does not answer. It names the stopped process on the way of
// its calls, and what has stopped it; "" if none is stopped.
type Stopper interface {
	Stopped() string
}

// A Command is a program to run in a namespace of a host.
type Command struct {
	// Namespace is a namespace reference as in steps; "" is the host's own.
	Namespace string `json:"namespace,omitempty"`
	// Args is the program and its arguments. The program is looked up in the agent's PATH.
	Args []string `json:"args"`
	// CPUs is the affinity of the process. Empty means every CPU.
	CPUs []int `json:"cpus,omitempty"`
}

// Output is the output of a command, and how it ended.
type Output struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	// Exit is the exit status, or 128 + the number of the signal that ended the program.
	Exit int `json:"exit"`
}

package host

import "context"

// A WorkerSpec says what worker to start.
type WorkerSpec struct {
	// ID names the worker in errors and records: "source@host1".
	ID string `json:"id"`
	// CPUs is the affinity of the process, numbers as in /proc/cpuinfo. Empty means: every CPU.
	CPUs []int `json:"cpus,omitempty"`
	// Container is the name of the container in which it runs; "" is beside them, on the host.
	Container string `json:"container,omitempty"`
}

// A Worker is a process that drives traffic for containers.
type Worker interface {
	// Call calls a method of the worker and waits for its result. A nil result discards it.
	Call(ctx context.Context, method string, params, result any) error
	// Done is closed when the process is gone.
	Done() <-chan struct{}
	// Err says why the process is gone, with the last lines of its standard error. It is nil before
	// Done is closed and after an end that was asked for.
	Err() error
	// Kill ends the process and waits for it. It is idempotent.
	Kill() error
}

// A Stopper is a host or a worker that can say why it does not answer: which process that its calls take is stopped,
// and by what; "" if none is.
type Stopper interface {
	Stopped() string
}

// A Command is a program to run in a namespace of a host.
type Command struct {
	// Namespace is a namespace reference as in steps; "" is the host's own.
	Namespace string `json:"namespace,omitempty"`
	// Args is the program and its arguments. The program is looked up in the agent's PATH.
	Args []string `json:"args"`
	// CPUs is the affinity of the process. Empty means: every CPU.
	CPUs []int `json:"cpus,omitempty"`
}

// Output is what a command said, and how it ended.
type Output struct {
	Stdout []byte `json:"stdout,omitempty"`
	Stderr []byte `json:"stderr,omitempty"`
	// Exit is the exit status, or 128 + the number of the signal that ended the program.
	Exit int `json:"exit"`
}

package host

import "context"

// A Host is one container host: a place to which plans are applied and in which workers run.
// Its methods may be called from several goroutines.
type Host interface {
	// Name says which host it is: "host1", "underlay".
	Name() string
	// Apply applies all steps of p in order, on top of what was applied before. On an error what this
	// call had applied is undone again, and the error names the number and the text of the step.
	Apply(ctx context.Context, p Plan) error
	// Verify asks the kernel whether everything that was applied still stands. The error names what
	// differs, what was wanted and what was found, see [DriftError].
	Verify(ctx context.Context) error
	// Measure asks what stands for what changing it costs, and returns what all steps have to tell: see [Measurer].
	Measure(ctx context.Context) (Told, error)
	// Change lets a packet of a kind pass that what stands refuses, or refuses it again: see [Changer].
	Change(ctx context.Context, allow bool) (Change, error)
	// Told returns what all steps have to tell so far, and which programs run.
	Told(ctx context.Context) (Told, error)
	// Trace asks where packets go on from namespaces of the host, and how many were counted, see [Trace].
	Trace(ctx context.Context, q Question) (Trace, error)
	// Logs returns what the programs of the host have said, by name: the last megabyte of each.
	Logs(ctx context.Context) (map[string]string, error)
	// Undo removes everything that was applied. Undoing what is gone succeeds.
	Undo(ctx context.Context) error
	// Start starts a worker, a process of its own on the host.
	Start(ctx context.Context, w WorkerSpec) (Worker, error)
	// Exec runs a program in a namespace of the host to its end. An exit status that is not 0 is no
	// error; it is in Output.
	Exec(ctx context.Context, c Command) (Output, error)
	// Close ends everything on the host: workers, namespaces, the agent. It is idempotent.
	Close() error
}

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

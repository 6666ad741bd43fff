package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// Processes is the name of a file that workers in containers inherit: the directory of the host's processes, which
// they cannot see otherwise.
const Processes = "processes"

const (
	// machineFile is the name of the inherited file for the namespace [host.Machine].
	machineFile = "netns:machine"
	// outputLimit is the largest output of a command on each of its streams, in bytes. Both fit into one frame.
	outputLimit = 16 << 20
	// waitDelay is how long the streams of a process that has ended may be kept open by its children.
	waitDelay = 500 * time.Millisecond
	// lastKill is how long workers have to end after the end of the agent's input.
	lastKill = 500 * time.Millisecond
)

// A Config configures an agent.
type Config struct {
	// Name is the name of the host.
	Name string
	// Steps are the kinds of steps that it can apply, see [host.Decoder].
	Steps map[string]func() host.Step
	// UpdateRule updates rules of steps of these kinds, see [Host.UpdateRule]; nil if none can be updated.
	UpdateRule host.RuleUpdater
	// Check answers the question of [Host.Check]. The error says what the host lacks. nil: nothing can be checked.
	Check func(ctx context.Context, question json.RawMessage) (answer any, err error)
	// Files are the open files that it inherited, by name. Its workers inherit all except "netns:…", "journal:…" and
	// "outside:…".
	Files map[string]*os.File
	// Executable is the program of its workers; "" means the agent's own. It is started with the argument "worker" and
	// the arguments that [Args] reads.
	Executable string
}

// Serve is the main function of an agent: it answers calls until its input or ctx ends, then kills its workers and
// returns. The end of the input is not an error. Serve does not undo what was applied: that ends with the host's
// namespaces.
func Serve(ctx context.Context, in io.Reader, out io.WriteCloser, c Config) error {
	self, err := protocol.Self()
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if c.Executable == "" {
		c.Executable = "/proc/self/exe"
	}
	processes, err := os.Open("/proc")
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	defer processes.Close()
	kernel, err := host.NewKernel(host.KernelConfig{
		Files: c.Files, Journal: journal.Inherited(c.Files),
		Worker: func(container string) *exec.Cmd { return command(c, container+"@"+c.Name, container, processes) },
	})
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	defer func() { _ = kernel.Close() }() // everything is about to end
	a := &server{config: c, self: self, kernel: kernel, workers: make(map[int]*child), ready: make(chan struct{})}
	a.rpc = protocol.NewServer(in, out, protocol.Methods{
		methodCheck:       protocol.Method(a.check),
		methodEntrust:     protocol.Method(a.entrust),
		methodApply:       protocol.Method(a.apply),
		methodVerify:      protocol.Method(a.verify),
		methodMeasure:     protocol.Method(a.measure),
		methodChange:      protocol.Method(a.change),
		methodReport:      protocol.Method(a.report),
		methodUse:         protocol.Method(a.use),
		methodContainers:  protocol.Method(a.containers),
		methodKill:        protocol.Method(a.killPrograms),
		methodWithdraw:    protocol.Method(a.withdraw),
		methodRestore:     protocol.Method(a.restore),
		methodRekey:       protocol.Method(a.rekey),
		methodTrace:       protocol.Method(a.trace),
		methodWatch:       protocol.Method(a.watch),
		methodAudit:       protocol.Method(a.audit),
		methodLogs:        protocol.Method(a.logs),
		methodTimes:       protocol.Method(a.times),
		methodUndo:        protocol.Method(a.undo),
		methodKept:        protocol.Method(a.kept),
		methodRemove:      protocol.Method(a.remove),
		methodExec:        protocol.Method(a.exec),
		methodWorkerStart: protocol.Method(a.start),
		methodWorkerCall:  protocol.Method(a.call),
		methodWorkerKill:  protocol.Method(a.kill),
	})
	close(a.ready)
	err = a.rpc.Wait(ctx)
	a.killAll()
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

type server struct {
	config Config
	self   protocol.Identity
	ready  chan struct{} // closed when rpc is set
	rpc    *protocol.Server

	kernelMu sync.Mutex // one change at a time
	kernel   *host.Kernel
	stack    host.Stack

	mu      sync.Mutex // protects the fields below
	workers map[int]*child
	ended   bool // no more workers
}

type none struct{}

// check runs in the namespace of the machine if the host has that, because it looks there for what labs take from the
// machine.
func (a *server) check(ctx context.Context, question json.RawMessage) (answer any, err error) {
	if a.config.Check == nil {
		return nil, errors.New("check the host: this agent cannot check hosts")
	}
	in := ""
	if a.config.Files[machineFile] != nil {
		in = host.Machine
	}
	err = a.kernel.Do(in, func() error {
		answer, err = a.config.Check(ctx, question)
		return err
	})
	return answer, err
}

// entrust never shows the secret, not even in an error.
func (a *server) entrust(_ context.Context, p entrustParams) (none, error) {
	secret, err := host.SecretOf(p.Secret)
	if err != nil {
		return none{}, err
	}
	a.kernel.Entrust(secret)
	return none{}, nil
}

func (a *server) apply(ctx context.Context, p applyParams) (none, error) {
	plan, err := host.Decoder{Kinds: a.config.Steps}.Decode(p.Plan)
	if err != nil {
		return none{}, err
	}
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return none{}, a.stack.Apply(ctx, a.kernel, plan)
}

func (a *server) verify(ctx context.Context, _ none) (none, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return none{}, a.stack.Verify(ctx, a.kernel)
}

// costThreads is how many threads may run Go code while costs are measured: a step sends packets, waits for them and
// changes rules at the same time. With the one thread that is enough for an agent otherwise, what fed a program and
// waited for it had to wait for the sender: a rule of iptables took 18 ms instead of 4.
const costThreads = 4

func (a *server) measure(ctx context.Context, _ none) (host.Report, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(costThreads))
	if err := a.stack.MeasureCost(ctx, a.kernel); err != nil {
		return host.Report{}, err
	}
	report := a.kernel.Report()
	report.Facts = a.stack.Facts(a.kernel)
	return report, nil
}

func (a *server) change(_ context.Context, p changeParams) (host.RuleUpdate, error) {
	if a.config.UpdateRule == nil {
		return host.RuleUpdate{}, errors.New("update rule: this agent cannot update rules")
	}
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return a.stack.UpdateRule(a.kernel, p.Allow, a.config.UpdateRule)
}

func (a *server) report(context.Context, none) (host.Report, error) { return a.kernel.Report(), nil }

func (a *server) use(_ context.Context, p useParams) ([]host.ProgramUse, error) {
	return a.kernel.Use(p.Memory), nil
}

func (a *server) containers(context.Context, none) ([]host.ContainerUse, error) {
	return a.kernel.ContainerUse()
}

func (a *server) killPrograms(context.Context, none) (none, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return none{}, a.kernel.Kill()
}

func (a *server) withdraw(ctx context.Context, p applyParams) (none, error) {
	plan, err := host.Decoder{Kinds: a.config.Steps}.Decode(p.Plan)
	if err != nil {
		return none{}, err
	}
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return none{}, a.stack.Withdraw(ctx, a.kernel, plan)
}

func (a *server) restore(ctx context.Context, _ none) (none, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return none{}, a.stack.Restore(ctx, a.kernel)
}

func (a *server) rekey(ctx context.Context, p rekeyParams) (more bool, err error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return a.stack.Rekey(ctx, a.kernel, p.Stage)
}

func (a *server) trace(ctx context.Context, q host.Question) (host.Trace, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return a.stack.Trace(ctx, a.kernel, q)
}

func (a *server) watch(_ context.Context, p watchParams) (none, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	if p.Announce {
		return none{}, a.kernel.Announce()
	}
	return none{}, a.kernel.Watch()
}

func (a *server) audit(_ context.Context, p auditParams) (host.Audit, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return a.stack.Audit(a.kernel, p.All)
}

func (a *server) logs(context.Context, none) (map[string]string, error) { return a.kernel.Logs() }

func (a *server) times(context.Context, none) ([]host.StepTime, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return a.stack.Times(), nil
}

func (a *server) undo(ctx context.Context, _ none) (none, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return none{}, a.stack.Undo(ctx, a.kernel)
}

func (a *server) kept(context.Context, none) (json.RawMessage, error) {
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return json.Marshal(a.stack)
}

func (a *server) remove(ctx context.Context, kept json.RawMessage) (none, error) {
	stack, err := host.Decoder{Kinds: a.config.Steps}.Stack(kept)
	if err != nil {
		return none{}, err
	}
	a.kernelMu.Lock()
	defer a.kernelMu.Unlock()
	return none{}, stack.Undo(ctx, a.kernel)
}

// exec runs a command. Its thread is inside the namespace and waits until the command has ended, because the command
// dies with the thread.
func (a *server) exec(ctx context.Context, c host.Command) (host.Output, error) {
	if len(c.Args) == 0 {
		return host.Output{}, errors.New("exec: no program given")
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return host.Output{}, &linux.UnsupportedError{
			What: fmt.Sprintf("exec %q", c.Args[0]), Missing: fmt.Sprintf("program %q", c.Args[0]),
			Hint: "install it", Err: err,
		}
	}
	var stdout, stderr limited
	cmd := exec.CommandContext(ctx, path, c.Args[1:]...)
	cmd.Args[0] = c.Args[0]
	cmd.Env = environ(os.Environ())
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error { return process.KillGroup(cmd) }
	cmd.WaitDelay = waitDelay
	err = a.kernel.Do(c.Namespace, func() error {
		return process.RunHere(cmd, process.Options{CPUs: c.CPUs, Session: true})
	})
	out := host.Output{Stdout: stdout.data, Stderr: stderr.data}
	_, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return host.Output{}, fmt.Errorf("exec %q: %w", c.Args[0], ctx.Err())
	case stdout.full || stderr.full:
		return host.Output{}, fmt.Errorf("exec %q: its output exceeds %d bytes", c.Args[0], outputLimit)
	case err == nil, exited, errors.Is(err, exec.ErrWaitDelay):
		out.Exit = process.ExitStatus(cmd.ProcessState)
		return out, nil
	}
	return host.Output{}, fmt.Errorf("exec %q: %w", c.Args[0], err)
}

// limited keeps what is written to it, up to a limit.
type limited struct {
	data []byte
	full bool
}

func (l *limited) Write(p []byte) (int, error) {
	if len(l.data)+len(p) > outputLimit {
		l.full = true
		return 0, io.ErrShortWrite // os/exec closes the pipe: the program will notice
	}
	l.data = append(l.data, p...)
	return len(p), nil
}

// environ returns the environment without the variables for the agent alone, and with additional ones.
func environ(base []string, add ...string) []string {
	env := make([]string, 0, len(base)+len(add))
	for _, e := range base {
		if name, _, _ := strings.Cut(e, "="); name != "GOMAXPROCS" && name != "GOGC" {
			env = append(env, e)
		}
	}
	return append(env, add...)
}

// child is a worker as seen by the agent: its own child, or the resident of a container.
type child struct {
	id     string
	serial int
	rpc    *protocol.Client
	tail   *process.Tail
	end    func()        // kills the process; it may be gone
	wait   func() string // waits until the process is gone, and says how it ended
	pid    int           // 0: it is no process of this host

	done chan struct{} // closed when it is gone
	why  death         // set before done is closed

	mu    sync.Mutex
	asked bool // it was asked to end
}

func (a *server) start(ctx context.Context, p startParams) (none, error) {
	<-a.ready
	w := &child{id: p.Spec.ID, serial: p.Serial, done: make(chan struct{})}
	if err := a.admit(w, p.Spec); err != nil {
		return none{}, fmt.Errorf("start worker %q: %w", w.id, err)
	}
	within := ctx
	if p.Within > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, p.Within)
		defer cancel()
	}
	err := w.rpc.Hello(within, a.self)
	if err == nil && p.Spec.Container != "" && len(p.Spec.CPUs) > 0 { // it was started without knowing them
		err = w.rpc.Call(within, protocol.Pin, p.Spec.CPUs, nil)
	}
	if err != nil {
		doing := procfs.Doing(w.pid)
		if !errors.Is(err, protocol.ErrEnded) {
			w.kill()
		}
		<-w.done
		if w.why.Reason != "" {
			return none{}, errors.New(w.why.Reason)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return none{}, &protocol.Error{Code: codeSilent, Message: w.tail.After(doing)}
		}
		return none{}, fmt.Errorf("start worker %q: %w", w.id, err)
	}
	if ctx.Err() != nil { // the caller has given up and does not know that it exists
		w.kill()
		return none{}, ctx.Err()
	}
	return none{}, nil
}

// command returns the command of a worker beside containers, or in one, which inherits the directory of the host's
// processes.
func command(c Config, id, container string, processes *os.File) *exec.Cmd {
	cmd := &exec.Cmd{Path: c.Executable, Args: []string{"nettoll", "worker", "--name", id}}
	if container != "" {
		cmd.Args = append(cmd.Args, "--container", container)
	}
	debug := "asyncpreemptoff=1"
	if v := os.Getenv("GODEBUG"); v != "" {
		debug = v + "," + debug
	}
	cmd.Env = environ(os.Environ(), "GOGC=off", "GODEBUG="+debug)
	files := make(map[string]*os.File)
	for name, f := range c.Files {
		if !strings.HasPrefix(name, "netns:") && !strings.HasPrefix(name, journal.FilePrefix) &&
			!strings.HasPrefix(name, host.OutsidePrefix) {
			files[name] = f
		}
	}
	if container != "" {
		files[Processes] = processes
	}
	process.Pass(cmd, files)
	return cmd
}

// admit starts the process, or takes that of a container, and a goroutine that waits for its end.
func (a *server) admit(w *child, spec host.WorkerSpec) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return errors.New("the agent is shutting down")
	}
	for _, other := range a.workers {
		if other.id == w.id || other.serial == w.serial {
			return fmt.Errorf("worker %q already runs with number %d", other.id, other.serial)
		}
	}
	begin := a.spawn
	if spec.Container != "" {
		begin = a.take
	}
	if err := begin(w, spec); err != nil {
		return err
	}
	a.workers[w.serial] = w
	go func() { // a worker that no longer talks is useless
		<-w.rpc.Done()
		w.end()
	}()
	go a.reap(w)
	return nil
}

// spawn starts a worker beside the containers.
func (a *server) spawn(w *child, spec host.WorkerSpec) error {
	cmd := command(a.config, spec.ID, "", nil)
	w.tail = new(process.Tail)
	cmd.Stderr, cmd.WaitDelay = w.tail, waitDelay
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		_ = theirIn.Close()
		_ = in.Close()
		return err
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	// Threads of one session may share the weight of one of them, on all CPUs together (sched(7), autogroup): beside other
	// work a worker would get half of its CPU.
	err = process.Start(cmd, process.Options{CPUs: spec.CPUs, Session: true})
	_ = theirIn.Close()
	_ = theirOut.Close()
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return err
	}
	if err := a.kernel.Enroll(cmd.Process.Pid); err != nil { // it waits for its input, and has opened nothing yet
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // its end is expected
		_ = in.Close()
		_ = out.Close()
		return err
	}
	w.pid = cmd.Process.Pid
	w.rpc = protocol.Dial(out, in, nil)
	w.end = func() { _ = cmd.Process.Kill() }
	w.wait = func() string {
		_ = cmd.Wait() // the state has more information
		return process.Ended(cmd.ProcessState)
	}
	return nil
}

// take takes the worker of a container.
func (a *server) take(w *child, spec host.WorkerSpec) error {
	r, err := a.kernel.Resident(spec.Container)
	if err != nil {
		return err
	}
	w.tail = r.Tail
	w.pid = r.PID
	w.rpc = protocol.Dial(r.Out, r.In, nil)
	w.end = r.Kill
	w.wait = r.How
	return nil
}

// reap waits for the end of a worker and reports it to the controller.
func (a *server) reap(w *child) {
	how := w.wait()
	if err := w.rpc.Err(); err != nil && err.Error() != protocol.ErrEnded.Error() {
		how += fmt.Sprintf(" (%v)", err)
	}
	_ = w.rpc.Close() // never fails
	w.why = death{Serial: w.serial}
	w.mu.Lock()
	if !w.asked {
		w.why.Reason = w.tail.After(fmt.Sprintf("worker %q died: %s", w.id, how))
	}
	w.mu.Unlock()
	a.mu.Lock()
	delete(a.workers, w.serial)
	a.mu.Unlock()
	close(w.done)
	_ = a.rpc.Notify(notifyWorkerDied, w.why) // if nobody listens any more, nobody needs it
}

// kill ends the process, stopped or not.
func (w *child) kill() {
	w.mu.Lock()
	w.asked = true
	w.mu.Unlock()
	w.end()
}

// call relays a call and its answer without decoding them.
func (a *server) call(ctx context.Context, p callParams) (json.RawMessage, error) {
	a.mu.Lock()
	w := a.workers[p.Serial]
	a.mu.Unlock()
	if w == nil {
		return nil, &protocol.Error{Code: codeDied, Message: fmt.Sprintf("worker number %d has ended", p.Serial)}
	}
	var params any
	if len(p.Params) > 0 {
		params = p.Params
	}
	var result json.RawMessage
	err := w.rpc.Call(ctx, p.Method, params, &result)
	if !errors.Is(err, protocol.ErrEnded) {
		return result, err
	}
	w.end() // it may have closed only its input
	select {
	case <-w.done:
		return nil, w.died()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// died returns the error of a call to a worker that is gone.
func (w *child) died() error {
	data, err := json.Marshal(w.why)
	if err != nil {
		return err
	}
	return &protocol.Error{Code: codeDied, Message: w.why.Reason, Data: data}
}

func (a *server) kill(ctx context.Context, p killParams) (none, error) {
	a.mu.Lock()
	w := a.workers[p.Serial]
	a.mu.Unlock()
	if w == nil {
		return none{}, nil // it is gone
	}
	w.kill()
	select {
	case <-w.done:
		return none{}, nil
	case <-ctx.Done():
		return none{}, ctx.Err()
	}
}

// killAll ends every worker, and lets no new one start.
func (a *server) killAll() {
	a.mu.Lock()
	a.ended = true
	var all []*child
	for _, w := range a.workers {
		all = append(all, w)
	}
	a.mu.Unlock()
	for _, w := range all {
		w.kill()
	}
	timeout := time.After(lastKill)
	for _, w := range all {
		select {
		case <-w.done:
		case <-timeout:
			return // the kernel ends it when this process ends
		}
	}
}

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/protocol"
)

// killTimeout bounds [host.Worker.Kill], which has no context. A killed process may take that long to end on a busy
// CPU, as in [host.Kernel.Kill].
const killTimeout = 10 * time.Second

// Options configure a connection to an agent.
type Options struct {
	// Name is the name of the host: "host1". Errors begin with it.
	Name string
	// Why, if not nil, is called once when the connection has ended without [Host.Close]. It returns how the agent
	// ended, "signal: killed", with its last output. It must return soon.
	Why func() error
	// Stopped, if not nil, returns which process is stopped, "" if none is. It checks the agent's process, and that of
	// the worker with this ID unless the ID is "".
	Stopped func(worker string) string
}

// A Host is a host whose agent is at the other end of a connection. Its methods may be called from several goroutines.
type Host struct {
	name string
	rpc  *protocol.Client
	done chan struct{} // closed when the connection has ended and err is set
	err  error

	stopped func(worker string) string // nil if this is unknown

	mu      sync.Mutex // protects the fields below
	workers map[int]*worker
	serial  int
	closing bool
}

var (
	_ host.Worker  = (*worker)(nil)
	_ host.Stopper = (*Host)(nil)
	_ host.Stopper = (*worker)(nil)
)

// Connect returns the host whose agent is at the other end, after both have sent their hello. If that fails, conn is
// closed.
func Connect(ctx context.Context, conn io.ReadWriteCloser, o Options) (*Host, error) {
	h := &Host{name: o.Name, done: make(chan struct{}), workers: make(map[int]*worker), stopped: o.Stopped}
	self, err := protocol.Self()
	if err != nil {
		_ = conn.Close()
		return nil, h.wrap(err)
	}
	h.rpc = protocol.Dial(conn, conn, h.notified)
	go h.end(o.Why)
	if err := h.rpc.Hello(ctx, self); err != nil {
		err = h.explain(ctx, err)
		_ = h.Close() // never fails
		return nil, err
	}
	return h, nil
}

// end waits for the end of the connection and reports it to the workers.
func (h *Host) end(why func() error) {
	<-h.rpc.Done()
	h.mu.Lock()
	closing := h.closing
	h.mu.Unlock()
	err := h.rpc.Err()
	if !closing && why != nil {
		if reason := why(); reason != nil {
			err = reason
		}
	}
	if err == nil {
		err = errors.New("it closed the connection")
	}
	h.err = fmt.Errorf("host %q ended: %w", h.name, err)
	h.mu.Lock()
	all := h.workers
	h.workers = nil
	h.mu.Unlock()
	for _, w := range all {
		if closing {
			w.end(nil)
		} else {
			w.end(fmt.Errorf("worker %q died: %w", w.id, h.err))
		}
	}
	close(h.done)
}

func (h *Host) notified(method string, params json.RawMessage) {
	var d death
	if method != notifyWorkerDied || json.Unmarshal(params, &d) != nil {
		return // from a later version; hello would have failed
	}
	h.mu.Lock()
	w := h.workers[d.Serial]
	delete(h.workers, d.Serial)
	h.mu.Unlock()
	if w != nil {
		w.end(d.err())
	}
}

func (d death) err() error {
	if d.Reason == "" {
		return nil
	}
	return errors.New(d.Reason)
}

func (h *Host) wrap(err error) error { return fmt.Errorf("host %q: %w", h.name, err) }

// Stopped reports whether the agent is stopped, see [host.Stopper].
func (h *Host) Stopped() string { return h.whatStopped("") }

func (h *Host) whatStopped(worker string) string {
	if h.stopped == nil {
		return ""
	}
	return h.stopped(worker)
}

// silent adds to the error of a call that timed out which process is stopped.
func silent(err error, s host.Stopper) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if stopped := s.Stopped(); stopped != "" {
		return fmt.Errorf("%w: %s", err, stopped)
	}
	return err
}

// explain adds the name of the host to an error, why the connection ended if it did, and which process is stopped if
// the call timed out.
func (h *Host) explain(ctx context.Context, err error) error {
	if errors.Is(err, protocol.ErrEnded) {
		select {
		case <-h.done:
			return h.err
		case <-ctx.Done():
		}
	}
	return h.wrap(silent(err, h))
}

func (h *Host) call(ctx context.Context, method string, params, result any) error {
	if err := h.rpc.Call(ctx, method, params, result); err != nil {
		return h.explain(ctx, err)
	}
	return nil
}

// Name returns the name that was given to [Connect].
func (h *Host) Name() string { return h.name }

// Check asks the agent's program whether the host has what a lab or a worker needs. The question and the answer are
// JSON; a nil answer discards it. Check changes nothing.
func (h *Host) Check(ctx context.Context, question, answer any) error {
	return h.call(ctx, methodCheck, question, answer)
}

// Entrust gives the host the secret of its lab, see [host.Kernel.Derive].
func (h *Host) Entrust(ctx context.Context, s host.Secret) error {
	return h.call(ctx, methodEntrust, entrustParams{s.Reveal()}, nil)
}

// Apply applies all steps of a plan in order, in addition to the steps applied before. If a step fails, the steps of
// this call are undone, and the error has the number and the text of the step.
func (h *Host) Apply(ctx context.Context, p host.Plan) error {
	plan, err := json.Marshal(p)
	if err != nil {
		return h.wrap(err)
	}
	return h.call(ctx, methodApply, applyParams{plan}, nil)
}

// Verify checks that the kernel still has everything that was applied. The error lists the differences with the wanted
// and the found values, see [host.DriftError].
func (h *Host) Verify(ctx context.Context) error { return h.call(ctx, methodVerify, nil, nil) }

// MeasureCost measures the cost of rule updates, and returns the report of all steps: see [host.CostMeter].
func (h *Host) MeasureCost(ctx context.Context) (report host.Report, err error) {
	err = h.call(ctx, methodMeasure, nil, &report)
	return report, err
}

// UpdateRule allows a kind of packet that the rules refuse, or refuses it again: see [host.RuleUpdater].
func (h *Host) UpdateRule(ctx context.Context, allow bool) (c host.RuleUpdate, err error) {
	err = h.call(ctx, methodChange, changeParams{allow}, &c)
	return c, err
}

// Report returns what all steps have reported so far, and the running programs.
func (h *Host) Report(ctx context.Context) (report host.Report, err error) {
	err = h.call(ctx, methodReport, nil, &report)
	return report, err
}

// Use returns what the programs of the host have used so far, see [host.Kernel.Use].
func (h *Host) Use(ctx context.Context, memory bool) (list []host.ProgramUse, err error) {
	err = h.call(ctx, methodUse, useParams{memory}, &list)
	return list, err
}

// ContainerUse returns what containers with workers have used so far, see [host.Kernel.ContainerUse].
func (h *Host) ContainerUse(ctx context.Context) (list []host.ContainerUse, err error) {
	err = h.call(ctx, methodContainers, nil, &list)
	return list, err
}

// Kill kills all programs of the host, as if they had crashed.
func (h *Host) Kill(ctx context.Context) error { return h.call(ctx, methodKill, nil, nil) }

// Withdraw removes the steps of a plan, see [host.Stack.Withdraw].
func (h *Host) Withdraw(ctx context.Context, p host.Plan) error {
	plan, err := json.Marshal(p)
	if err != nil {
		return h.wrap(err)
	}
	return h.call(ctx, methodWithdraw, applyParams{plan}, nil)
}

// Restore applies the withdrawn steps again, see [host.Stack.Restore].
func (h *Host) Restore(ctx context.Context) error { return h.call(ctx, methodRestore, nil, nil) }

// Rekey renews keys, see [host.Rekeyer].
func (h *Host) Rekey(ctx context.Context, stage int) (more bool, err error) {
	err = h.call(ctx, methodRekey, rekeyParams{stage}, &more)
	return more, err
}

// Trace asks for the path of packets from namespaces of the host, and for the counters of packets, see [host.Trace].
func (h *Host) Trace(ctx context.Context, q host.Question) (t host.Trace, err error) {
	err = h.call(ctx, methodTrace, q, &t)
	return t, err
}

// Watch has the host watch its namespaces, see [host.Kernel.Watch]. With announce it goes on, and takes processes and
// sockets as they are now for known.
func (h *Host) Watch(ctx context.Context, announce bool) error {
	return h.call(ctx, methodWatch, watchParams{announce}, nil)
}

// Audit returns what has changed in the namespaces of the host since the last audit, see [host.Stack.Audit].
func (h *Host) Audit(ctx context.Context, all bool) (a host.Audit, err error) {
	err = h.call(ctx, methodAudit, auditParams{all}, &a)
	return a, err
}

// Logs returns the output of the host's programs, by name: the last megabyte of each.
func (h *Host) Logs(ctx context.Context) (logs map[string]string, err error) {
	err = h.call(ctx, methodLogs, nil, &logs)
	return logs, err
}

// Times returns when each step was applied and removed, see [host.Stack.Times].
func (h *Host) Times(ctx context.Context) (times []host.StepTime, err error) {
	err = h.call(ctx, methodTimes, nil, &times)
	return times, err
}

// Undo removes everything that was applied. It succeeds for things that are already gone.
func (h *Host) Undo(ctx context.Context) error { return h.call(ctx, methodUndo, nil, nil) }

// Kept returns, as JSON, the applied steps and what they have kept. Another agent of the host can undo the steps from
// that, see [Host.Remove].
func (h *Host) Kept(ctx context.Context) (kept json.RawMessage, err error) {
	err = h.call(ctx, methodKept, nil, &kept)
	return kept, err
}

// Remove undoes the steps of another agent, which may be gone, from the result of [Host.Kept]. It succeeds for things
// that are already gone.
func (h *Host) Remove(ctx context.Context, kept json.RawMessage) error {
	return h.call(ctx, methodRemove, kept, nil)
}

// Exec runs a program in a namespace of the host until it ends. An exit status other than 0 is not an error, but part
// of the output. A program may write up to 16 MiB to each of its streams. If it is not installed, the error is a
// [linux.UnsupportedError].
//
// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
func (h *Host) Exec(ctx context.Context, c host.Command) (host.Output, error) {
	var out host.Output
	err := h.call(ctx, methodExec, c, &out)
	return out, err
}

// Done is closed when the connection to the agent has ended.
func (h *Host) Done() <-chan struct{} { return h.done }

// Close ends the connection. The agent then ends its workers and itself. Close is idempotent.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	_ = h.rpc.Close() // never fails
	<-h.done
	return nil
}

// Start starts a worker as a separate process on the host. The worker has sent its hello when Start returns.
func (h *Host) Start(ctx context.Context, spec host.WorkerSpec) (host.Worker, error) {
	w := &worker{id: spec.ID, host: h, done: make(chan struct{})}
	h.mu.Lock()
	if h.workers == nil {
		h.mu.Unlock()
		<-h.done
		return nil, h.err
	}
	h.serial++
	w.serial = h.serial
	h.workers[w.serial] = w
	h.mu.Unlock()
	p := startParams{Serial: w.serial, Spec: spec}
	if end, ok := ctx.Deadline(); ok {
		p.Within = time.Until(end) * 4 / 5 // its answer comes in time
	}
	err := h.call(ctx, methodWorkerStart, p, nil)
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.Code == codeSilent {
		err = h.wrap(fmt.Errorf("start worker %q: %w: %s", w.id, context.DeadlineExceeded, e.Message))
	}
	if err != nil {
		h.mu.Lock()
		delete(h.workers, w.serial)
		h.mu.Unlock()
		w.end(err)
		if ctx.Err() != nil {
			go func() { _ = w.Kill() }() // it may have started nevertheless
		}
		return nil, err
	}
	return w, nil
}

// worker is a worker of a host, seen from the controller.
type worker struct {
	id     string
	serial int
	host   *Host

	once sync.Once
	done chan struct{}
	err  error // set before done is closed
}

// end records the worker's end; only the first call counts.
func (w *worker) end(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.done)
	})
}

// Call calls a method of the worker. If the worker is gone, it returns the error of Err.
func (w *worker) Call(ctx context.Context, method string, params, result any) error {
	p := callParams{Serial: w.serial, Method: method}
	if params != nil {
		var err error
		if p.Params, err = json.Marshal(params); err != nil {
			return fmt.Errorf("worker %q: encode parameters of %q: %w", w.id, method, err)
		}
	}
	err := w.host.rpc.Call(ctx, methodWorkerCall, p, result)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*protocol.Error](err); ok && e.Code == codeDied {
		var d death
		if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) == nil {
			w.end(d.err())
		}
		// Without data, the worker was already gone: the notification has the reason.
		select {
		case <-w.done:
		case <-w.host.done:
		case <-ctx.Done():
			return fmt.Errorf("worker %q: %w", w.id, silent(ctx.Err(), w))
		}
		return w.gone()
	}
	if errors.Is(err, protocol.ErrEnded) {
		select {
		case <-w.done:
			return w.gone()
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("worker %q: %w", w.id, silent(err, w))
}

// Stopped reports whether the worker is stopped, or the agent that relays its calls; see [host.Stopper].
func (w *worker) Stopped() string { return w.host.whatStopped(w.id) }

func (w *worker) gone() error {
	if err := w.Err(); err != nil {
		return err
	}
	return fmt.Errorf("worker %q was ended", w.id)
}

// Done is closed when the worker is gone.
func (w *worker) Done() <-chan struct{} { return w.done }

// Err returns why the worker is gone; nil if it is not, or if it was asked to end.
func (w *worker) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// Kill ends the worker, even one that is stopped, and waits until it is gone.
func (w *worker) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	err := w.host.rpc.Call(ctx, methodWorkerKill, killParams{w.serial}, nil)
	if err == nil || errors.Is(err, protocol.ErrEnded) {
		select {
		case <-w.done:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return fmt.Errorf("kill worker %q: %w", w.id, err)
}

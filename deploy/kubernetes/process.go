package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// running is a process of this program in a pod, which answers calls.
type running struct {
	name    string // "worker src0@host1"
	pod     string
	process *kubectl.Process
	client  *protocol.Client
	killed  atomic.Bool
	done    chan struct{}
	err     error // set before done is closed
}

var _ host.Worker = (*running)(nil)

// start starts a command of this program in a pod. It has sent its hello when start returns.
func (d *Deployment) start(ctx context.Context, name, pod string, command ...string) (*running, error) {
	self, err := protocol.Self()
	if err != nil {
		return nil, err
	}
	// The process outlives the call that starts it, unless that ends before.
	lives, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	p, err := d.client.Exec(lives, kubectl.Target{
		Namespace: d.namespace, Pod: pod, Container: containerName, Command: append([]string{binary}, command...),
	})
	if err != nil {
		end()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := &running{
		name: name, pod: pod, process: p, client: protocol.Dial(p.Stdout, p.Stdin, nil), done: make(chan struct{}),
	}
	said := make(chan string, 1)
	go func() {
		var tail process.Tail
		_, _ = io.Copy(&tail, p.Stderr) // its end is that of the process
		said <- tail.String()
	}()
	go func() {
		<-r.client.Done()
		if r.killed.Load() {
			r.process.Kill()
		}
		late := time.AfterFunc(lastWords, r.process.Kill)
		err := r.process.Wait()
		late.Stop()
		end()
		last := <-said
		if !r.killed.Load() {
			r.err = ended(name, pod, err, last)
		}
		close(r.done)
	}()
	err = r.client.Hello(ctx, self)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if errors.Is(err, protocol.ErrEnded) {
			if gone := r.gone(ctx); gone != nil { // it names the process and the pod
				_ = r.Kill()
				return nil, fmt.Errorf("%w%s", gone, d.otherImage(gone))
			}
		}
		_ = r.Kill()
		return nil, fmt.Errorf("%s: %w%s", name, err, d.otherImage(err))
	}
	return r, nil
}

// ended describes how a process ended that was not asked to.
func ended(name, pod string, err error, last string) error {
	if last != "" {
		last = "; its last lines:\n\t" + last
	}
	if err == nil { // an API server says so, too, when it loses the kubelet
		return fmt.Errorf("%s in pod %q has ended, or its node was lost%s", name, pod, last)
	}
	return fmt.Errorf("%s in pod %q: %w%s", name, pod, err, last)
}

// gone waits a moment for the end of a process whose calls fail, and returns why it ended; nil if it has not.
func (r *running) gone(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	case <-time.After(killLimit):
	}
	return nil
}

// lastWords is how long a process that does not answer any more has to say why it ended.
const lastWords = time.Second

// killLimit is how long the end of a process may take that has lost its connection.
const killLimit = 5 * time.Second

// Call implements [host.Worker].
func (r *running) Call(ctx context.Context, method string, params, result any) error {
	err := r.client.Call(ctx, method, params, result)
	if errors.Is(err, protocol.ErrEnded) {
		if gone := r.gone(ctx); gone != nil {
			return gone
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// Done implements [host.Worker].
func (r *running) Done() <-chan struct{} { return r.done }

// Err implements [host.Worker].
func (r *running) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Kill ends the connection. The process then ends by itself, unless it hangs; its pod is removed with its lab.
func (r *running) Kill() error {
	r.killed.Store(true)
	_ = r.client.Close() // never fails
	r.process.Kill()
	select {
	case <-r.done:
		return nil
	case <-time.After(killLimit):
		return fmt.Errorf("end %s in pod %q: its connection is still there after %v", r.name, r.pod, killLimit)
	}
}

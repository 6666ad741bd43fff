package worker

import (
	"context"
	"fmt"

	"github.com/nettoll/nettoll/proof"
)

// A Caller calls a method of a worker, as [host.Worker] does.
//
// [host.Worker]: https://pkg.go.dev/github.com/nettoll/nettoll/host#Worker
type Caller func(ctx context.Context, method string, params, result any) error

// Party returns the party of a container whose sockets a worker has: it plays by calls to that.
func Party(call Caller, container, namespace string) proof.Party {
	return party{call, ReachParams{container}, namespace}
}

type party struct {
	call      Caller
	of        ReachParams
	namespace string
}

// Open implements [proof.Party].
func (p party) Open(ctx context.Context, l proof.Listening) (o proof.Opened, err error) {
	return o, p.call(ctx, ReachOpen, ReachOpenParams{p.of, p.namespace, l}, &o)
}

// Send implements [proof.Party].
func (p party) Send(ctx context.Context, list []proof.Shot) (s proof.Sent, err error) {
	return s, p.call(ctx, ReachSend, ReachSendParams{p.of, list}, &s)
}

// Heard implements [proof.Party].
func (p party) Heard(ctx context.Context) (h proof.Heard, err error) {
	return h, p.call(ctx, ReachHeard, p.of, &h)
}

// Close implements [proof.Party].
func (p party) Close(ctx context.Context) error { return p.call(ctx, ReachClose, p.of, nil) }

func (w *Worker) reachOpen(p ReachOpenParams) (proof.Opened, error) {
	one := w.parties[p.Container]
	if one == nil {
		one = &proof.Plain{In: func(f func() error) error { return w.Enter(p.Namespace, f) }}
		w.parties[p.Container] = one
	}
	return one.Open(context.Background(), p.Listening)
}

// party returns that of a container, which has been opened.
func (w *Worker) party(p ReachParams) (*proof.Plain, error) {
	if one := w.parties[p.Container]; one != nil {
		return one, nil
	}
	return nil, fmt.Errorf("container %q does not listen", p.Container)
}

func (w *Worker) reachSend(p ReachSendParams) (s proof.Sent, err error) {
	one, err := w.party(p.ReachParams)
	if err != nil {
		return s, err
	}
	return one.Send(context.Background(), p.Shots)
}

func (w *Worker) reachHeard(p ReachParams) (h proof.Heard, err error) {
	one, err := w.party(p)
	if err != nil {
		return h, err
	}
	return one.Heard(context.Background())
}

func (w *Worker) reachClose(p ReachParams) (nothing, error) {
	if one := w.parties[p.Container]; one != nil {
		return nothing{}, one.Close(context.Background())
	}
	return nothing{}, nil
}

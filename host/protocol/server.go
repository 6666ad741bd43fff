package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/creachadair/jrpc2"
)

// grace is how long handlers may take to return after the connection has ended.
const grace = 100 * time.Millisecond

// A Handler answers a call. Params are the caller's parameters; nil if there were none. The result is encoded as JSON;
// a json.RawMessage is sent unchanged. The context ends when the caller gives up or the connection ends. The caller
// receives an error as an [Error].
type Handler func(ctx context.Context, params json.RawMessage) (result any, err error)

// Methods are the handlers of a server, by the names of their methods. "hello" and "cancel" belong to the protocol.
type Methods map[string]Handler

// Method makes a handler from a function with decoded parameters.
func Method[Params, Result any](f func(context.Context, Params) (Result, error)) Handler {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var p Params
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &p); err != nil {
				return nil, fmt.Errorf("decode parameters: %w", err)
			}
		}
		return f(ctx, p)
	}
}

// A Server answers the calls of one client. Its methods may be called from several goroutines.
type Server struct {
	frames *frames
	rpc    *jrpc2.Server
}

// NewServer returns a server that answers from now on. End it with [Server.Wait].
func NewServer(in io.Reader, out io.WriteCloser, methods Methods) *Server {
	s := &Server{frames: newFrames(in, out)}
	s.rpc = jrpc2.NewServer(assigner(methods), &jrpc2.ServerOptions{
		AllowPush:      true,
		DisableBuiltin: true,
		Concurrency:    math.MaxInt32, // a waiting call must not block the one that would end it
	}).Start(requests{s.frames})
	return s
}

// requests accepts only frames that are a valid request, notification or batch of them. A peer that sends anything else
// has broken the protocol. Also, jrpc2 v1.3.6 panics on a malformed notification in the last frame: it answers on a
// channel that it has already released (Server.deliver).
type requests struct{ *frames }

func (r requests) Recv() ([]byte, error) {
	body, err := r.frames.Recv()
	if err != nil {
		return nil, err
	}
	list, err := jrpc2.ParseRequests(body)
	if err != nil || len(list) == 0 {
		return nil, fmt.Errorf("read frame: not a request: %.40q", body)
	}
	for _, p := range list {
		if p.Error != nil {
			return nil, fmt.Errorf("read frame: not a request: %s: %.40q", p.Error.Message, body)
		}
		if p.Method == "" {
			return nil, fmt.Errorf("read frame: not a request: it has no method: %.40q", body)
		}
	}
	return body, nil
}

// Serve answers the calls that arrive on in until in or ctx ends. The end of in is not an error. Running handlers then
// have 100 ms to return. Both streams are closed when it returns, if they can be closed.
func Serve(ctx context.Context, in io.Reader, out io.WriteCloser, methods Methods) error {
	return NewServer(in, out, methods).Wait(ctx)
}

// Wait waits until the connection has ended, which is not an error, or ends it when ctx ends. See [Serve].
func (s *Server) Wait(ctx context.Context) error {
	// jrpc2's own Stop races with its reading loop (it sends on a channel that Stop closed). A closed channel makes the
	// loop end by itself.
	status := make(chan error, 1)
	go func() { status <- s.rpc.Wait() }()
	ended := func() error {
		select {
		case err := <-status:
			return err
		case <-time.After(grace):
			return nil // a handler that does not return
		}
	}
	var err error
	select {
	case err = <-status:
	case <-s.frames.closed: // jrpc2 has seen the end; handlers may still run
		err = ended()
	case <-ctx.Done():
		_ = s.frames.Close() // never fails
		_ = ended()          // the error is that of ctx
		err = ctx.Err()
	}
	_ = s.frames.Close()
	select {
	case <-s.frames.gone:
	case <-time.After(flush):
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Notify sends a notification to the client. It does not wait for the client to read it.
func (s *Server) Notify(method string, params any) error {
	if err := s.rpc.Notify(context.Background(), method, params); err != nil {
		return fmt.Errorf("notify %q: %w", method, err)
	}
	return nil
}

// assigner finds the handler of a method for jrpc2.
type assigner Methods

func (a assigner) Assign(_ context.Context, method string) jrpc2.Handler {
	switch method {
	case "hello":
		return func(context.Context, *jrpc2.Request) (any, error) {
			return Self()
		}
	case "cancel":
		return func(ctx context.Context, r *jrpc2.Request) (any, error) {
			var id [1]string
			if err := r.UnmarshalParams(&id); err != nil {
				return nil, err
			}
			jrpc2.ServerFromContext(ctx).CancelRequest(id[0])
			return nil, nil
		}
	}
	h, ok := a[method]
	if !ok {
		return nil
	}
	return func(ctx context.Context, r *jrpc2.Request) (any, error) {
		var params json.RawMessage
		if err := r.UnmarshalParams(&params); err != nil {
			return nil, err
		}
		result, err := h(ctx, params)
		if err != nil {
			return nil, encodeError(err)
		}
		body, encoded := result.(json.RawMessage)
		if !encoded {
			if body, err = json.Marshal(result); err != nil {
				return nil, encodeError(fmt.Errorf("encode result: %w", err))
			}
		}
		// A result that cannot be sent would leave the caller waiting.
		if most := Limit - 1024; len(body) > most {
			return nil, encodeError(fmt.Errorf("encode result: %d bytes (limit %d)", len(body), most))
		}
		return body, nil
	}
}

package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/creachadair/jrpc2"
)

// A Client calls the methods of a server. Its methods may be called from several goroutines.
type Client struct {
	rpc  *jrpc2.Client
	done chan struct{}
	err  error // set before done is closed
}

// Dial returns a client over two streams. It sends nothing yet; see [Client.Hello]. Notify, if not nil, receives the
// server's notifications one after the other; it must neither block nor use the client. Close closes both streams, if
// they can be closed.
func Dial(in io.Reader, out io.WriteCloser, notify func(method string, params json.RawMessage)) *Client {
	c := &Client{done: make(chan struct{})}
	o := &jrpc2.ClientOptions{
		OnStop: func(_ *jrpc2.Client, err error) {
			if broken(err) && err.Error() != errStopped {
				c.err = fmt.Errorf("%w: %w", ErrEnded, err)
			} else {
				c.err = ErrEnded
			}
			close(c.done)
		},
		OnCancel: func(rpc *jrpc2.Client, rsp *jrpc2.Response) {
			// The server's handler need not continue. If the connection has ended, the server knows.
			_ = rpc.Notify(context.Background(), "cancel", []string{rsp.ID()})
		},
	}
	if notify != nil {
		o.OnNotify = func(r *jrpc2.Request) {
			var params json.RawMessage
			_ = r.UnmarshalParams(&params) // into raw JSON never fails
			notify(r.Method(), params)
		}
	}
	c.rpc = jrpc2.NewClient(newFrames(in, out), o)
	return c
}

// errStopped is the text of jrpc2's error after its client's Close; the value is not exported.
const errStopped = "the client was stopped"

// Call calls a method and waits for the answer, the end of ctx, or the end of the connection ([ErrEnded]), whichever
// comes first. Params are encoded as a JSON object or array, or are nil. The answer is decoded into result; nil
// discards it. An error of the method itself is an [Error].
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	rsp, err := c.rpc.Call(ctx, method, params)
	if err == nil {
		if result == nil {
			return nil
		}
		if err := rsp.UnmarshalResult(result); err != nil {
			return fmt.Errorf("call %q: decode result: %w", method, err)
		}
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("call %q: %w", method, ctx.Err())
	}
	answer, answered := errors.AsType[*jrpc2.Error](err)
	if c.rpc.IsStopped() && (!answered || answer.Code == jrpc2.InternalError) {
		<-c.done
		return fmt.Errorf("call %q: %w", method, c.err)
	}
	if !answered {
		return fmt.Errorf("call %q: %w", method, err)
	}
	if answer.Code == jrpc2.MethodNotFound {
		return fmt.Errorf("call %q: the peer does not know this method", method)
	}
	return decodeError(answer)
}

// Hello asks the server for its identity and compares. If they differ, the error names both.
func (c *Client) Hello(ctx context.Context, self Identity) error {
	var peer Identity
	if err := c.Call(ctx, "hello", nil, &peer); err != nil {
		return err
	}
	if peer != self {
		return fmt.Errorf("hello: the peer is a different program: it is %s, this is %s", peer, self)
	}
	return nil
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended: [ErrEnded], with a cause if a frame was broken. It is nil before Done is
// closed.
func (c *Client) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Close ends the connection and fails pending calls with [ErrEnded]. It is idempotent.
func (c *Client) Close() error {
	_ = c.rpc.Close() // Err returns how the connection ended
	return nil
}

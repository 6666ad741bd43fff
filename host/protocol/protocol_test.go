package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
)

type point struct{ X, Y int }

// connect returns a client of a server with the given methods, and a channel with the error of the server when it ends.
func connect(t testing.TB, methods Methods, notify func(string, json.RawMessage)) (*Client, *Server, chan error) {
	t.Helper()
	r1, w1 := pipe(t)
	r2, w2 := pipe(t)
	s := NewServer(r1, w2, methods)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- s.Wait(ctx) }()
	c := Dial(r2, w1, notify)
	t.Cleanup(func() { _ = c.Close(); cancel() })
	return c, s, ended
}

func methods() Methods {
	return Methods{
		"swap": Method(func(_ context.Context, p point) (point, error) { return point{p.Y, p.X}, nil }),
		"raw":  func(_ context.Context, p json.RawMessage) (any, error) { return p, nil },
		"wait": func(ctx context.Context, _ json.RawMessage) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		"fail": Method(func(context.Context, struct{}) (any, error) { return nil, fmt.Errorf("step: %w", os.ErrExist) }),
		"unsupported": Method(func(context.Context, struct{}) (any, error) {
			return nil, fmt.Errorf("step 3: %w", &linux.UnsupportedError{What: "make it", Missing: "the thing", Hint: "get one"})
		}),
		"coded": Method(func(context.Context, struct{}) (any, error) {
			return nil, fmt.Errorf("so: %w", &Error{Code: 101, Message: "inner", Data: json.RawMessage(`{"a":1}`)})
		}),
		"large": Method(func(_ context.Context, n [1]int) (string, error) { return strings.Repeat("x", n[0]), nil }),
	}
}

func TestCall(t *testing.T) {
	c, _, _ := connect(t, methods(), nil)
	ctx := t.Context()
	var p point
	if err := c.Call(ctx, "swap", point{1, 2}, &p); err != nil || p != (point{2, 1}) {
		t.Errorf("swap: got %v, %v", p, err)
	}
	var raw json.RawMessage
	if err := c.Call(ctx, "raw", json.RawMessage(`{"a":[1,null]}`), &raw); err != nil || string(raw) != `{"a":[1,null]}` {
		t.Errorf("raw: got %s, %v", raw, err)
	}
	if err := c.Call(ctx, "raw", nil, &raw); err != nil || string(raw) != "null" {
		t.Errorf("raw without parameters: got %s, %v", raw, err)
	}
	if err := c.Call(ctx, "swap", nil, nil); err != nil {
		t.Errorf("swap without parameters and result: %v", err)
	}
	large := strings.Repeat("y", 5<<20)
	var back []string
	if err := c.Call(ctx, "raw", []string{large}, &back); err != nil || len(back) != 1 || back[0] != large {
		t.Errorf("%d bytes: %v", len(large), err)
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Hello(ctx, self); err != nil {
		t.Error(err)
	}

	for _, tt := range []struct {
		method string
		params any
		want   string
	}{
		{"fail", nil, "step: file already exists"},
		{"swap", []string{"a"}, "decode parameters: json: cannot unmarshal array into Go value of type protocol.point"},
		{"none", nil, `call "none": the peer does not know this method`},
		{"swap", 5, "[-32600] invalid parameters: array or object required"},
		{"large", []int{Limit}, "encode result: 67108866 bytes (limit 67107840)"},
	} {
		if err := c.Call(ctx, tt.method, tt.params, nil); text(err) != tt.want &&
			text(err) != strings.TrimPrefix(tt.want, "[-32600] ") {
			t.Errorf("%s(%v): got %q, want %q", tt.method, tt.params, text(err), tt.want)
		}
	}
	if err := c.Call(ctx, "raw", []string{strings.Repeat("x", Limit)}, nil); err == nil {
		t.Error("a call larger than a frame was sent")
	}
	if err := c.Call(ctx, "swap", point{1, 2}, &p); err != nil {
		t.Errorf("the connection did not survive errors: %v", err)
	}
}

func TestErrorsKeepTheirTypes(t *testing.T) {
	c, _, _ := connect(t, methods(), nil)
	err := c.Call(t.Context(), "unsupported", nil, nil)
	u, ok := errors.AsType[*linux.UnsupportedError](err)
	if !errors.Is(err, errors.ErrUnsupported) || !ok || u.Missing != "the thing" || u.Hint != "get one" {
		t.Errorf("unsupported: got %#v", err)
	}
	if want := "step 3: make it: not supported here: missing the thing (hint: get one)"; text(err) != want {
		t.Errorf("unsupported: got %q, want %q", err, want)
	}
	err = c.Call(t.Context(), "coded", nil, nil)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != 101 || string(e.Data) != `{"a":1}` || e.Message != "so: inner" {
		t.Errorf("coded: got %#v", err)
	}
}

func TestHelloNamesBoth(t *testing.T) {
	c, _, _ := connect(t, nil, nil)
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if len(self.Build) < 20 {
		t.Errorf("build id %q", self.Build)
	}
	err = c.Hello(t.Context(), Identity{Version: 7, Build: "other"})
	want := fmt.Sprintf("hello: the peer is a different program: it is build %q with protocol %d, this is build \"other\" "+
		"with protocol 7", self.Build, Version)
	if text(err) != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestNotify(t *testing.T) {
	got := make(chan string, 10)
	c, s, _ := connect(t, methods(), func(method string, params json.RawMessage) { got <- method + string(params) })
	if err := s.Notify("worker.died", map[string]int{"serial": 3}); err != nil {
		t.Fatal(err)
	}
	if n, want := <-got, `worker.died{"serial":3}`; n != want {
		t.Errorf("got %s, want %s", n, want)
	}
	if err := c.Call(t.Context(), "swap", nil, nil); err != nil {
		t.Error(err)
	}
}

// A call ends with its context, and the server's handler with it.
func TestCancel(t *testing.T) {
	handler := make(chan error, 1)
	c, _, _ := connect(t, Methods{"wait": func(ctx context.Context, _ json.RawMessage) (any, error) {
		<-ctx.Done()
		handler <- ctx.Err()
		return nil, ctx.Err()
	}}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	within(t, 2*time.Second, func() {
		if err := c.Call(ctx, "wait", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if err := <-handler; !errors.Is(err, context.Canceled) {
			t.Errorf("handler: got %v, want %v", err, context.Canceled)
		}
	})
}

// Many waiting calls do not block another one.
func TestCallsDoNotQueue(t *testing.T) {
	c, _, _ := connect(t, methods(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { _ = c.Call(ctx, "wait", nil, nil) })
	}
	within(t, 5*time.Second, func() {
		if err := c.Call(t.Context(), "swap", nil, nil); err != nil {
			t.Error(err)
		}
		cancel()
		wg.Wait()
	})
}

// A peer that neither reads nor answers does not block a call longer than its context, and does not block Close.
func TestHungPeer(t *testing.T) {
	_, w := pipe(t)
	r, _ := pipe(t)
	c := Dial(r, w, nil)
	within(t, 4*time.Second, func() {
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			err := c.Call(ctx, "x", []string{strings.Repeat("x", 1<<20)}, nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Call(t.Context(), "x", nil, nil); !errors.Is(err, ErrEnded) {
			t.Errorf("after close: got %v, want %v", err, ErrEnded)
		}
	})
}

// The end of the connection fails pending calls at once.
func TestEnd(t *testing.T) {
	tests := []struct {
		name string
		send string // by the peer, before it ends
		want string
	}{
		{"end", "", `call "x": the connection ended`},
		{"torn", "\x00\x00\x00\x09{", `call "x": the connection ended: read frame: incomplete: 1 of 9 bytes: unexpected EOF`},
		{"empty", "\x00\x00\x00\x00", `call "x": the connection ended: read frame: invalid length 0 (valid: 1 to 67108864)`},
		{"not JSON", "\x00\x00\x00\x01{", `call "x": the connection ended: read frame: not JSON: "{"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, toPeer := pipe(t)
			r, fromPeer := pipe(t)
			c := Dial(r, toPeer, nil)
			defer func() { _ = c.Close() }()
			go func() {
				time.Sleep(10 * time.Millisecond)
				_, _ = fromPeer.WriteString(tt.send)
				_ = fromPeer.Close()
			}()
			within(t, 2*time.Second, func() {
				err := c.Call(t.Context(), "x", nil, nil)
				if !errors.Is(err, ErrEnded) || text(err) != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				<-c.Done()
				if want := strings.TrimPrefix(tt.want, `call "x": `); text(c.Err()) != want {
					t.Errorf("got %v, want %s", c.Err(), want)
				}
			})
		})
	}
}

func TestServeEnds(t *testing.T) {
	t.Run("with its input", func(t *testing.T) {
		r, w := pipe(t)
		_, out := pipe(t)
		_ = w.Close()
		within(t, 2*time.Second, func() {
			if err := Serve(t.Context(), r, out, nil); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("with its context, handlers or not", func(t *testing.T) {
		block := make(chan struct{})
		defer close(block)
		c, _, _ := connect(t, nil, nil)
		_ = c.Close()
		r, w := pipe(t)
		_, out := pipe(t)
		_, _ = w.WriteString(encode(`{"jsonrpc":"2.0","id":1,"method":"block"}`))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		within(t, 2*time.Second, func() {
			err := Serve(ctx, r, out, Methods{
				"block": func(context.Context, json.RawMessage) (any, error) { <-block; return nil, nil },
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
		})
	})
	t.Run("with its input although a handler does not", func(t *testing.T) {
		block := make(chan struct{})
		defer close(block)
		_, out := pipe(t)
		in := strings.NewReader(encode(`{"jsonrpc":"2.0","id":1,"method":"block"}`))
		within(t, 2*time.Second, func() {
			if err := Serve(t.Context(), in, out, Methods{
				"block": func(context.Context, json.RawMessage) (any, error) { <-block; return nil, nil },
			}); err != nil {
				t.Error(err)
			}
		})
	})
	for in, want := range map[string]string{
		"\x00\x00\x00\x00": "serve: read frame: invalid length 0 (valid: 1 to 67108864)",
		encode(`5`):        `serve: read frame: not a request: request is not a JSON object: "5"`,
		encode(`[]`):       `serve: read frame: not a request: "[]"`,
		encode(`{"jsonrpc":"2.0","id":1,"result":5}`):       `serve: read frame: not a request: it has no method: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":5}"`,
		encode(`{"jsonrpc":"2.0","1d":1,"method":"hello"}`): `serve: read frame: not a request: extra fields in request: "{\"jsonrpc\":\"2.0\",\"1d\":1,\"method\":\"hello\""`,
	} {
		t.Run("with "+want, func(t *testing.T) {
			_, out := pipe(t)
			if err := Serve(t.Context(), strings.NewReader(in), out, nil); text(err) != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// FuzzServe checks that a server ends with its input, whatever the input is.
func FuzzServe(f *testing.F) {
	f.Add([]byte(encode(`{"jsonrpc":"2.0","id":1,"method":"hello"}`)))
	f.Add([]byte(encode(`[{"jsonrpc":"2.0","id":1,"method":"raw"},{"jsonrpc":"2.0","id":1,"method":"raw","params":[1]}]`)))
	f.Add([]byte(encode(`{"jsonrpc":"2.0","method":"cancel","params":["1"]}`) +
		encode(`{"jsonrpc":"2.0","id":"a","method":"wait"}`)))
	f.Add([]byte(encode(`{"jsonrpc":"2.0","id":1,"result":{}}`) + encode(`[]`) + encode(`5`) + encode(`[null,{}]`)))
	f.Add([]byte("\x00\x00\x00\x05{}"))
	f.Add([]byte(encode(`{"jsonrpc":"2.0","1d":1,"method":"hello"}`))) // jrpc2 v1.3.6 panics on it
	f.Fuzz(func(t *testing.T, in []byte) {
		within(t, 5*time.Second, func() {
			// An end and an error are both valid; a hang or a panic is not.
			_ = Serve(context.Background(), bytes.NewReader(in), discard{}, methods())
		})
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }
func (discard) Close() error                { return nil }

func BenchmarkCall(b *testing.B) {
	c, _, _ := connect(b, methods(), nil)
	for b.Loop() {
		if err := c.Call(b.Context(), "swap", point{1, 2}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

package kubectl

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// A conversation is the server's side of a program's connection, over the WebSocket library of the API server.
type conversation struct {
	*websocket.Conn
	t *testing.T
}

// receive returns the next message; nil at the end of the connection.
func (c conversation) receive() []byte {
	var message []byte
	if err := websocket.Message.Receive(c.Conn, &message); err != nil {
		return nil
	}
	return message
}

func (c conversation) send(channel byte, data []byte) {
	_ = websocket.Message.Send(c.Conn, append([]byte{channel}, data...)) // the client may be gone
}

// end reports the end of a program.
func (c conversation) end(text string) { c.send(statusChannel, []byte(text)) }

const success = `{"metadata":{},"status":"Success"}`

func exitStatus(code int) string {
	return fmt.Sprintf(`{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"%d"}]}}`, code)
}

// cat answers input with output, until the input ends.
func (c conversation) cat() {
	for {
		m := c.receive()
		if m == nil {
			return
		}
		if slices.Equal(m, []byte{closeChannel, stdinChannel}) {
			c.end(success)
			return
		}
		if m[0] != stdinChannel {
			c.t.Errorf("a message of channel %d", m[0])
		}
		c.send(stdoutChannel, m[1:])
	}
}

// program connects a client to a server that knows a protocol and plays a program.
func program(t *testing.T, protocol string, play func(conversation)) *Client {
	t.Helper()
	before := goroutines()
	var playing sync.WaitGroup
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		playing.Add(1)
		defer playing.Done()
		server := websocket.Server{
			Handshake: func(config *websocket.Config, _ *http.Request) error {
				if !slices.Contains(config.Protocol, protocol) {
					return fmt.Errorf("the client knows %q", config.Protocol)
				}
				config.Protocol = []string{protocol}
				return nil
			},
			Handler: func(conn *websocket.Conn) {
				conversation := conversation{conn, t}
				_ = websocket.Message.Send(conn, []byte{}) // the API server says so that it is connected
				play(conversation)
			},
		}
		server.ServeHTTP(w, r)
	})
	t.Cleanup(func() { // before the client is closed
		_ = c.Close()
		playing.Wait()
		soon(t, "the end of all goroutines", func() bool { return goroutines() <= before })
	})
	return c
}

// start starts a program and kills it at the end of the test.
func start(t *testing.T, c *Client, target Target) *Process {
	t.Helper()
	p, err := c.Exec(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestExecRequest(t *testing.T) {
	asked := make(chan string, 1)
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String() + " " + r.Header.Get("Sec-WebSocket-Protocol")
		refuse(w, http.StatusNotFound, "NotFound", strings.Repeat("long ", 1000)+"not found")
	})
	_, err := c.Exec(t.Context(), Target{Namespace: "n", Pod: "p", Container: "c", Command: []string{"/bin/x", "a b", "-c"}})
	if s, ok := errors.AsType[*StatusError](err); !ok || s.Code != http.StatusNotFound || !strings.HasSuffix(s.Message, "not found") ||
		!strings.HasPrefix(err.Error(), `start a program in pod "n/p": long long`) {
		t.Errorf("got %v", err)
	}
	const want = "/api/v1/namespaces/n/pods/p/exec?command=%2Fbin%2Fx&command=a+b&command=-c&container=c&stderr=true&stdin=true&" +
		"stdout=true v5.channel.k8s.io,v4.channel.k8s.io"
	if got := <-asked; got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
}

// An API server that is just starting is waited for.
func TestExecWaits(t *testing.T) {
	asked := 0
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			proxyError(w, "error dialing backend: dial tcp 192.0.2.1:6443: connect: connection refused")
			return
		}
		refuse(w, http.StatusForbidden, "Forbidden", "no")
	})
	if _, err := c.Exec(t.Context(), Target{Namespace: "n", Pod: "p"}); code(err) != http.StatusForbidden || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	c = connect(t, func(w http.ResponseWriter, r *http.Request) {
		none := func(config *websocket.Config, _ *http.Request) error { config.Protocol = nil; return nil }
		websocket.Server{Handshake: none, Handler: func(*websocket.Conn) {}}.ServeHTTP(w, r)
	})
	if _, err := c.Exec(t.Context(), Target{Namespace: "n", Pod: "p"}); err == nil || !strings.Contains(err.Error(), `protocol ""`) {
		t.Errorf("a server that knows no protocol: %v", err)
	}
}

// echo sends bytes to a program and expects them back.
func echo(t *testing.T, p *Process, n int) {
	t.Helper()
	sent := make([]byte, n)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := p.Stdin.Write(sent)
		wrote <- err
	}()
	got := make([]byte, n)
	if _, err := io.ReadFull(p.Stdout, got); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back changed", n)
	}
}

func TestExecCat(t *testing.T) {
	for _, protocol := range []string{protocol5, protocol4} {
		t.Run(protocol, func(t *testing.T) {
			c := program(t, protocol, conversation.cat)
			p := start(t, c, Target{Namespace: "n", Pod: "p"})
			for range 3 {
				echo(t, p, 10)
			}
			echo(t, p, 8<<20)
			err := p.Stdin.Close()
			if protocol == protocol4 {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("close with %s: %v", protocol, err)
				}
				p.Kill()
				if err := p.Wait(); !errors.Is(err, ErrLost) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(p.Stdout); err != nil || len(rest) > 0 {
				t.Errorf("rest %q, %v", rest, err)
			}
			if err := p.Wait(); err != nil {
				t.Error(err)
			}
			if err := p.Stdin.Close(); err != nil {
				t.Error(err)
			}
			if _, err := p.Stdin.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("write after the end: %v", err)
			}
		})
	}
}

func TestExecEnds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		play    func(conversation)
		success int
		want    string // "" for nil
		is      func(error) bool
	}{
		{"success", func(c conversation) { c.end(success) }, 0, "", nil},
		{"success is another status", func(c conversation) { c.end(exitStatus(9)) }, 9, "", nil},
		{"status", func(c conversation) { c.end(exitStatus(7)) }, 0, "exit status 7", func(err error) bool {
			e, ok := errors.AsType[*ExitError](err)
			return ok && e.Code == 7
		}},
		{"a lost kubelet is reported as success", func(c conversation) { c.end(success) }, 9, "status 0 instead of 9", lost},
		{
			"refused", func(c conversation) { c.end(`{"status":"Failure","message":"no such container","code":500}`) }, 0,
			"no such container (500)", func(err error) bool { return code(err) == 500 && !lost(err) },
		},
		{"cut", func(conversation) {}, 0, "the connection to the program is lost", lost},
		{"cut in the middle", func(c conversation) { c.end(success[:10]) }, 0, "a status that cannot be read", lost},
		{"unknown", func(c conversation) { c.end(`{"status":"Perhaps"}`) }, 0, `unknown status "Perhaps"`, lost},
		{"no status", func(c conversation) { c.end(`{"status":"Failure","reason":"NonZeroExitCode"}`) }, 0, "names none", lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := program(t, protocol5, func(c conversation) {
				c.send(stdoutChannel, []byte("out"))
				c.send(stderrChannel, []byte("err"))
				c.send(200, []byte("of the future"))
				tt.play(c)
			})
			p := start(t, c, Target{Success: tt.success})
			err := p.Wait()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || tt.is != nil && !tt.is(err) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			for want, r := range map[string]io.Reader{"out": p.Stdout, "err": p.Stderr} {
				got, readErr := io.ReadAll(r)
				if string(got) != want || lost(readErr) != lost(err) {
					t.Errorf("read %q, %v, want %q", got, readErr, want)
				}
			}
		})
	}
}

func lost(err error) bool { return errors.Is(err, ErrLost) }

// What came before the end is read after it, and a program may end while it is written to.
func TestExecOutputBeforeEnd(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 100<<10)
	c := program(t, protocol5, func(c conversation) {
		for range 100 {
			c.send(stdoutChannel, big)
		}
		c.end(success)
	})
	p := start(t, c, Target{})
	wrote := make(chan error, 1)
	go func() {
		_, err := p.Stdin.Write(make([]byte, 1<<20))
		wrote <- err
	}()
	time.Sleep(4 * short().ping) // a ping would meet a connection that the server has closed
	if got, err := io.ReadAll(p.Stdout); err != nil || len(got) != 100*len(big) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if err := <-wrote; err == nil {
		t.Error("a write to a program that has ended succeeds")
	}
}

// While nothing may be sent, a connection is not pinged, and after that it is.
func TestHush(t *testing.T) {
	c := program(t, protocol5, func(c conversation) { c.receive() })
	p := start(t, c, Target{})
	heard := func() time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.heard
	}
	quiet := 20 * short().ping
	end := time.Now().Add(quiet)
	c.Hush(quiet)
	time.Sleep(quiet / 2) // the answer to an earlier ping may come
	before := heard()
	time.Sleep(time.Until(end))
	if last := heard(); last.After(before) && last.Before(end) {
		t.Errorf("an answer came %v before anything could be sent", end.Sub(last))
	}
	soon(t, "the answer to a ping", func() bool { return heard().After(end) })
}

// Kill, the end of a context, and the end of a client end a program in whatever it is doing.
func TestExecDropped(t *testing.T) {
	for name, drop := range map[string]func(*Process, *Client, context.CancelFunc){
		"kill":   func(p *Process, _ *Client, _ context.CancelFunc) { p.Kill(); p.Kill() },
		"cancel": func(_ *Process, _ *Client, cancel context.CancelFunc) { cancel() },
		"close":  func(_ *Process, c *Client, _ context.CancelFunc) { _ = c.Close() },
	} {
		for doing, play := range map[string]func(conversation){
			"nothing": func(c conversation) { c.receive() },
			"deaf":    nil, // it takes no input
			"loud": func(c conversation) {
				for range 1000 {
					c.send(stdoutChannel, make([]byte, 100<<10))
				}
			},
		} {
			t.Run(name+" "+doing, func(t *testing.T) {
				release := make(chan struct{})
				c := program(t, protocol5, func(c conversation) {
					if doing == "deaf" {
						<-release
						return
					}
					play(c)
				})
				defer close(release)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p, err := c.Exec(ctx, Target{})
				if err != nil {
					t.Fatal(err)
				}
				wrote := make(chan error, 1)
				if doing == "deaf" {
					go func() {
						_, err := p.Stdin.Write(make([]byte, 1<<20))
						wrote <- err
					}()
				}
				time.Sleep(50 * time.Millisecond) // it is in the middle of it
				begun := time.Now()
				drop(p, c, cancel)
				if err := p.Wait(); !lost(err) || name == "cancel" && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if d := time.Since(begun); d > 10*time.Second {
					t.Errorf("it took %v", d)
				}
				if doing == "deaf" {
					if err := <-wrote; err == nil {
						t.Error("a write that nobody took succeeds")
					}
				}
				if _, err := io.Copy(io.Discard, p.Stdout); !lost(err) {
					t.Errorf("its output ends with %v", err)
				}
			})
		}
	}
}

// A program that does not read its input delays all answers to pings. Its connection is kept while the API server is
// there, and Close of the input does not wait.
func TestExecUnreadInput(t *testing.T) {
	read := make(chan struct{})
	c := program(t, protocol5, func(c conversation) {
		<-read
		c.cat()
	})
	p := start(t, c, Target{})
	sent := bytes.Repeat([]byte("0123456789"), 100<<10)
	type result struct {
		n   int
		err error
	}
	wrote := make(chan result, 1)
	go func() {
		n, err := p.Stdin.Write(sent)
		wrote <- result{n, err}
	}()
	select {
	case <-p.done:
		t.Fatalf("dropped: %v", p.Wait())
	case w := <-wrote:
		t.Fatalf("wrote %d bytes (%v) to a program that does not read", w.n, w.err)
	case <-time.After(3 * short().quiet):
	}
	if err := p.Stdin.Close(); err != nil {
		t.Error(err)
	}
	w := <-wrote
	if !errors.Is(w.err, io.ErrClosedPipe) || w.n > window || w.n < window/2 {
		t.Errorf("wrote %d bytes: %v", w.n, w.err)
	}
	close(read)
	if got, err := io.ReadAll(p.Stdout); err != nil || !bytes.Equal(got, sent[:w.n]) {
		t.Errorf("got %d bytes, want %d; %v", len(got), w.n, err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// Many small writes do not fill the socket so that pings wait.
func TestExecSmallInput(t *testing.T) {
	read := make(chan struct{})
	c := program(t, protocol5, func(c conversation) {
		<-read
		c.cat()
	})
	p := start(t, c, Target{})
	const times = 1000
	go func() {
		for range times {
			if _, err := p.Stdin.Write([]byte("x")); err != nil {
				t.Error(err)
			}
		}
		if err := p.Stdin.Close(); err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(2 * short().quiet)
	close(read)
	if got, err := io.ReadAll(p.Stdout); err != nil || len(got) != times {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// No ping comes after the end of the input: the program may end at it, and a ping that nobody reads then ends the proxy's
// connection before the program's status has passed.
func TestExecCloseAfterInput(t *testing.T) {
	c := program(t, protocol5, conversation.cat)
	for i := range 300 {
		p := start(t, c, Target{})
		closed := make(chan error, 1)
		go func() {
			_, err := p.Stdin.Write(make([]byte, window/2+i*100)) // enough to ask for room with a ping
			closed <- errors.Join(err, p.Stdin.Close())
		}()
		_, err := io.Copy(io.Discard, p.Stdout)
		if err := errors.Join(err, <-closed, p.Wait()); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// A connection without answers is lost: at once if nothing can be in the way, and if the API server is not there
// either.
func TestExecDead(t *testing.T) {
	for _, input := range []int{0, 10, 1 << 20} {
		t.Run(fmt.Sprint(input), func(t *testing.T) {
			release := make(chan struct{})
			c := program(t, protocol5, func(conversation) { <-release })
			defer close(release)
			p := start(t, c, Target{})
			wrote := make(chan error, 1)
			go func() {
				_, err := p.Stdin.Write(make([]byte, input))
				wrote <- err
			}()
			if input > 0 {
				time.Sleep(2 * short().ping)
				signalStop(t, c)
			}
			begun := time.Now()
			if err := p.Wait(); !lost(err) || !strings.Contains(err.Error(), "the API server has not answered for") {
				t.Errorf("got %v", err)
			}
			if d, most := time.Since(begun), 5*(short().ping+short().quiet+short().ask); d > most {
				t.Errorf("it took %v, want at most %v", d, most)
			}
			if err := <-wrote; lost(err) != (input > window) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// While an output is full, the connection is kept, however long nobody reads it.
func TestExecUnreadOutput(t *testing.T) {
	const n = 40
	c := program(t, protocol5, func(c conversation) {
		for range n {
			c.send(stdoutChannel, make([]byte, 100<<10))
		}
		c.end(success)
	})
	p := start(t, c, Target{})
	time.Sleep(3 * short().quiet)
	if got, err := io.ReadAll(p.Stdout); err != nil || len(got) != n*100<<10 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// An output that nobody reads must not block the reader of the other one for ever. One that is closed blocks nobody.
func TestExecStarves(t *testing.T) {
	play := func(c conversation) {
		for range 40 {
			c.send(stdoutChannel, make([]byte, 100<<10))
		}
		c.send(stderrChannel, []byte("err"))
		c.end(success)
	}
	p := start(t, program(t, protocol5, play), Target{})
	if _, err := io.ReadAll(p.Stderr); !lost(err) || !strings.Contains(err.Error(),
		"nobody has read its standard output for 500ms, and its standard error output had to wait") {
		t.Errorf("got %v", err)
	}
	c := program(t, protocol5, play)
	c.limits.ping = time.Minute // one that meets the end would end the rest of the output too
	p = start(t, c, Target{})
	if err := p.Stdout.Close(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(p.Stderr); err != nil || string(got) != "err" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := p.Stdout.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("read of a closed output: %v", err)
	}
}

// Whatever the status, it is success only if the server says so.
func FuzzEnding(f *testing.F) {
	for _, s := range []string{success, exitStatus(7), `{"status":"Failure","message":"no"}`, "{}", "", "7"} {
		f.Add([]byte(s), 0)
		f.Add([]byte(s), 7)
	}
	f.Fuzz(func(t *testing.T, text []byte, want int) {
		var s status
		readable := json.Unmarshal(text, &s) == nil
		if err := ending(text, want); err == nil && (!readable || s.Status != "Success" && want == 0) {
			t.Errorf("%q is taken for success", text)
		} else if err != nil && err.Error() == "" {
			t.Errorf("%q is an error without words", text)
		}
	})
}

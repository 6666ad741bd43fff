package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// A Target is a program to run in a container of a pod.
type Target struct {
	Namespace, Pod string
	// Container is the name of the container; "" if the pod has one only.
	Container string
	// Command is the program and its arguments. No shell reads them.
	Command []string
	// Success is the exit status of a program that has done what it should. A status other than 0 tells the end of the
	// program from a lost connection: see [Process.Wait].
	Success int
}

// Protocols of exec, and what the first byte of a message means (k8s.io/apimachinery/pkg/util/remotecommand).
const (
	protocol5 = "v5.channel.k8s.io" // it can close a channel
	protocol4 = "v4.channel.k8s.io"

	stdinChannel  = 0
	stdoutChannel = 1
	stderrChannel = 2
	statusChannel = 3
	closeChannel  = 255 // the byte behind it is the channel to close
)

// ErrLost is the error of a program whose connection was lost, so that its end is not known. It may still run.
var ErrLost = errors.New("the connection to the program is lost")

// An ExitError is the exit status of a program that did not end as [Target.Success] wants.
type ExitError struct {
	// Code is the exit status; 128 and the number of the signal for a program that was killed, as in a shell.
	Code int
}

// Error names the exit status.
func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// A Process is a program in a container, and the connection that carries its standard files. Each file may be used by
// one goroutine, and the methods by several.
type Process struct {
	// Stdin is the standard input of the program. Write returns when the bytes are on their way; if the program does not
	// read, it waits after 128 KiB and what the network holds. Close ends the input. An API server that does not know
	// v5.channel.k8s.io (before Kubernetes 1.30) cannot do that: the error is then an errors.ErrUnsupported.
	Stdin io.WriteCloser
	// Stdout and Stderr are the outputs of the program. Up to 1 MiB of each is kept for its reader. If one of them is
	// full, nothing more is received until it is read, so that the program waits in the end. If the reader of the other
	// one has then waited for a minute, the connection is dropped with [ErrLost]. Close discards what comes from then on.
	//
	// Read returns io.EOF when the program has ended, and [ErrLost] if that is not known.
	Stdout, Stderr io.ReadCloser

	client      *Client
	conn        *websocket.Conn
	pinged      <-chan struct{} // one value for a ping that was written
	protocol    string
	success     int
	in          stdin
	out, errors *output

	done chan struct{} // closed when the connection has ended
	end  error         // what Wait returns; set before

	mu    sync.Mutex
	cause error     // why this process dropped the connection
	heard time.Time // when bytes came last, or the receiver went on after it had waited for a reader
	held  bool      // the receiver waits for a reader
}

// Exec starts a program in a container. If the pod does not exist or the user may not do it, the error is a
// [StatusError]. A container or program that does not exist is found later, and reported by [Process.Wait]. An API
// server that cannot be reached is tried again as in [Client.Create]. When the context ends, the connection is dropped
// as by [Process.Kill]. Without that it lasts until the program ends.
func (c *Client) Exec(ctx context.Context, t Target) (*Process, error) {
	query := url.Values{
		"command": t.Command, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"},
	}
	if t.Container != "" {
		query.Set("container", t.Container)
	}
	at := base + "/api/v1/namespaces/" + url.PathEscape(t.Namespace) + "/pods/" + url.PathEscape(t.Pod) + "/exec?" +
		query.Encode()
	p := &Process{client: c, success: t.Success, done: make(chan struct{}), heard: time.Now()}
	err := c.persist(ctx, func() (again bool, pause time.Duration, err error) {
		p.conn, p.pinged, err = c.dial(ctx, at)
		again, pause = transient(http.MethodPost, err)
		return again, pause, err
	})
	if err != nil {
		return nil, fmt.Errorf("start a program in pod %q: %w", t.Namespace+"/"+t.Pod, err)
	}
	p.protocol = p.conn.Subprotocol()
	p.conn.SetReadLimit(-1) // messages are not kept whole
	p.out, p.errors = newOutput(), newOutput()
	p.in.begin(p)
	p.Stdin, p.Stdout, p.Stderr = &p.in, p.out, p.errors
	stop := context.AfterFunc(ctx, func() { p.drop(ctx.Err()) })
	closed := context.AfterFunc(c.life, func() { p.drop(errClosed) })
	go func() {
		defer stop()
		defer closed()
		p.receive()
	}()
	go p.keep()
	return p, nil
}

// dial opens a WebSocket. A value comes through the channel when a ping has been written.
func (c *Client) dial(ctx context.Context, at string) (*websocket.Conn, <-chan struct{}, error) {
	u := &upgrade{client: c, pinged: make(chan struct{}, 1)}
	conn, _, err := websocket.Dial(ctx, at, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: u}, Subprotocols: []string{protocol5, protocol4},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case u.err != nil:
		return nil, nil, u.err
	case err != nil:
		return nil, nil, err
	}
	if got := conn.Subprotocol(); got != protocol5 && got != protocol4 {
		_ = conn.CloseNow()
		return nil, nil, fmt.Errorf("the API server chose protocol %q (valid: %s, %s)", got, protocol5, protocol4)
	}
	return conn, u.pinged, nil
}

// upgrade is a transport that keeps the error of a request: the WebSocket library reads a kilobyte of a refusal only.
// It also tells when a ping has been written, which the library does not.
type upgrade struct {
	client *Client
	err    error
	pinged chan struct{}
}

func (u *upgrade) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := u.client.http.Transport.RoundTrip(r)
	switch {
	case err != nil:
		u.err = u.client.lost(err)
	case response.StatusCode != http.StatusSwitchingProtocols:
		defer response.Body.Close()
		u.err = u.client.refusal(response)
	}
	if u.err != nil {
		return nil, u.err
	}
	if body, ok := response.Body.(io.ReadWriteCloser); ok {
		response.Body = &upgraded{body, u.pinged}
	}
	return response, nil
}

// upgraded is a connection behind its upgrade. The library writes each frame at once if it is small.
type upgraded struct {
	io.ReadWriteCloser
	pinged chan<- struct{}
}

// pingFrame is the first byte of a ping: FIN and its opcode (RFC 6455, section 5.2).
const pingFrame = 0x89

func (u *upgraded) Write(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Write(p)
	if err == nil && len(p) > 0 && p[0] == pingFrame {
		select {
		case u.pinged <- struct{}{}:
		default: // the bytes of a message before it looked like a ping, too
		}
	}
	return n, err
}

// Wait waits until the program has ended, or the connection has. It waits also until the outputs are received, which
// somebody has to read or close. It returns
//
//   - nil if the program has ended with the status [Target.Success],
//   - an [ExitError] for another status,
//   - a [StatusError] if the program could not be started, or the API server says that it lost the program,
//   - an [ErrLost] in all other cases: the program may still run.
//
// An API server that loses the kubelet reports success nevertheless (watchErrorStream,
// k8s.io/client-go/tools/remotecommand, takes the end of the stream for it). So nil is certain only for a program
// whose [Target.Success] is not 0; for it, status 0 is an ErrLost.
func (p *Process) Wait() error {
	<-p.done
	return p.end
}

// Kill drops the connection at once. The program gets the end of its input, and no signal. Kill may be called again,
// and does nothing if the program has ended.
func (p *Process) Kill() { p.drop(errKilled) }

var errKilled = errors.New("this process dropped it")

// drop ends the connection for a reason.
func (p *Process) drop(why error) {
	p.mu.Lock()
	if p.cause == nil {
		p.cause = why
	}
	p.mu.Unlock()
	p.out.release()
	p.errors.release()
	_ = p.conn.CloseNow() // it is idempotent, and ends calls of other goroutines
}

// afterStatus is how long to wait for the end of a connection when the program's status has come, which is the last
// message: the server closes the connection then.
const afterStatus = time.Second

// receive reads messages until the connection ends.
func (p *Process) receive() {
	var last *time.Timer
	var text []byte // the status
	err := p.messages(func(part []byte) {
		text = append(text, part...)
		if last == nil {
			last = time.AfterFunc(afterStatus, func() { _ = p.conn.CloseNow() })
		}
	})
	if last != nil {
		last.Stop()
	}
	_ = p.conn.CloseNow()
	p.mu.Lock()
	cause := p.cause
	p.mu.Unlock()
	switch {
	case text != nil:
		p.end = ending(text, p.success)
	case cause != nil:
		p.end = fmt.Errorf("%w: %w", ErrLost, cause)
	default:
		p.end = fmt.Errorf("%w: %w", ErrLost, err)
	}
	over := io.EOF
	if errors.Is(p.end, ErrLost) {
		over = p.end
	}
	p.out.finish(over)
	p.errors.finish(over)
	p.in.finish(p.end)
	close(p.done)
}

// mostStatus is how many bytes a status may have. Real ones have some hundreds.
const mostStatus = 1 << 20

// messages reads messages and passes them on. It returns why there are no more.
func (p *Process) messages(status func(part []byte)) error {
	part := make([]byte, 32<<10)
	for left := mostStatus; ; {
		// The context of a read would end the connection: drop does that.
		_, message, err := p.conn.Reader(context.Background())
		if err != nil {
			return err
		}
		n, err := io.ReadFull(message, part[:1])
		if n == 0 && errors.Is(err, io.EOF) { // an empty message says that the connection is open
			p.hear()
			continue
		}
		for channel := part[0]; err == nil; {
			if n, err = message.Read(part); n == 0 {
				continue
			}
			p.hear()
			switch channel {
			case stdoutChannel:
				p.deliver(p.out, p.errors, "output", "error output", part[:n])
			case stderrChannel:
				p.deliver(p.errors, p.out, "error output", "output", part[:n])
			case statusChannel:
				n = min(n, left)
				left -= n
				status(part[:n])
			}
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
	}
}

// hear notes that the connection lives.
func (p *Process) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = time.Now()
}

// deliver gives bytes to the reader of an output, and waits for it if necessary.
func (p *Process) deliver(to, other *output, name, otherName string, part []byte) {
	if part = to.put(part); len(part) == 0 {
		return
	}
	hold := func(held bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held, p.heard = held, time.Now()
	}
	hold(true)
	defer hold(false)
	limit := p.client.limits.unread
	for len(part) > 0 {
		to.wait(limit, func() bool {
			starves := other.starved() >= limit
			if starves {
				p.drop(fmt.Errorf("nobody has read its standard %s for %v, and its standard %s had to wait", name, limit,
					otherName))
			}
			return starves
		})
		part = to.put(part)
	}
}

// ending reads the status of a program that has ended.
func ending(text []byte, success int) error {
	var s status
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%w: the API server sends a status that cannot be read: %w", ErrLost, err)
	}
	exit := 0
	switch {
	case s.Status == "Success":
	case s.Status == "Failure" && s.Reason == "NonZeroExitCode":
		for _, cause := range s.Details.Causes {
			if cause.Reason == "ExitCode" {
				exit, _ = strconv.Atoi(cause.Message)
			}
		}
		if exit == 0 {
			return fmt.Errorf("%w: the API server reports an exit status that is not 0, and names none", ErrLost)
		}
	case s.Status == "Failure":
		return s.err(http.StatusInternalServerError)
	default:
		return fmt.Errorf("%w: the API server reports the unknown status %q", ErrLost, s.Status)
	}
	switch exit {
	case success:
		return nil
	case 0:
		return fmt.Errorf("%w: the API server reports its end with status 0 instead of %d", ErrLost, success)
	}
	return &ExitError{Code: exit}
}

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/coder/websocket"
)

const (
	// window is how many bytes of input may be on their way without an answer to a ping behind them. They fit into the
	// buffer of a unix socket (net.core.wmem_default, 208 KiB), so that a ping, which the WebSocket library gives up
	// after five seconds, never waits for them.
	window = 128 << 10
	// most is the largest message of input.
	most = 32 << 10
	// overhead is what a message costs beside its bytes, in the buffer of a unix socket (struct sk_buff and its tail,
	// include/linux/skbuff.h).
	overhead = 1 << 10
)

// stdin is the standard input of a program.
type stdin struct {
	process *Process
	hurry   chan struct{} // a ping would make room in the window

	writing sync.Mutex // held while a message or a ping is written

	mu      sync.Mutex // protects what follows
	changed sync.Cond  // on mu
	sent    int64      // bytes, with overhead
	taken   int64      // of sent: what the server took before it answered a ping
	closed  bool
	over    error // the connection has ended: what Write returns
}

func (s *stdin) begin(p *Process) {
	s.process, s.hurry, s.changed.L = p, make(chan struct{}, 1), &s.mu
}

// Write sends bytes in messages of a size that leaves room for pings.
func (s *stdin) Write(p []byte) (int, error) {
	frame := make([]byte, 0, 1+min(len(p), most)) // it begins with the channel
	for n := 0; n < len(p); {
		part := p[n:min(n+most, len(p))]
		s.room(int64(len(part)) + overhead)
		frame = append(append(frame[:0], stdinChannel), part...)
		if err := s.send(frame); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// room waits for room in the window, or until nothing more may be written.
func (s *stdin) room(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.sent+n-s.taken > window && !s.closed && s.over == nil {
		s.changed.Wait()
	}
}

// send writes a message of input.
func (s *stdin) send(frame []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.count(int64(len(frame)) - 1 + overhead); err != nil {
		return err
	}
	if err := s.process.conn.Write(context.Background(), websocket.MessageBinary, frame); err != nil {
		return s.failed(err)
	}
	return nil
}

// count counts what is about to be sent. It returns an error if nothing more may be.
func (s *stdin) count(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("write to a program: %w", io.ErrClosedPipe)
	case s.over != nil:
		return s.over
	}
	s.sent += n
	s.hasten()
	return nil
}

// hasten asks for a ping if much is on its way.
func (s *stdin) hasten() {
	if s.sent-s.taken > window/2 {
		select {
		case s.hurry <- struct{}{}:
		default: // it is said already
		}
	}
}

// failed is the error of a write.
func (s *stdin) failed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	return fmt.Errorf("write to a program: %w", err)
}

// Close ends the input. A Write that waits returns.
func (s *stdin) Close() error {
	s.mu.Lock()
	before := s.closed
	s.closed = true
	over := s.over != nil
	s.changed.Broadcast()
	s.mu.Unlock()
	if before || over {
		return nil
	}
	if s.process.protocol != protocol5 {
		return fmt.Errorf("close the standard input of a program: the API server knows only %s: %w", s.process.protocol,
			errors.ErrUnsupported)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.process.conn.Write(context.Background(), websocket.MessageBinary, []byte{closeChannel, stdinChannel})
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// mark returns how much was sent, and how much of it is known to be taken.
func (s *stdin) mark() (sent, taken int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, s.taken
}

// ping sends a ping and waits for its answer, or for the end of the connection. A ping that is only for room is not
// sent behind the end of the input: nobody needs room any more, and the program may end at once.
func (s *stdin) ping(forRoom bool) error {
	answer := make(chan error, 1)
	s.writing.Lock()
	sent, _ := s.mark()
	if forRoom && s.isClosed() {
		s.writing.Unlock()
		return nil
	}
	select {
	case <-s.process.pinged: // bytes of a message that looked like a ping
	default:
	}
	go func() { answer <- s.process.conn.Ping(context.Background()) }()
	select {
	case <-s.process.pinged: // it is written, and what comes now is behind it
	case err := <-answer:
		answer <- err
	}
	s.writing.Unlock()
	err := <-answer
	if err == nil {
		s.took(sent)
		s.process.hear()
	}
	return err
}

func (s *stdin) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// took notes that the server took what was sent up to a mark.
func (s *stdin) took(mark int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = mark
	s.hasten()
	s.changed.Broadcast()
}

// finish says how the connection has ended.
func (s *stdin) finish(end error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = fmt.Errorf("write to a program that has ended: %w", io.ErrClosedPipe)
	if errors.Is(end, ErrLost) {
		s.over = fmt.Errorf("write to a program: %w", end)
	}
	s.changed.Broadcast()
}

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

	writing sync.Mutex // held while a message is written

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
	s.writing.Lock()
	defer s.writing.Unlock()
	frame := make([]byte, 0, 1+min(len(p), most)) // it begins with the channel
	for n := 0; n < len(p); {
		part := p[n:min(n+most, len(p))]
		if err := s.room(int64(len(part)) + overhead); err != nil {
			return n, err
		}
		frame = append(append(frame[:0], stdinChannel), part...)
		if err := s.process.conn.Write(context.Background(), websocket.MessageBinary, frame); err != nil {
			return n, s.failed(err)
		}
		n += len(part)
	}
	return len(p), nil
}

// room waits for room in the window, and takes it.
func (s *stdin) room(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.sent+n-s.taken > window && !s.closed && s.over == nil {
		s.changed.Wait()
	}
	switch {
	case s.closed:
		return fmt.Errorf("write to a program: %w", io.ErrClosedPipe)
	case s.over != nil:
		return s.over
	}
	s.sent += n
	if s.sent-s.taken > window/2 {
		select {
		case s.hurry <- struct{}{}:
		default: // it is said already
		}
	}
	return nil
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

// took notes that the server took what was sent up to a mark.
func (s *stdin) took(mark int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = mark
	if s.sent-s.taken > window/2 {
		select {
		case s.hurry <- struct{}{}:
		default: // it is said already
		}
	}
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

package protocol

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/creachadair/jrpc2/channel"
)

const (
	// Limit is the largest body of a frame, in bytes.
	Limit = 64 << 20
	// queueLimit is how many bytes may wait for a peer that does not read. Beyond that, the peer counts as gone.
	queueLimit = 4 * Limit
	// step is how much is allocated ahead of the bytes that have arrived.
	step = 64 << 10
	// flush is how long a closed channel still tries to send what it had accepted.
	flush = time.Second
)

// errClosed is the error of Send and Recv after Close.
var errClosed = fmt.Errorf("protocol: %w", channel.ErrClosed)

// frames is a channel.Channel. Recv and Send end at once when it is closed, whatever the streams do: each stream has
// its own goroutine, which ends with its stream.
type frames struct {
	in     io.Reader
	out    io.WriteCloser
	bodies chan frame // from the reading goroutine

	room int // bytes that may be queued

	closed chan struct{} // closed by Close
	gone   chan struct{} // closed when out has been closed

	mu      sync.Mutex // protects the fields below
	queue   [][]byte   // whole frames
	queued  int        // bytes in queue
	wake    chan struct{}
	ended   bool  // Close was called
	sendErr error // of the writing goroutine
}

type frame struct {
	body []byte
	err  error
}

func newFrames(in io.Reader, out io.WriteCloser) *frames {
	c := &frames{
		in: in, out: out, room: queueLimit,
		bodies: make(chan frame),
		closed: make(chan struct{}),
		gone:   make(chan struct{}),
		wake:   make(chan struct{}, 1),
	}
	go c.read()
	go c.write()
	return c
}

// Recv returns the next body. io.EOF means that the peer ended between two frames.
func (c *frames) Recv() ([]byte, error) {
	select {
	case <-c.closed: // first: both may be ready
		return nil, errClosed
	default:
	}
	select {
	case f := <-c.bodies:
		return f.body, f.err
	case <-c.closed:
		return nil, errClosed
	}
}

func (c *frames) read() {
	in := bufio.NewReader(c.in)
	for {
		body, err := readFrame(in)
		select {
		case c.bodies <- frame{body, err}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// readFrame reads one frame. io.EOF means that there is none; every other error means that the bytes are not a frame.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if n, err := io.ReadFull(r, head[:]); err == io.EOF {
		return nil, io.EOF // unwrapped: jrpc2 compares
	} else if err != nil {
		return nil, fmt.Errorf("read frame: incomplete: %d of 4 bytes of its length: %w", n, err)
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size == 0 || size > Limit {
		return nil, fmt.Errorf("read frame: invalid length %d (valid: 1 to %d)", size, Limit)
	}
	// Memory grows with the received data, not with the claimed length.
	body := make([]byte, min(size, step))
	for have := 0; ; {
		n, err := io.ReadFull(r, body[have:])
		have += n
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("read frame: incomplete: %d of %d bytes: %w", have, size, err)
		}
		if have == size {
			break
		}
		grown := make([]byte, min(size, 2*len(body)))
		copy(grown, body)
		body = grown
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("read frame: not JSON: %.40q", body)
	}
	return body, nil
}

// Send puts a frame into the queue; it does not wait for the peer.
func (c *frames) Send(body []byte) error {
	if len(body) == 0 || len(body) > Limit {
		return fmt.Errorf("send frame: invalid length %d (valid: 1 to %d)", len(body), Limit)
	}
	f := make([]byte, 4+len(body))
	binary.BigEndian.PutUint32(f, uint32(len(body)))
	copy(f[4:], body)

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.sendErr != nil:
		return c.sendErr
	case c.ended:
		return errClosed
	case c.queued+len(f) > c.room:
		return fmt.Errorf("send frame: the peer does not read; %d bytes are waiting", c.queued)
	}
	c.queue = append(c.queue, f)
	c.queued += len(f)
	c.signal()
	return nil
}

func (c *frames) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write sends the queued frames until the channel is closed and the queue is empty.
func (c *frames) write() {
	defer close(c.gone)
	defer func() { _ = c.out.Close() }() // the peer sees the end; an error has no receiver left
	for {
		c.mu.Lock()
		queue, ended := c.queue, c.ended
		c.queue = nil
		c.mu.Unlock()
		if len(queue) == 0 {
			if ended {
				return
			}
			<-c.wake
			continue
		}
		for _, f := range queue {
			_, err := c.out.Write(f)
			c.mu.Lock()
			c.queued -= len(f)
			if err != nil {
				c.sendErr = fmt.Errorf("%w: send frame: %w", ErrEnded, err)
				c.queue = nil
			}
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}
}

// Close ends the channel at once for its users. Frames sent before still go out if the peer reads within a second; then
// the streams are closed. It is idempotent.
func (c *frames) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	close(c.closed)
	c.signal()
	go func() {
		select {
		case <-c.gone:
		case <-time.After(flush):
			_ = c.out.Close() // ends a blocked Write
		}
		if in, ok := c.in.(io.Closer); ok {
			_ = in.Close() // ends a blocked Read; not earlier: it may be the same connection
		}
	}()
	return nil
}

// broken reports whether err is more than an end of the connection that one side wanted.
func broken(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, channel.ErrClosed)
}

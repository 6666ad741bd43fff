package kubectl

import (
	"io"
	"sync"
	"time"
)

// mostUnread is how many bytes of an output are kept for its reader.
const mostUnread = 1 << 20

// An output is what a program writes to one of its outputs, between the connection and the reader.
type output struct {
	mu      sync.Mutex
	changed sync.Cond // on mu
	kept    []byte
	end     error     // what Read returns when nothing is kept
	closed  bool      // the reader wants no more
	free    bool      // the connection was dropped: put waits for nobody
	waiting time.Time // since when Read waits; zero if it does not
}

func newOutput() *output {
	o := new(output)
	o.changed.L = &o.mu
	return o
}

// Read waits for bytes.
func (o *output) Read(to []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(to) == 0 {
		return 0, nil
	}
	for len(o.kept) == 0 && o.end == nil && !o.closed {
		if o.waiting.IsZero() {
			o.waiting = time.Now()
		}
		o.changed.Wait()
	}
	o.waiting = time.Time{}
	switch {
	case o.closed:
		return 0, io.ErrClosedPipe
	case len(o.kept) == 0:
		return 0, o.end
	}
	n := copy(to, o.kept)
	if o.kept = o.kept[n:]; len(o.kept) == 0 {
		o.kept = nil
	}
	o.changed.Broadcast()
	return n, nil
}

// Close discards what is kept and what comes.
func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.kept = true, nil
	o.changed.Broadcast()
	return nil
}

// put keeps as many bytes as there is room for, and returns the rest.
func (o *output) put(part []byte) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.free {
		return nil
	}
	n := min(len(part), mostUnread-len(o.kept))
	o.kept = append(o.kept, part[:n]...)
	o.changed.Broadcast()
	return part[n:]
}

// wait waits until there is room again. After a while, and again after each such time, it asks whether to give up.
func (o *output) wait(limit time.Duration, giveUp func() bool) {
	full := true
	for full {
		expired := false
		timer := time.AfterFunc(limit, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			expired = true
			o.changed.Broadcast()
		})
		o.mu.Lock()
		for !expired && len(o.kept) >= mostUnread && !o.closed && !o.free {
			o.changed.Wait()
		}
		full = len(o.kept) >= mostUnread && !o.closed && !o.free
		o.mu.Unlock()
		timer.Stop()
		if full && giveUp() {
			return
		}
	}
}

// starved returns how long a reader has waited; 0 if none waits.
func (o *output) starved() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting.IsZero() {
		return 0
	}
	return time.Since(o.waiting)
}

// release lets put wait for nobody, because the connection is dropped.
func (o *output) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.free = true
	o.changed.Broadcast()
}

// finish says what follows the bytes that are kept.
func (o *output) finish(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = err
	o.changed.Broadcast()
}

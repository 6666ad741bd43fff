package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/packet"
)

// A relay is in the place of the underlay's bridge.
type relay struct {
	ns      *os.File
	bridges []int // indices, set down meanwhile
	ports   []*port
	group   sync.WaitGroup

	mu      sync.Mutex
	learned map[[6]byte]*port
	lengths map[int]int                         // how many frames of each length may be messages of programs
	hook    func(from *port, frame []byte) bool // says whether a frame passes; nil: all do
	missed  uint64                              // frames that were not read, by one goroutine
	over    func() error                        // why no more is injected; nil: it is
}

// A port is one of the bridge's.
type port struct {
	link   link.Surveyed
	frames *os.File
}

// within calls f in a namespace.
func within(ns *os.File, f func(h *link.Handle) error) error {
	return netns.Do(int(ns.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	})
}

// ours wants a link to be one that nettoll has made: by others no frame may leave.
func ours(l link.Surveyed) error {
	if l.Type == "device" {
		return fmt.Errorf("%w: port %q of the underlay is a network card", attack.ErrForeign, l.Name)
	}
	return nil
}

// newRelay takes the place of all bridges of a namespace. The error is [attack.ErrForeign] if a port of theirs was not
// made for the lab. Nothing is changed then.
func newRelay(ns *os.File) (r *relay, err error) {
	r = &relay{ns: ns, learned: map[[6]byte]*port{}, lengths: map[int]int{}}
	err = within(ns, func(h *link.Handle) error {
		found, err := h.Survey()
		if err != nil {
			return err
		}
		for _, l := range found.Links {
			if l.Type == "bridge" && l.Up {
				r.bridges = append(r.bridges, l.Index)
			}
		}
		if len(r.bridges) > 1 {
			return nil
		}
		for _, l := range found.Links {
			if !slices.Contains(r.bridges, l.Master) {
				continue
			}
			if err := ours(l); err != nil {
				return err
			}
		}
		for _, l := range found.Links {
			if !slices.Contains(r.bridges, l.Master) {
				continue
			}
			p := &port{link: l}
			if p.frames, err = sock.Frames(l.Index); err != nil {
				return err
			}
			r.ports = append(r.ports, p)
		}
		return r.up(h, false)
	})
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	for _, p := range r.ports {
		r.group.Go(func() { r.serve(p) })
	}
	return r, nil
}

func (r *relay) up(h *link.Handle, up bool) error {
	var errs []error
	for _, index := range r.bridges {
		errs = append(errs, h.SetUp(index, up))
	}
	return errors.Join(errs...)
}

// close gives the bridge its place back.
func (r *relay) close() error {
	var errs []error
	for _, p := range r.ports {
		errs = append(errs, p.frames.Close())
	}
	r.group.Wait()
	if len(r.bridges) > 0 {
		errs = append(errs, within(r.ns, func(h *link.Handle) error { return r.up(h, true) }))
	}
	return errors.Join(errs...)
}

// serve passes on what a port receives.
func (r *relay) serve(p *port) {
	buf := make([]byte, 1<<16)
	for {
		n, err := p.frames.Read(buf)
		if errors.Is(err, fs.ErrClosed) {
			return
		}
		if err != nil || n < ethernet {
			continue
		}
		r.pass(p, buf[:n])
	}
}

func (r *relay) pass(from *port, frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learned[[6]byte(frame[6:12])] = from
	if message(frame) {
		r.lengths[len(frame)]++
	}
	if r.hook == nil || r.hook(from, frame) {
		r.forward(from, frame)
	}
}

// message says whether a frame may be a message of a key exchange, and not of keeping alive what is there: the shortest
// are WireGuard's response, 92 bytes of UDP, and its keepalive, 32 (type 2 and 4, section 5.4 of its paper).
func message(frame []byte) bool {
	const shortest = ethernet + header4 + udp + 92
	h := headers(frame)
	return len(frame) >= shortest && h.l4 > 0 && h.protocol != packet.ICMPv6
}

// others is how many frames that may be messages hosts have sent, but for those of a length.
func (r *relay) others(length int) (sum int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, frames := range r.lengths {
		if n != length {
			sum += frames
		}
	}
	return sum
}

// unread is how many frames of hosts the relay has not read because its queues were full.
func (r *relay) unread() (sum uint64) {
	for _, p := range r.ports {
		if n, err := sock.Missed(p.frames); err == nil { // since it was asked last
			r.missed += uint64(n)
		}
	}
	return r.missed
}

func (r *relay) forward(from *port, frame []byte) {
	if to := r.learned[[6]byte(frame[:6])]; to != nil && frame[0]&1 == 0 {
		r.write(to, frame)
		return
	}
	for _, to := range r.ports {
		if to != from {
			r.write(to, frame)
		}
	}
}

// write passes a frame on. One that is too large for the link is lost, as at a bridge.
func (r *relay) write(to *port, frame []byte) { _ = send(to.frames, frame) }

// intercept has f see each frame from now on and decide whether it passes. The frame is f's only while it runs.
func (r *relay) intercept(f func(from *port, frame []byte) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook = f
}

// to are the ports at which the receiver of a frame can be.
func (r *relay) to(frame []byte) []*port {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.learned[[6]byte(frame[:6])]; p != nil {
		return []*port{p}
	}
	from := r.learned[[6]byte(frame[6:12])]
	return slices.DeleteFunc(slices.Clone(r.ports), func(p *port) bool { return p == from })
}

const (
	// burst is how many frames are sent without a pause: a program in userspace reads its socket from a queue that has
	// room for some hundreds.
	burst = 16
	pause = 400 * time.Microsecond
)

// inject sends frames to the host that they are for. Those that are too short or too long for the link are left out,
// and not counted.
func (r *relay) inject(frames ...[]byte) (sent int, err error) {
	for _, f := range frames {
		if r.over != nil && r.over() != nil {
			return sent, r.over()
		}
		fits := true
		for _, to := range r.to(f) {
			err := send(to.frames, f)
			if errors.Is(err, syscall.EMSGSIZE) || errors.Is(err, syscall.EINVAL) {
				fits = false
			} else if err != nil {
				return sent, err
			}
		}
		if !fits {
			continue
		}
		if sent++; sent%burst == 0 {
			time.Sleep(pause)
		}
	}
	return sent, nil
}

// send sends a frame, and waits while the queue is full.
func send(f *os.File, frame []byte) error {
	const rounds = 100
	for range rounds {
		_, err := f.Write(frame)
		if !errors.Is(err, syscall.ENOBUFS) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("a queue of the underlay is full for %v", rounds*time.Millisecond)
}

// A record is the frames that passed while it was made.
type record struct {
	mu     sync.Mutex
	frames [][]byte
}

func (r *record) keep(frame []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames = append(r.frames, bytes.Clone(frame))
}

func (r *record) all() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.frames)
}

package host

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nettoll/nettoll/internal/linux/detour"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/pcapng"
	"github.com/nettoll/nettoll/internal/linux/sock"
)

// A Tap makes a host capture frames on links, from the [Trace] whose question has it until the next Trace.
type Tap struct {
	// Links are links of the host's own namespace. The tap captures frames that they receive, not those that they send.
	Links []string `json:"links"`
	// Mark is searched for in each frame.
	Mark []byte `json:"mark"`
	// Keep makes the tap keep the frames for a [Capture].
	Keep bool `json:"keep,omitempty"`
}

// A Capture holds the frames that a [Tap] has captured, as a file for Wireshark.
type Capture struct {
	PCAPNG []byte `json:"pcapng"`
	// Left is the number of frames that are not in it, because there were too many.
	Left int `json:"left,omitempty"`
}

// kept is how many bytes of frames are kept for each link: those of a proof of 40 pairs.
const kept = 8 << 20

// Frames describes captured frames of a link with the same outermost headers.
type Frames struct {
	Link string `json:"link"`
	Wire
	Count  int `json:"count"`
	Marked int `json:"marked"` // of those, frames that hold the mark
	// Longest is the length of the longest frame in bytes, with its Ethernet header (14 bytes) and without its
	// checksum.
	Longest int `json:"longest"`
}

// A Wire holds the fields of a frame's outermost headers.
type Wire struct {
	// Family is "ipv4" or "ipv6"; "" if the frame holds another protocol, such as ARP.
	Family string `json:"family,omitempty"`
	// Protocol is the number of the protocol that IP carries (IANA, Protocol Numbers); without IP, the EtherType.
	Protocol int `json:"protocol"`
	// Port is the destination port; for TCP, the lower port of both ends, which is that of the server in packets of
	// both directions. It is 0 if the protocol has no ports, or if the frame is not the first fragment.
	Port int `json:"port,omitempty"`
}

// String describes it in plain words: "UDP to port 4789".
func (w Wire) String() string {
	text, known := map[int]string{
		1: "ICMP", 2: "IGMP", 4: "IPv4", 6: "TCP", udp: "UDP", 41: "IPv6", 47: "GRE", 50: "ESP", 58: "ICMPv6",
	}[w.Protocol]
	switch {
	case w.Protocol > 0xff:
		return fmt.Sprintf("EtherType %#04x", w.Protocol)
	case !known:
		text = fmt.Sprintf("IP protocol %d", w.Protocol)
	}
	if w.Port > 0 {
		text += fmt.Sprintf(" to port %d", w.Port)
	}
	return text
}

// tap is an active [Tap].
type tap []*ear

// ear captures on one link. It reads frames at once, because without permission for a large buffer it would miss most
// of a proof.
type ear struct {
	link  string
	mark  []byte
	keep  bool
	file  *os.File
	heard map[Wire]*Frames
	all   []pcapng.Frame // if they are kept
	size  int            // of those, in bytes
	left  int            // frames that are not kept
	err   error
	ended chan struct{}
}

// retap ends the active tap, if there is one, and returns what it has captured and kept; then it begins the next one,
// if any.
func (k *Kernel) retap(next *Tap) (list []Frames, c *Capture, err error) {
	k.mu.Lock()
	last := k.tap
	k.tap = nil
	k.mu.Unlock()
	if last != nil {
		list, err = last.frames()
		if err == nil {
			c = last.capture()
		}
		err = errors.Join(err, last.Close()) // before the answer: no socket is open while trials run
	}
	if err != nil || next == nil {
		return list, c, err
	}
	open, err := k.listen(*next)
	if err != nil {
		return list, c, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tap = open
	return list, c, nil
}

// listen begins to capture on links.
func (k *Kernel) listen(t Tap) (tap, error) {
	handle, err := k.Links("")
	if err != nil {
		return nil, err
	}
	return t.listen(handle, func(f func() error) error { return k.Do("", f) })
}

// A Listening is an active [Tap] outside of any lab, in the network namespace of this process.
type Listening struct{ tap tap }

// Listen begins to capture in the network namespace of this process. It requires CAP_NET_RAW.
func (t Tap) Listen() (*Listening, error) {
	handle, err := link.Open()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	open, err := t.listen(handle, func(f func() error) error { return f() })
	if err != nil {
		return nil, err
	}
	return &Listening{open}, nil
}

// End ends it and returns what was captured.
func (l *Listening) End() ([]Frames, error) {
	list, err := l.tap.frames()
	return list, errors.Join(err, l.tap.Close())
}

// listen begins to capture; do calls a function in the network namespace of the links.
func (t Tap) listen(handle *link.Handle, do func(func() error) error) (tap, error) {
	var open tap
	for _, name := range t.Links {
		e := &ear{link: name, mark: t.Mark, keep: t.Keep, heard: map[Wire]*Frames{}, ended: make(chan struct{})}
		l, err := handle.ByName(name)
		if err == nil {
			err = do(func() (err error) {
				if e.file, err = sock.Frames(l.Index); err == nil { // a frame that a process has delayed comes twice
					err = sock.Unmarked(e.file, detour.Mark)
				}
				if err == nil && t.Keep {
					err = sock.Stamp(e.file)
				}
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen at %s: %w", name, err), open.Close())
		}
		open = append(open, e)
		go func() {
			defer close(e.ended)
			e.err = e.listen(sock.ReadStamped)
		}()
	}
	return open, nil
}

// Close ends it. The kernel waits for a grace period of RCU, of some milliseconds, when a packet socket is closed
// (packet_release, net/packet/af_packet.c): once for all of them, as they are closed at the same time.
func (t tap) Close() error {
	errs := make([]error, len(t))
	var all sync.WaitGroup
	for i, e := range t {
		all.Go(func() {
			errs[i] = e.file.Close()
			<-e.ended
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// frames returns what was captured so far. It is an error if some frames were missed, because their content is unknown.
func (t tap) frames() ([]Frames, error) {
	list := []Frames{}
	for _, e := range t {
		if err := e.end(); err != nil {
			return nil, fmt.Errorf("frames of %s: %w", e.link, err)
		}
		for _, s := range e.heard {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b Frames) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), cmp.Compare(a.Family, b.Family),
			cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	return list, nil
}

// capture returns the kept frames; nil if none are kept. The tap has ended.
func (t tap) capture() *Capture {
	var c Capture
	var links []string
	var all []pcapng.Frame
	keeps := false
	for i, e := range t {
		keeps = keeps || e.keep
		links = append(links, e.link)
		for _, f := range e.all {
			f.Link = i
			all = append(all, f)
		}
		c.Left += e.left
	}
	if !keeps {
		return nil
	}
	slices.SortStableFunc(all, func(a, b pcapng.Frame) int { return a.At.Compare(b.At) })
	c.PCAPNG = pcapng.Encode(links, all)
	return &c
}

// end reads what the socket still holds.
func (e *ear) end() error {
	if err := e.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	<-e.ended
	if err := errors.Join(e.err, e.listen(sock.TakeStamped)); err != nil {
		return err
	}
	missed, err := sock.Missed(e.file)
	if err == nil && missed > 0 {
		err = fmt.Errorf("%d of them were missed", missed)
	}
	return err
}

// listen reads frames until a deadline has passed, or there are no more.
func (e *ear) listen(read func(*os.File, []byte) (int, time.Time, error)) error {
	for frame := make([]byte, 1<<17); ; {
		n, at, err := read(e.file, frame)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		w := WireOf(frame[:n])
		s := e.heard[w]
		if s == nil {
			s = &Frames{Link: e.link, Wire: w}
			e.heard[w] = s
		}
		s.Count++
		s.Longest = max(s.Longest, n)
		if bytes.Contains(frame[:n], e.mark) {
			s.Marked++
		}
		if e.keep && e.size+n > kept {
			e.left++
		} else if e.keep {
			e.all, e.size = append(e.all, pcapng.Frame{At: at, Data: bytes.Clone(frame[:n])}), e.size+n
		}
	}
}

// Numbers of protocols (IANA, Protocol Numbers) and EtherTypes, and lengths of headers in bytes (RFC 791 section 3.1,
// RFC 8200 sections 3 and 4, IEEE 802.3).
const (
	tcp, udp                 = 6, 17
	hopByHop, fragment6      = 0, 44
	etherIPv4, etherIPv6     = 0x0800, 0x86dd
	ethernet, least4, least6 = 14, 20, 40
)

// WireOf reads the headers of an Ethernet frame. A truncated frame is read as far as it goes.
func WireOf(frame []byte) Wire {
	if len(frame) < ethernet {
		return Wire{}
	}
	w, rest := Wire{Protocol: int(binary.BigEndian.Uint16(frame[12:]))}, frame[ethernet:]
	first := true // of the fragments of its packet
	switch {
	case w.Protocol == etherIPv4 && len(rest) >= least4:
		w.Family, w.Protocol = "ipv4", int(rest[9])
		first = binary.BigEndian.Uint16(rest[6:])&0x1fff == 0
		rest = rest[min(len(rest), 4*int(rest[0]&0xf)):]
	case w.Protocol == etherIPv6 && len(rest) >= least6:
		w.Family, w.Protocol, rest = "ipv6", int(rest[6]), rest[least6:]
		for len(rest) >= 8 && (w.Protocol == hopByHop || w.Protocol == fragment6) {
			size := 8
			if w.Protocol == fragment6 {
				first = first && binary.BigEndian.Uint16(rest[2:])&^7 == 0
			} else {
				size += 8 * int(rest[1])
			}
			w.Protocol, rest = int(rest[0]), rest[min(len(rest), size):]
		}
	}
	if w.Family != "" && first && (w.Protocol == tcp || w.Protocol == udp) && len(rest) >= 4 {
		w.Port = int(binary.BigEndian.Uint16(rest[2:]))
		if w.Protocol == tcp {
			w.Port = min(w.Port, int(binary.BigEndian.Uint16(rest)))
		}
	}
	return w
}

package ruleset

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// Limits of what is sent at once. The kernel receives a transaction as one message, copies it, and checks it with the
// table locked.
const (
	maxTransaction = 256 << 20
	slack          = 4 << 10 // the kernel's overhead, and the messages around the batch
)

// send sends the messages in one transaction. If the buffer of the socket is too small, it uses several; the last one
// begins at hooked or later. It reports whether some, but not all, messages took effect.
func (b *Batch) send(hooked, most int) (some bool, placed []Placed, err error) {
	s, err := dial()
	if err != nil {
		return false, nil, err
	}
	defer s.close()
	room, err := s.room(min(len(b.buf), most) + slack)
	if err != nil {
		return false, nil, err
	}
	if room = min(room, most); len(b.buf) <= room {
		placed, err = s.transact(b, 0, len(b.buf))
		return false, placed, err
	}
	for from := 0; from < len(b.buf); {
		to := from
		for to < len(b.buf) && (to != hooked || from == hooked) {
			length := int(binary.NativeEndian.Uint32(b.buf[to:]))
			if to+length-from > room {
				break
			}
			to += length
		}
		if to == from {
			return some, placed, fmt.Errorf("a message of %d bytes, and the socket takes %d",
				binary.NativeEndian.Uint32(b.buf[from:]), room)
		}
		more, err := s.transact(b, from, to)
		if err != nil {
			return some, placed, err
		}
		some, from, placed = true, to, append(placed, more...)
	}
	return some, placed, nil
}

// socket is an nfnetlink socket.
type socket struct {
	fd  int
	buf []byte
}

// patience is how long an answer may take: the kernel sends it before the system call of the request ends.
const patience = 30 // s

func dial() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, unsupported("nfnetlink (CONFIG_NETFILTER_NETLINK)", err)
	}
	s := &socket{fd: fd, buf: make([]byte, 1<<18)}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: patience})); err != nil {
		s.close()
		return nil, fmt.Errorf("open a socket of nftables: %w", err)
	}
	return s, nil
}

func (s *socket) close() { _ = unix.Close(s.fd) }

// room requests a buffer of this many bytes, and returns the size that it got. A process without privileges in the
// machine's own user namespace gets no more than net.core.wmem_max (net/core/sock.c, SO_SNDBUFFORCE). The kernel
// doubles the requested size for its overhead, which netlink does not have.
func (s *socket) room(bytes int) (int, error) {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bytes) != nil {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bytes); err != nil {
			return 0, fmt.Errorf("make room for a transaction: %w", err)
		}
	}
	granted, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	return granted - slack, err
}

// transact sends the messages from one offset to another as a transaction. It requests an answer only to the last one.
// A message that fails is always answered, and undoes those before it (nfnetlink_rcv_batch, net/netfilter/nfnetlink.c).
func (s *socket) transact(b *Batch, from, to int) ([]Placed, error) {
	last := from
	for at, n := from, 1; at < to; n++ {
		binary.NativeEndian.PutUint32(b.buf[at+8:], uint32(n))
		last, at = at, at+int(binary.NativeEndian.Uint32(b.buf[at:]))
	}
	flags := binary.NativeEndian.Uint16(b.buf[last+6:]) | flagAcknowledge
	binary.NativeEndian.PutUint16(b.buf[last+6:], flags)
	number := binary.NativeEndian.Uint32(b.buf[last+8:])
	begin := message(nil, kindBegin, flagRequest, 0, subsystem)
	end := message(nil, kindEnd, flagRequest, 0, subsystem)
	if _, err := unix.SendmsgBuffers(s.fd, [][]byte{begin, b.buf[from:to], end}, nil,
		&unix.SockaddrNetlink{Family: unix.AF_NETLINK}, 0); err != nil {
		return nil, refused("transaction", fmt.Errorf("send a transaction of %d bytes: %w", to-from, err))
	}
	var placed []Placed
	for {
		n, err := s.receive()
		if err != nil {
			return nil, err
		}
		done := false
		err = messages(s.buf[:n], func(header, payload []byte) error {
			switch binary.NativeEndian.Uint16(header[4:]) {
			case kindError:
				code, of := -int32(binary.NativeEndian.Uint32(payload)), binary.NativeEndian.Uint32(header[8:])
				if code != 0 {
					return refused(b.what(place(b.buf, from, of)), unix.Errno(code))
				}
				done = done || of == number
			case subsystem<<8 | newRule:
				a := payload[familyHeader:]
				placed = append(placed, Placed{Chain: word(find(a, ruleChain)), Handle: handle(a)})
			}
			return nil
		})
		if err != nil || done {
			return placed, err
		}
	}
}

// handle returns the handle of a rule, from its attributes.
func handle(attributes []byte) uint64 {
	if h := find(attributes, ruleHandle); len(h) == 8 {
		return binary.BigEndian.Uint64(h)
	}
	return 0
}

// place returns the offset of the message with a sequence number; the end if there is none.
func place(buf []byte, from int, number uint32) int {
	for at := from; at < len(buf); at += int(binary.NativeEndian.Uint32(buf[at:])) {
		if binary.NativeEndian.Uint32(buf[at+8:]) == number {
			return at
		}
	}
	return len(buf)
}

// refused returns what the kernel lacks, if its error says that.
func refused(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return &linux.UnsupportedError{What: "change nftables", Missing: "CAP_NET_ADMIN", Hint: "run it as root", Err: err}
	case what == "table" && errors.Is(err, unix.ENOENT): // for a table that is to be removed
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EAFNOSUPPORT),
		errors.Is(err, unix.EPROTONOSUPPORT):
		return unsupported("what this "+what+" of nftables needs", err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func unsupported(missing string, err error) error {
	return &linux.UnsupportedError{
		What: "use nftables", Missing: missing, Hint: "load the kernel's modules for it, or use a kernel that has it",
		Err: err,
	}
}

func (s *socket) receive() (int, error) {
	for {
		n, _, err := unix.Recvfrom(s.fd, s.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read an answer of nftables: %w", err)
		}
		return n, nil
	}
}

// ask sends a request about a table and calls f with the attributes of every answer. f must not keep them.
func (s *socket) ask(kind, flags uint16, family byte, attributes []byte, f func(attributes []byte)) error {
	q := append(message(nil, subsystem<<8|kind, flagRequest|flags, family, 0), attributes...)
	binary.NativeEndian.PutUint32(q, uint32(len(q)))
	if err := unix.Sendto(s.fd, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	interrupted, done := false, false
	for !done {
		n, err := s.receive()
		if err != nil {
			return err
		}
		if err := messages(s.buf[:n], func(header, payload []byte) error {
			interrupted = interrupted || binary.NativeEndian.Uint16(header[6:])&flagInterrupted != 0
			switch binary.NativeEndian.Uint16(header[4:]) {
			case kindDone:
				done = true
			case kindError:
				done = true
				if code := -int32(binary.NativeEndian.Uint32(payload)); code != 0 {
					return unix.Errno(code)
				}
			default:
				f(payload[familyHeader:])
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if interrupted {
		return errInterrupted
	}
	return nil
}

package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sys/unix"
)

const (
	// room is how many bytes of what happens a socket keeps between two audits. The kernel takes some 800 for an entry of
	// a neighbour.
	room = 4 << 20
	// answerIn bounds the wait for the kernel's answer to a request, in s. It answers at once.
	answerIn = 5
	// tries is how often a listing is begun again during which something changed.
	tries = 20
)

// errLost says that more happened than a socket could keep.
var errLost = errors.New("more happened than the monitor could keep")

// A buffer holds a datagram: the kernel sends none that is larger (NLMSG_GOODSIZE, include/linux/netlink.h, and 32 KiB
// of listings).
type buffer [1 << 16]byte

// A conn is a netlink socket of the namespace of the thread that opened it.
type conn struct {
	fd       int
	sequence uint32
	buf      *buffer
}

// dial opens a socket for requests.
func dial(buf *buffer, protocol int) (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket %d: %w", protocol, err)
	}
	wait := unix.Timeval{Sec: answerIn}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open netlink socket %d: %w", protocol, err)
	}
	return &conn{fd: fd, buf: buf}, nil
}

// listen opens a socket that keeps what happens in groups until it is read.
func listen(buf *buffer, protocol int, groups ...int) (*conn, error) {
	c, err := dial(buf, protocol)
	if err != nil {
		return nil, err
	}
	// what is beyond the machine's limit takes CAP_NET_ADMIN there
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil {
		err = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room)
	}
	err = errors.Join(err, unix.SetNonblock(c.fd, true), unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	for _, g := range groups {
		err = errors.Join(err, unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g))
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("listen to netlink socket %d: %w", protocol, err)
	}
	return c, nil
}

func (c *conn) close() {
	if c != nil {
		_ = unix.Close(c.fd)
	}
}

// receive reads a datagram. It holds until the next call.
func (c *conn) receive() ([]byte, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf[:], unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n > len(c.buf):
			return nil, unix.ENOBUFS // the rest of it is gone
		}
		return c.buf[:n], nil
	}
}

// A message is one of netlink.
type message struct {
	kind  uint16
	flags uint16
	data  []byte // behind the header
}

// messages reads those of a datagram.
func messages(b []byte) iter.Seq[message] {
	return func(yield func(message) bool) {
		for len(b) >= unix.SizeofNlMsghdr {
			n := int(binary.NativeEndian.Uint32(b))
			if n < unix.SizeofNlMsghdr || n > len(b) {
				return
			}
			m := message{binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:]), b[unix.SizeofNlMsghdr:n]}
			if !yield(m) {
				return
			}
			b = b[min(len(b), align(n)):]
		}
	}
}

func align(n int) int { return (n + 3) &^ 3 }

// pending calls f for all that has happened since it was called last. With [errLost], something is missing.
func (c *conn) pending(f func(message)) (err error) {
	for {
		b, rerr := c.receive()
		switch {
		case errors.Is(rerr, unix.ENOBUFS):
			err = errLost // what came after it is still there
			continue
		case errors.Is(rerr, unix.EAGAIN):
			return err
		case rerr != nil:
			return errors.Join(err, fmt.Errorf("read what happened: %w", rerr))
		}
		for m := range messages(b) {
			f(m)
		}
	}
}

// errInterrupted says that something changed during a listing.
var errInterrupted = errors.New("something changed during the listing")

// dump asks for a listing and calls f for each of its messages; again if something changed meanwhile, after begin.
func (c *conn) dump(kind uint16, body []byte, begin func(), f func(message)) error {
	for range tries {
		begin()
		err := c.ask(kind, unix.NLM_F_DUMP, body, f)
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return errInterrupted
}

// ask makes a request and calls f for each message of the answer.
func (c *conn) ask(kind, flags uint16, body []byte, f func(message)) error {
	c.sequence++
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = binary.NativeEndian.AppendUint32(b, c.sequence)
	b = append(binary.NativeEndian.AppendUint32(b, 0), body...)
	if err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask the kernel: %w", err)
	}
	interrupted := false
	for {
		b, err := c.receive()
		if err != nil {
			return fmt.Errorf("read the kernel's answer: %w", err)
		}
		for m := range messages(b) {
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.kind {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if len(m.data) >= 4 {
					if e := int32(binary.NativeEndian.Uint32(m.data)); e < 0 {
						return fmt.Errorf("the kernel's answer: %w", unix.Errno(-e))
					}
				}
				if interrupted {
					return errInterrupted
				}
				return nil
			}
			f(m)
			if flags&unix.NLM_F_DUMP == 0 && flags&unix.NLM_F_ACK == 0 {
				return nil
			}
		}
	}
}

// attributes reads those of a message or of an attribute that holds others.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofNlAttr || n > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min(len(b), align(n)):]
		}
	}
}

// attribute finds one, nil where there is none.
func attribute(b []byte, kind uint16) []byte {
	for k, data := range attributes(b) {
		if k == kind {
			return data
		}
	}
	return nil
}

// from is what is behind a header, nil if there is less.
func from(b []byte, header int) []byte {
	if len(b) < header {
		return nil
	}
	return b[header:]
}

// text is an attribute of characters.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// u32 is an attribute of four bytes in the byte order of the machine, 0 for another one.
func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// number says an attribute whose meaning is not known here.
func number(b []byte) string {
	switch len(b) {
	case 1:
		return fmt.Sprint(b[0])
	case 2:
		return fmt.Sprint(binary.NativeEndian.Uint16(b))
	case 4:
		return fmt.Sprint(binary.NativeEndian.Uint32(b))
	}
	return fmt.Sprintf("%x", b)
}

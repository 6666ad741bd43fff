package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// Attributes without names in the library, and states of a connection
// (include/uapi/linux/netfilter/nfnetlink_conntrack.h, nf_conntrack_common.h).
const (
	ctaStatus     = 3
	ctaNATSrc     = 6
	ctaMark       = 8
	ctaMarkMask   = 21
	ctaStatusMask = 26
	ctaMinIP      = 1
	ctaMaxIP      = 2

	ctGetStats      = 5 // IPCTNL_MSG_CT_GET_STATS
	ctaStatsEntries = 1 // CTA_STATS_GLOBAL_ENTRIES

	answered  = 1 << 1 // IPS_SEEN_REPLY
	assured   = 1 << 2 // IPS_ASSURED: it is not evicted when the table is full
	confirmed = 1 << 3 // IPS_CONFIRMED: it is in the table; the kernel always sets it
)

const (
	subsystem = unix.NFNL_SUBSYS_CTNETLINK << 8
	answerIn  = 30 * time.Second // the kernel answers in milliseconds; without a limit, a lost answer would hang an agent
	atOnce    = 128              // connections in one message to the kernel
	headSize  = 4                // struct nfgenmsg
)

// A conn is a netlink socket.
type conn struct {
	fd       int
	sequence uint32
	buf      [1 << 16]byte
}

func dial() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, explain("open netfilter socket", err)
	}
	wait := unix.NsecToTimeval(answerIn.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		_ = unix.Close(fd)
		return nil, explain("open netfilter socket", err)
	}
	return &conn{fd: fd}, nil
}

func (c *conn) close() { _ = unix.Close(c.fd) }

// begin appends the headers of a message; end writes its length.
func (c *conn) begin(b []byte, kind, flags uint16, family byte) []byte {
	c.sequence++
	b = append(b, 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, subsystem|kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = binary.NativeEndian.AppendUint32(b, c.sequence)
	b = append(b, 0, 0, 0, 0)
	return append(b, family, unix.NFNETLINK_V0, 0, 0)
}

func end(b []byte, from int) []byte {
	binary.NativeEndian.PutUint32(b[from:], uint32(len(b)-from))
	return b
}

// attribute appends an attribute, padded to four bytes.
func attribute(b []byte, kind uint16, data ...byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, data...)
	for len(b)%unix.NLA_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

func number(b []byte, kind uint16, n uint32) []byte {
	return attribute(b, kind, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// nest appends an attribute that contains attributes; nested writes its length.
func nest(b []byte, kind uint16) (_ []byte, from int) {
	return attribute(b, unix.NLA_F_NESTED|kind), len(b)
}

func nested(b []byte, from int) []byte {
	binary.NativeEndian.PutUint16(b[from:], uint16(len(b)-from))
	return b
}

// tuple appends one direction of a UDP connection.
func tuple(b []byte, kind uint16, w Way) []byte {
	source, destination := w.Source.Port(), w.Destination.Port()
	b, whole := nest(b, kind)
	b, part := nest(b, nl.CTA_TUPLE_IP)
	if w.Source.Addr().Is4() {
		from, to := w.Source.Addr().As4(), w.Destination.Addr().As4()
		b = attribute(b, nl.CTA_IP_V4_SRC, from[:]...)
		b = attribute(b, nl.CTA_IP_V4_DST, to[:]...)
	} else {
		from, to := w.Source.Addr().As16(), w.Destination.Addr().As16()
		b = attribute(b, nl.CTA_IP_V6_SRC, from[:]...)
		b = attribute(b, nl.CTA_IP_V6_DST, to[:]...)
	}
	b = nested(b, part)
	b, part = nest(b, nl.CTA_TUPLE_PROTO)
	b = attribute(b, nl.CTA_PROTO_NUM, unix.IPPROTO_UDP)
	b = attribute(b, nl.CTA_PROTO_SRC_PORT, byte(source>>8), byte(source))
	b = nested(attribute(b, nl.CTA_PROTO_DST_PORT, byte(destination>>8), byte(destination)), part)
	return nested(b, whole)
}

// Fill makes the connections. They are translated as by a rule: the kernel chooses the ports of answers. After an
// error, the connections that were made stay: remove them with [Flush].
func Fill(f Filling) error {
	what := fmt.Sprintf("track %d connections", f.Count)
	if err := f.Check(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	var buf []byte
	public := f.Public.As4()
	for i := range f.Count {
		flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
		last := i == f.Count-1 || i%atOnce == atOnce-1
		if last {
			flags |= unix.NLM_F_ACK
		}
		start := len(buf)
		source, destination := ports(i)
		buf = c.begin(buf, nl.IPCTNL_MSG_CT_NEW, flags, unix.AF_INET)
		from, to := netip.AddrPortFrom(f.Source, source), netip.AddrPortFrom(f.Destination, destination)
		buf = tuple(buf, nl.CTA_TUPLE_ORIG, Way{from, to})
		buf = tuple(buf, nl.CTA_TUPLE_REPLY, Way{to, from})
		var at int
		buf, at = nest(buf, ctaNATSrc)
		buf = nested(attribute(attribute(buf, ctaMinIP, public[:]...), ctaMaxIP, public[:]...), at)
		buf = number(buf, ctaStatus, answered|assured|confirmed)
		buf = number(buf, nl.CTA_TIMEOUT, uint32(f.Timeout.Seconds()))
		buf = end(number(buf, ctaMark, f.Mark), start)
		if !last {
			continue
		}
		if err := c.exchange(buf, nil); err != nil {
			return explain(what, err)
		}
		buf = buf[:0]
	}
	return nil
}

// Flush removes the connections with a mark; 0 means the unmarked ones.
func Flush(mark uint32) error {
	return explain(fmt.Sprintf("forget tracked connections with the mark %#x", mark), flush(func(b []byte) []byte {
		return number(number(b, ctaMark, mark), ctaMarkMask, 1<<32-1)
	}))
}

// FlushUnassured removes the connections that the kernel drops for others when the table is full (early_drop and
// gc_worker in nf_conntrack_core.c). Linux before 5.18 removes all.
func FlushUnassured() error {
	return explain("forget tracked connections that are not assured", flush(func(b []byte) []byte {
		return number(number(b, ctaStatus, 0), ctaStatusMask, assured)
	}))
}

// Forget removes a UDP connection by its original direction, if it is there.
func Forget(w Way) error {
	family := byte(unix.AF_INET)
	if w.Source.Addr().Is6() {
		family = unix.AF_INET6
	}
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	b := c.begin(nil, nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, family)
	if err = c.exchange(end(tuple(b, nl.CTA_TUPLE_ORIG, w), 0), nil); errors.Is(err, unix.ENOENT) {
		return nil
	}
	return explain("forget a tracked connection", err)
}

// flush removes the connections that match the attributes that filter appends.
func flush(filter func([]byte) []byte) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.close()
	return c.exchange(end(filter(c.begin(nil, nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, unix.AF_UNSPEC)), 0), nil)
}

// Count returns the number of connections with that mark.
func Count(mark uint32) (int, error) {
	c, err := dial()
	if err != nil {
		return 0, err
	}
	defer c.close()
	b := c.begin(nil, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, unix.AF_UNSPEC)
	n := 0
	err = c.exchange(end(number(number(b, ctaMark, mark), ctaMarkMask, 1<<32-1), 0), func(kind uint16, _ []byte) {
		if kind == nl.IPCTNL_MSG_CT_NEW {
			n++
		}
	})
	return n, explain("count tracked connections", err)
}

// Total returns the number of all connections in the table. It is cheap.
func Total() (int, error) {
	c, err := dial()
	if err != nil {
		return 0, err
	}
	defer c.close()
	n := 0
	b := c.begin(nil, ctGetStats, unix.NLM_F_ACK, unix.AF_UNSPEC)
	err = c.exchange(end(b, 0), func(kind uint16, body []byte) {
		if data := inside(body, ctaStatsEntries); kind == ctGetStats && len(data) == 4 {
			n = int(binary.BigEndian.Uint32(data))
		}
	})
	return n, explain("count tracked connections", err)
}

// List returns all connections in the table.
func List() ([]Flow, error) {
	c, err := dial()
	if err != nil {
		return nil, err
	}
	defer c.close()
	var list []Flow
	b := c.begin(nil, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, unix.AF_UNSPEC)
	err = c.exchange(end(b, 0), func(kind uint16, body []byte) {
		if kind != nl.IPCTNL_MSG_CT_NEW {
			return
		}
		var f Flow
		f.Original, f.Protocol = way(inside(body, nl.CTA_TUPLE_ORIG))
		f.Reply, _ = way(inside(body, nl.CTA_TUPLE_REPLY))
		if data := inside(body, ctaStatus); len(data) == 4 {
			f.Answered = binary.BigEndian.Uint32(data)&answered != 0
		}
		list = append(list, f)
	})
	return list, explain("list tracked connections", err)
}

// way reads one direction of a connection.
func way(b []byte) (w Way, protocol uint8) {
	ip, l4 := inside(b, nl.CTA_TUPLE_IP), inside(b, nl.CTA_TUPLE_PROTO)
	source, destination := inside(ip, nl.CTA_IP_V4_SRC), inside(ip, nl.CTA_IP_V4_DST)
	if source == nil {
		source, destination = inside(ip, nl.CTA_IP_V6_SRC), inside(ip, nl.CTA_IP_V6_DST)
	}
	end := func(address []byte, kind uint16) netip.AddrPort {
		a, _ := netip.AddrFromSlice(address)
		var port uint16
		if data := inside(l4, kind); len(data) == 2 {
			port = binary.BigEndian.Uint16(data)
		}
		return netip.AddrPortFrom(a, port)
	}
	if data := inside(l4, nl.CTA_PROTO_NUM); len(data) > 0 {
		protocol = data[0]
	}
	return Way{end(source, nl.CTA_PROTO_SRC_PORT), end(destination, nl.CTA_PROTO_DST_PORT)}, protocol
}

// inside finds an attribute among others, nil if there is none.
func inside(b []byte, kind uint16) []byte {
	for len(b) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			return nil
		}
		if binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == kind {
			return b[unix.SizeofNlAttr:size]
		}
		b = b[min(len(b), (size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
	return nil
}

// exchange sends messages and reads up to the answer to the last one, or to an error. It calls f, if not nil, for each
// message of netfilter in the answers, with what is behind its headers.
func (c *conn) exchange(messages []byte, f func(kind uint16, body []byte)) error {
	if err := unix.Sendto(c.fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buf[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		for b := c.buf[:n]; len(b) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return fmt.Errorf("a message of %d bytes in %d", size, len(b))
			}
			switch kind := binary.NativeEndian.Uint16(b[4:]); {
			case kind == unix.NLMSG_DONE:
				return nil
			case kind == unix.NLMSG_ERROR:
				if size < unix.SizeofNlMsghdr+4 {
					return errors.New("an error without a number")
				}
				if number := int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:])); number != 0 {
					return unix.Errno(-number)
				}
				return nil
			case kind&^0xff == subsystem && size >= unix.SizeofNlMsghdr+headSize && f != nil:
				f(kind&0xff, b[unix.SizeofNlMsghdr+headSize:size])
			}
			b = b[min(len(b), (size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
		}
	}
}

func explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return &linux.UnsupportedError{What: what, Missing: "CAP_NET_ADMIN", Hint: "run it as root", Err: err}
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return &linux.UnsupportedError{
			What: what, Missing: "conntrack by netlink",
			Hint: "use a kernel with CONFIG_NF_CT_NETLINK, CONFIG_NF_CONNTRACK_MARK and CONFIG_NF_NAT", Err: err,
		}
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%s: %w (hint: net.netfilter.nf_conntrack_max is how many there can be)", what, err)
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s: %w", what, fs.ErrExist)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// A Sender makes UDP connections, each with one empty packet, from ports that it need not bind.
type Sender struct {
	fd     int
	to     unix.Sockaddr
	packet [8]byte // the header (RFC 768), without a checksum
}

// NewSender opens a sender. It requires CAP_NET_RAW.
func NewSender(from netip.Addr, to netip.AddrPort) (*Sender, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, explain("open a raw socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4()}); err != nil {
		_ = unix.Close(fd)
		return nil, explain(fmt.Sprintf("bind a raw socket to %s", from), err)
	}
	s := &Sender{fd: fd, to: &unix.SockaddrInet4{Addr: to.Addr().As4()}}
	binary.BigEndian.PutUint16(s.packet[2:], to.Port())
	binary.BigEndian.PutUint16(s.packet[4:], uint16(len(s.packet)))
	return s, nil
}

// Send sends one packet from a port.
func (s *Sender) Send(port uint16) error {
	binary.BigEndian.PutUint16(s.packet[:], port)
	return unix.Sendto(s.fd, s.packet[:], 0, s.to)
}

// Close closes the sender.
func (s *Sender) Close() { _ = unix.Close(s.fd) }

// A Counter counts UDP packets that arrive.
type Counter struct {
	fd  int
	buf [16]byte
}

// NewCounter opens a counter.
func NewCounter(at netip.AddrPort) (*Counter, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, explain("open a socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}); err != nil {
		_ = unix.Close(fd)
		return nil, explain(fmt.Sprintf("bind a socket to %s", at), err)
	}
	return &Counter{fd: fd}, nil
}

// Count returns how many packets have arrived since the last call.
func (c *Counter) Count() (n int, err error) {
	for {
		_, _, err := unix.Recvfrom(c.fd, c.buf[:], 0)
		switch {
		case err == nil:
			n++
		case errors.Is(err, unix.EAGAIN):
			return n, nil
		case !errors.Is(err, unix.EINTR):
			return n, fmt.Errorf("receive packets: %w", err)
		}
	}
}

// Close closes the counter.
func (c *Counter) Close() { _ = unix.Close(c.fd) }

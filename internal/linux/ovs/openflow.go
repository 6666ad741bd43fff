package ovs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"time"
)

// The version, and types of messages (OpenFlow 1.4, section 7.1 and its openflow.h).
const (
	version14 = 0x05

	typeHello            = 0
	typeError            = 1
	typeEcho             = 2
	typePacketIn         = 10
	typeFlowRemoved      = 11
	typePortStatus       = 12
	typeFlowMod          = 14
	typeMultipartRequest = 18
	typeMultipartReply   = 19
	typeBundleControl    = 33
	typeBundleAdd        = 34

	headerLen = 8
)

// Commands of a flow message, and values for all tables, any port and no buffer.
const (
	commandAdd          = 0
	commandDelete       = 3
	commandDeleteStrict = 4
	allTables           = 0xff
	anyPort             = 0xffffffff
	noBuffer            = 0xffffffff
)

// Steps of a bundle (section 7.3.9), and its flags: all or nothing, and in order.
const (
	bundleOpen        = 0
	bundleOpened      = 1
	bundleCommit      = 4
	bundleCommitted   = 5
	bundleAtomic      = 1
	bundleOrdered     = 2
	multipartFlow     = 1
	multipartSum      = 2
	multipartMore     = 1
	bundleLimit       = 60 * time.Second // for a hundred thousand flows on a busy machine
	flowModLen        = 48               // without the match
	flowStatsLen      = 48
	bundleNumber      = 1
	bundleAddOverhead = headerLen + 8
)

// A Conn is an OpenFlow connection to a bridge. It is not safe for use by several goroutines.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
	xid  uint32
}

// Connect connects to a bridge at its socket.
func Connect(socket string) (*Conn, error) {
	conn, err := net.DialTimeout("unix", socket, patience)
	if err != nil {
		return nil, fmt.Errorf("connect to a bridge: %w", err)
	}
	c := newConn(conn)
	if err := c.hello(); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to a bridge: %w", err), conn.Close())
	}
	return c, nil
}

func newConn(conn net.Conn) *Conn { return &Conn{conn: conn, r: bufio.NewReaderSize(conn, 1<<16)} }

// Close ends the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

// hello negotiates the version: it offers only one.
func (c *Conn) hello() error {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	// An element of type 1, of 8 bytes: versions as bits (section 7.5.1).
	if _, err := c.conn.Write(c.message(typeHello, []byte{0, 1, 0, 8, 0, 0, 0, 1 << version14})); err != nil {
		return err
	}
	kind, body, err := c.read()
	if err != nil {
		return err
	}
	if kind != typeHello {
		return refused(kind, body)
	}
	return nil
}

// message adds a header to a body.
func (c *Conn) message(kind byte, body []byte) []byte {
	c.xid++
	b := make([]byte, 0, headerLen+len(body))
	b = append(b, version14, kind)
	b = binary.BigEndian.AppendUint16(b, uint16(headerLen+len(body)))
	b = binary.BigEndian.AppendUint32(b, c.xid)
	return append(b, body...)
}

// read returns the next message that is an answer. A bridge also reports changes of its ports, and checks the
// connection, without being asked (sections 6.1.2 and 6.1.3); read skips those messages.
func (c *Conn) read() (kind byte, body []byte, err error) {
	for {
		var header [headerLen]byte
		if _, err := io.ReadFull(c.r, header[:]); err != nil {
			return 0, nil, err
		}
		n := int(binary.BigEndian.Uint16(header[2:]))
		if n < headerLen {
			return 0, nil, fmt.Errorf("a message of %d bytes", n)
		}
		body = make([]byte, n-headerLen)
		if _, err := io.ReadFull(c.r, body); err != nil {
			return 0, nil, err
		}
		switch header[1] {
		case typeEcho, typePacketIn, typeFlowRemoved, typePortStatus:
		default:
			return header[1], body, nil
		}
	}
}

// refused returns the error of a message that is not the expected one.
func refused(kind byte, body []byte) error {
	if kind != typeError || len(body) < 4 {
		return fmt.Errorf("unexpected message of type %d", kind)
	}
	number, code := binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])
	what := map[uint16]string{
		0: "hello failed", 1: "bad request", 2: "bad action", 3: "bad instruction", 4: "bad match", 5: "flow refused",
		17: "bundle failed",
	}[number]
	if what == "" {
		what = "refused"
	}
	return fmt.Errorf("%s (OpenFlow error of type %d, code %d)", what, number, code)
}

// flowMod returns the body of a message that adds or deletes a flow (section 7.3.4.2). The mask applies to the cookies
// of deleted flows.
func flowMod(command byte, f Flow, mask uint64) []byte {
	fields := f.Match.fields()
	b := make([]byte, 0, flowModLen+len(fields)+48)
	b = binary.BigEndian.AppendUint64(b, f.Cookie)
	b = binary.BigEndian.AppendUint64(b, mask)
	b = append(b, f.Table, command, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, f.Priority)
	b = binary.BigEndian.AppendUint32(b, noBuffer)
	b = binary.BigEndian.AppendUint32(b, anyPort)
	b = binary.BigEndian.AppendUint32(b, anyPort)
	b = append(b, 0, 0, 0, 0)
	b = appendMatch(b, fields)
	if command == commandAdd {
		b = append(b, f.instructions()...)
	}
	return b
}

// appendMatch appends a match, which is of type 1 (OXM) and ends at a multiple of eight bytes.
func appendMatch(b, fields []byte) []byte {
	n := 4 + len(fields)
	b = binary.BigEndian.AppendUint16(b, 1)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(b, fields...)
	return append(b, make([]byte, (8-n%8)%8)...)
}

// An Owner selects flows: those whose cookie has the same bits as Cookie under the mask. The zero value selects all.
type Owner struct{ Cookie, Mask uint64 }

// Only returns the owner of flows with exactly this cookie.
func Only(cookie uint64) Owner { return Owner{cookie, ^uint64(0)} }

// A FlowMod changes the flows of a bridge: deletions first, then additions.
type FlowMod struct {
	// DeleteAll deletes all flows of these owners.
	DeleteAll []Owner
	// Delete and Add are single flows. Deleting a missing flow succeeds; adding a flow replaces one with the same match
	// and priority.
	Delete, Add iter.Seq[Flow]
}

// Modify applies a FlowMod atomically: packets meet either the old or the new flows.
func (c *Conn) Modify(mod FlowMod) error {
	if err := c.conn.SetDeadline(time.Now().Add(bundleLimit)); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := c.bundle(mod)
		if err != nil {
			_ = c.conn.SetReadDeadline(time.Now().Add(patience)) // an error may be the reason
		}
		done <- err
	}()
	reply := c.committed()
	if reply != nil {
		_ = c.conn.SetWriteDeadline(time.Now())
	}
	wrote := <-done
	if reply != nil {
		return fmt.Errorf("change flows: %w", reply)
	}
	if wrote != nil {
		return fmt.Errorf("change flows: %w", wrote)
	}
	return nil
}

// bundle sends all messages of a FlowMod.
func (c *Conn) bundle(mod FlowMod) error {
	w := bufio.NewWriterSize(c.conn, 1<<16)
	var err error
	write := func(b []byte) {
		if err == nil {
			_, err = w.Write(b)
		}
	}
	control := func(step byte) {
		write(c.message(typeBundleControl, []byte{0, 0, 0, bundleNumber, 0, step, 0, bundleAtomic | bundleOrdered}))
	}
	add := func(command byte, f Flow, mask uint64) {
		inner := c.message(typeFlowMod, flowMod(command, f, mask))
		c.xid-- // both have the same transaction number
		write(c.message(typeBundleAdd,
			append([]byte{0, 0, 0, bundleNumber, 0, 0, 0, bundleAtomic | bundleOrdered}, inner...)))
	}
	control(bundleOpen)
	for _, o := range mod.DeleteAll {
		add(commandDelete, Flow{Cookie: o.Cookie, Table: allTables}, o.Mask)
	}
	for _, change := range []struct {
		command byte
		flows   iter.Seq[Flow]
	}{{commandDeleteStrict, mod.Delete}, {commandAdd, mod.Add}} {
		if change.flows == nil {
			continue
		}
		for f := range change.flows {
			add(change.command, f, 0)
			if err != nil {
				return err
			}
		}
	}
	control(bundleCommit)
	if err == nil {
		err = w.Flush()
	}
	return err
}

// committed waits until the bundle has taken effect.
func (c *Conn) committed() error {
	for {
		kind, body, err := c.read()
		if err != nil {
			return err
		}
		switch {
		case kind == typeBundleControl && len(body) >= 6 && body[5] == bundleOpened:
		case kind == typeBundleControl && len(body) >= 6 && body[5] == bundleCommitted:
			return nil
		default:
			return refused(kind, body)
		}
	}
}

// multipart sends a multipart request and calls f with each part of the answer.
func (c *Conn) multipart(kind uint16, body []byte, f func(part []byte) error) error {
	if err := c.conn.SetDeadline(time.Now().Add(bundleLimit)); err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint16(nil, kind)
	if _, err := c.conn.Write(c.message(typeMultipartRequest,
		append(append(head, 0, 0, 0, 0, 0, 0), body...))); err != nil {
		return err
	}
	for {
		got, reply, err := c.read()
		if err != nil {
			return err
		}
		if got != typeMultipartReply || len(reply) < headerLen {
			return refused(got, reply)
		}
		if err := f(reply[headerLen:]); err != nil {
			return err
		}
		if binary.BigEndian.Uint16(reply[2:])&multipartMore == 0 {
			return nil
		}
	}
}

// wanted returns a request for the flows of an owner (section 7.3.5.2).
func wanted(o Owner) []byte {
	b := []byte{allTables, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, anyPort)
	b = binary.BigEndian.AppendUint32(b, anyPort)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, o.Cookie)
	b = binary.BigEndian.AppendUint64(b, o.Mask)
	return appendMatch(b, nil)
}

// Keys returns the keys ([Flow.Key]) of an owner's flows.
func (c *Conn) Keys(o Owner) (map[string]bool, error) {
	keys := map[string]bool{}
	err := c.multipart(multipartFlow, wanted(o), func(part []byte) error { return entries(part, keys) })
	if err != nil {
		return nil, fmt.Errorf("read flows: %w", err)
	}
	return keys, nil
}

// entries reads the flows of one part (section 7.3.5.2, struct ofp_flow_stats).
func entries(part []byte, keys map[string]bool) error {
	for len(part) > 0 {
		if len(part) < flowStatsLen+8 {
			return errors.New("a flow is cut off")
		}
		n, match := int(binary.BigEndian.Uint16(part)), int(binary.BigEndian.Uint16(part[flowStatsLen+2:]))
		end := flowStatsLen + (match+7)/8*8
		if match < 4 || n > len(part) || end > n {
			return fmt.Errorf("a flow of %d bytes with a match of %d", n, match)
		}
		keys[key(binary.BigEndian.Uint64(part[24:]), part[2], binary.BigEndian.Uint16(part[12:]),
			part[flowStatsLen+4:flowStatsLen+match], part[end:n])] = true
		part = part[n:]
	}
	return nil
}

// Packets returns the number of packets that an owner's flows have matched, and the number of flows. The packets are
// those of some seconds ago (see [Settings], and [Instance.ForgetDecisions]).
func (c *Conn) Packets(o Owner) (packets uint64, flows int, err error) {
	err = c.multipart(multipartSum, wanted(o), func(part []byte) error {
		if len(part) < 20 {
			return fmt.Errorf("a sum of %d bytes", len(part))
		}
		packets, flows = binary.BigEndian.Uint64(part), int(binary.BigEndian.Uint32(part[16:]))
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count the packets of flows: %w", err)
	}
	return packets, flows, nil
}

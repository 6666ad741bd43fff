package kubernetes

import (
	"context"
	big "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nettoll/nettoll/host/protocol"
	"github.com/nettoll/nettoll/internal/linux/clock"
)

// A FlowKind is a way to send numbered messages at a steady rate.
type FlowKind string

const (
	// FlowNew sends each message as a datagram from another port. Nobody answers: each is a flow of its own to whoever
	// tracks connections.
	FlowNew FlowKind = "new"
	// FlowUDP sends datagrams from one port. They are answered, so that the flow counts as established.
	FlowUDP FlowKind = "udp"
	// FlowTCP sends all messages on one TCP connection.
	FlowTCP FlowKind = "tcp"
)

const (
	// flowPort is the port at which messages arrive, by UDP and TCP.
	flowPort = 20100
	// firstPort and ports are those from which [FlowNew] sends, in turn. They come again after 220 s if a datagram is sent
	// each 5 ms, and after 44 s if one is sent each 1 ms. By then connection tracking has forgotten a datagram without an
	// answer: after 30 s (nf_conntrack_udp_timeout, Documentation/networking/nf_conntrack-sysctl.rst).
	firstPort, ports = 21000, 44000
	// answered is the flag of a message that asks for an answer.
	answered = 1
)

// A message has a mark, its flow, its number from 0, its flags and when it was sent, in ns of the sender's clock.
const (
	messageMark = 0x6e74666c // "ntfl": nothing else that comes to the port is counted
	messageSize = 24
)

func encode(b *[messageSize]byte, flow, number, flags uint32, sent int64) {
	big.BigEndian.PutUint32(b[0:], messageMark)
	big.BigEndian.PutUint32(b[4:], flow)
	big.BigEndian.PutUint32(b[8:], number)
	big.BigEndian.PutUint32(b[12:], flags)
	big.BigEndian.PutUint64(b[16:], uint64(sent))
}

// decode returns false if the bytes are not a message.
func decode(b []byte) (flow, flags uint32, a arrival, ok bool) {
	if len(b) != messageSize || big.BigEndian.Uint32(b) != messageMark {
		return 0, 0, a, false
	}
	a = arrival{Number: int(big.BigEndian.Uint32(b[8:])), Sent: int64(big.BigEndian.Uint64(b[16:]))}
	return big.BigEndian.Uint32(b[4:]), big.BigEndian.Uint32(b[12:]), a, true
}

// arrival is a message that arrived.
type arrival struct {
	Number int   `json:"number"`
	Sent   int64 `json:"sent"` // ns of the sender's clock
	At     int64 `json:"at"`   // ns of the receiver's
}

// receiver keeps what arrives.
type receiver struct {
	udp *net.UDPConn
	tcp net.Listener

	mu    sync.Mutex
	flows map[uint32][]arrival
}

// receive opens the port in both families, as far as there are both.
func receive() (*receiver, error) {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{Port: flowPort})
	if err != nil {
		return nil, err
	}
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{Port: flowPort})
	if err != nil {
		return nil, errors.Join(err, udp.Close())
	}
	r := &receiver{udp: udp, tcp: tcp, flows: map[uint32][]arrival{}}
	go r.datagrams()
	go r.connections()
	return r, nil
}

// close ends the receiver; it keeps what has arrived.
func (r *receiver) close() { _ = errors.Join(r.udp.Close(), r.tcp.Close()) }

func (r *receiver) datagrams() {
	b := make([]byte, messageSize+1)
	for {
		n, from, err := r.udp.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && r.note(b[:n])&answered != 0 {
			_, _ = r.udp.WriteToUDPAddrPort(b[:n], from) // an answer that cannot be sent is lost
		}
	}
}

func (r *receiver) connections() {
	for {
		c, err := r.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go func() {
			defer c.Close()
			var b [messageSize]byte
			for {
				if _, err := io.ReadFull(c, b[:]); err != nil {
					return
				}
				r.note(b[:])
			}
		}()
	}
}

// note keeps a message and returns its flags.
func (r *receiver) note(b []byte) (flags uint32) {
	flow, flags, a, ok := decode(b)
	if !ok {
		return 0
	}
	a.At = clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flows[flow] = append(r.flows[flow], a)
	return flags
}

// arrived is what has arrived of a flow.
type arrived struct {
	Count int     `json:"count"` // of messages behind the one that was asked for
	First arrival `json:"first"` // of these
	Last  arrival `json:"last"`
	Now   int64   `json:"now"` // ns of the receiver's clock
}

// since returns what has arrived of a flow behind a number; -1 for all of it.
func (r *receiver) since(flow uint32, number int) (s arrived) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Now = clock.Now()
	for _, a := range r.flows[flow] {
		if a.Number <= number {
			continue
		}
		if s.Count == 0 {
			s.First = a
		}
		s.Last = a
		s.Count++
	}
	return s
}

// sending is a flow to send.
type sending struct {
	Flow  uint32         `json:"flow"`
	Kind  FlowKind       `json:"kind"`
	To    netip.AddrPort `json:"to"`
	Every time.Duration  `json:"every"` // ns from one message to the next
	// Used is how many ports [FlowNew] has used before, for the same receiver.
	Used int `json:"used,omitempty"`
}

// sender sends a flow.
type sender struct {
	sending
	origin int64 // ns: the times of messages count from here
	conn   net.Conn
	full   bool // the connection took a part of a message only, and gets no more
	end    context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	sent []int64 // when each message was sent
}

// dialLimit is how long the connection of [FlowTCP] may take.
const dialLimit = 5 * time.Second

// send begins to send a flow. Times of messages count from origin, in ns of the clock.
func send(s sending, origin int64) (*sender, error) {
	f := &sender{sending: s, origin: origin, done: make(chan struct{})}
	if s.Every <= 0 || !s.To.IsValid() {
		return nil, fmt.Errorf("invalid flow: to %v each %v", s.To, s.Every)
	}
	var err error
	switch s.Kind {
	case FlowNew:
	case FlowUDP:
		f.conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.To))
	case FlowTCP:
		f.conn, err = net.DialTimeout("tcp", s.To.String(), dialLimit)
	default:
		err = fmt.Errorf("unknown kind %q of a flow", s.Kind)
	}
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, f.end = context.WithCancel(context.Background())
	go f.run(ctx)
	return f, nil
}

// run sends a message at once, and then one each time. If it is late, it leaves out those that it has missed.
func (f *sender) run(ctx context.Context) {
	defer close(f.done)
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for n := 0; ; n++ {
		f.one(n)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// one sends a message. One that cannot be sent is lost, as one that a policy refuses.
func (f *sender) one(n int) {
	var flags uint32
	if f.Kind == FlowUDP {
		flags = answered
	}
	at := clock.Now() - f.origin
	f.mu.Lock()
	f.sent = append(f.sent, at)
	f.mu.Unlock()
	var b [messageSize]byte
	encode(&b, f.Flow, uint32(n), flags, at)
	if f.conn != nil {
		if f.full {
			return
		}
		_ = f.conn.SetWriteDeadline(time.Now().Add(f.Every)) // a connection whose messages do not arrive gets full
		wrote, _ := f.conn.Write(b[:])
		f.full = f.Kind == FlowTCP && wrote < len(b)
		return
	}
	const tries = 5 // ports may be in use
	for try := range tries {
		from := firstPort + (f.Used+n+try)%ports
		c, err := net.DialUDP("udp", &net.UDPAddr{Port: from}, net.UDPAddrFromAddrPort(f.To))
		if err != nil {
			continue
		}
		_, _ = c.Write(b[:])
		_ = c.Close()
		return
	}
}

// stop ends the flow and returns how many messages were sent.
func (f *sender) stop() int {
	f.end()
	<-f.done
	if f.conn != nil {
		_ = f.conn.Close()
	}
	return len(f.sent)
}

// sent says when a message was sent, and how many were.
type sent struct {
	Count int   `json:"count"`
	At    int64 `json:"at"` // ns of the sender's clock
}

func (f *sender) at(number int) (s sent, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Count = len(f.sent)
	if number < 0 || number >= s.Count {
		return s, fmt.Errorf("message %d of flow %d was not sent (sent: %d)", number, f.Flow, s.Count)
	}
	s.At = f.sent[number]
	return s, nil
}

// Methods of a scout that are about flows.
const (
	methodClock   = "clock"   // nothing → int64: ns of its CLOCK_MONOTONIC
	methodReceive = "receive" // nothing → nothing
	methodArrived = "arrived" // asked → arrived
	methodSend    = "send"    // sending → nothing
	methodSent    = "sent"    // asked → sent
	methodStop    = "stop"    // asked → int: how many were sent
)

// asked is a message of a flow.
type asked struct {
	Flow   uint32 `json:"flow"`
	Number int    `json:"number"`
}

// flows are those of a scout.
type flows struct {
	mu       sync.Mutex
	receiver *receiver
	senders  map[uint32]*sender
}

func (f *flows) sender(flow uint32) (*sender, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.senders[flow]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("unknown flow %d", flow)
}

// methods are what a scout answers about flows.
func (f *flows) methods() protocol.Methods {
	f.senders = map[uint32]*sender{}
	return protocol.Methods{
		methodClock: protocol.Method(func(context.Context, struct{}) (int64, error) { return clock.Now(), nil }),
		methodReceive: protocol.Method(func(context.Context, struct{}) (_ struct{}, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.receiver == nil {
				f.receiver, err = receive()
			}
			return struct{}{}, err
		}),
		methodArrived: protocol.Method(func(_ context.Context, a asked) (arrived, error) {
			f.mu.Lock()
			r := f.receiver
			f.mu.Unlock()
			if r == nil {
				return arrived{}, errors.New("it does not receive")
			}
			return r.since(a.Flow, a.Number), nil
		}),
		methodSend: protocol.Method(func(_ context.Context, s sending) (struct{}, error) {
			one, err := send(s, 0)
			if err != nil {
				return struct{}{}, err
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.senders[s.Flow] = one
			return struct{}{}, nil
		}),
		methodSent: protocol.Method(func(_ context.Context, a asked) (sent, error) {
			s, err := f.sender(a.Flow)
			if err != nil {
				return sent{}, err
			}
			return s.at(a.Number)
		}),
		methodStop: protocol.Method(func(_ context.Context, a asked) (int, error) {
			s, err := f.sender(a.Flow)
			if err != nil {
				return 0, err
			}
			return s.stop(), nil
		}),
	}
}

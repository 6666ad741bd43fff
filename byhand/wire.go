package byhand

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/nettoll/nettoll/traffic"
)

// Protocol is the version of the messages between both ends. It changes if an older peer would misunderstand the frames
// or the workloads' packets. Version 1 had no places and no tokens.
const Protocol = 2

// Port is the default port of a sink: T-O-L-L on the keys of a telephone. The next ports are for the traffic.
const Port = 8655

const (
	// frameLimit is the size of the largest message in bytes: histograms of seven quantities, some tens of kB each, and
	// a sample for each pair.
	frameLimit = 1 << 20
	// helloSize and requestSize limit what a sink reads, in bytes: a hello, and a request. The largest request is an
	// echo of full size.
	helloSize, requestSize = 4 << 10, 64 << 10

	// lineBuffer is the size that a sink sets for the receive buffer of a connection, in bytes. Otherwise the kernel
	// could enlarge it to megabytes, for everybody who connects (net.ipv4.tcp_rmem).
	lineBuffer = requestSize / 2

	// answerLimit is how long the other end may take to answer a request that it can answer at once.
	answerLimit = 5 * time.Second
	// openLimit is how long a source may take from its place to the opening, over slow paths, and from there until its
	// own endpoints are open: 10,000 connections take a few seconds.
	openLimit = 2 * answerLimit
	// welcomeLimit is how long a sink may take to say hello, or to report again that others come first: it starts a
	// process for each source.
	welcomeLimit = 2 * answerLimit
	// tellEvery is how often the sink reports its place to a waiting source. The source answers, so that its place is
	// free soon after the source has vanished.
	tellEvery = 2 * time.Second
	// soon is how long a source waits before the first report: a session that ends takes a few milliseconds.
	soon = 500 * time.Millisecond

	// fullSize is the number of bytes in an echo that is certainly cut into the largest packets that pass: more than
	// two Ethernet jumbo frames.
	fullSize = 20_000
)

// hello is the first message of both ends. Every version understands it.
type hello struct {
	Nettoll int    `json:"nettoll"` // [Protocol]; 0: not from nettoll
	Version string `json:"version"` // of the program
	Refused string `json:"refused,omitempty"`
	// from the sink: how many sources are served before this one; 0: it is this one's turn
	Place int    `json:"place,omitempty"`
	Nonce []byte `json:"nonce,omitempty"` // from a sink that requires a token: the source answers with a proof
	Proof []byte `json:"proof,omitempty"`
}

// prove returns a proof that its maker knows a token, for the sender of the nonce. It does not reveal the token.
func prove(token string, nonce []byte) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("nettoll source"))
	mac.Write(nonce)
	return mac.Sum(nil)
}

// The requests of a source.
const (
	doEcho    = "echo"
	doOpen    = "open"
	doReady   = "ready"
	doPrepare = "prepare"
	doGo      = "go"
	doCollect = "collect"
	doProbe   = "probe"
	doEnd     = "end"
)

type request struct {
	Do    string   `json:"do"`
	Bytes []byte   `json:"bytes,omitempty"` // echo
	Open  *opening `json:"open,omitempty"`
	Trial uint64   `json:"trial,omitempty"` // prepare, go
	Ahead int64    `json:"ahead,omitempty"` // go: ns until the opening
}

// opening is all that the sink needs to know about the trials.
type opening struct {
	Workload string            `json:"workload"`
	Params   map[string]string `json:"params"`
	Seed     uint64            `json:"seed"`
	Ports    []uint16          `json:"ports"` // of each pair: the first of the source's
	Each     int               `json:"each"`  // number of ports of a pair, from there on
	Length   int64             `json:"length"`
	Warm     int64             `json:"warm"`
}

type answer struct {
	Error string   `json:"error,omitempty"`
	Bytes []byte   `json:"bytes,omitempty"`
	Ports []uint16 `json:"ports,omitempty"` // open: the sink's, as in opening
	Each  int      `json:"each,omitempty"`
	// open: to which the sink limits the buffers of its sockets; nil: it does not
	Limits *limits `json:"limits,omitempty"`
	Left   *left   `json:"left,omitempty"`
}

// limits are sizes of the buffers of each socket of a sink, in bytes as the kernel counts.
type limits struct {
	Send int64 `json:"send"`
	Recv int64 `json:"recv"`
}

// left is what a trial has left at the sink.
type left struct {
	Samples    []traffic.Sample           `json:"samples"`
	Histograms [traffic.Quantities]string `json:"histograms"` // in ns, HdrHistogram V2 compressed, base64; "" for none
}

// line is the connection between both ends. One request is under way at a time.
type line struct {
	conn net.Conn
	peer string // as errors name it: "the sink at 10.0.0.2:8655"
	most int    // bytes of a message that is read; 0: frameLimit
}

// local and remote are the addresses of both ends as this one sees them.
func (l line) local() netip.AddrPort { return unmapped(l.conn.LocalAddr()) }

func (l line) remote() netip.AddrPort { return unmapped(l.conn.RemoteAddr()) }

// unmapped returns an IPv4 address as such, also if an IPv6 socket serves both families.
func unmapped(a net.Addr) netip.AddrPort {
	var at netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		at = a.AddrPort()
	case *net.UDPAddr:
		at = a.AddrPort()
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// close ends the connection, if there is one.
func (l line) close() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

// say sends one message.
func (l line) say(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > frameLimit {
		return fmt.Errorf("a message of %d bytes to %s: at most %d can be sent", len(body), l.peer, frameLimit)
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(answerLimit)) // fails if the connection has ended; the write reports that
	_, err = l.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return l.explain(err, answerLimit)
}

// hear waits for one message; with 0, without a limit.
func (l line) hear(v any, within time.Duration) error {
	var by time.Time
	if within > 0 {
		by = time.Now().Add(within)
	}
	_ = l.conn.SetReadDeadline(by) // as above
	body, err := readFrame(l.conn, cmp.Or(l.most, frameLimit))
	if err != nil {
		return l.explain(err, within)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s sent %w (%s)", l.peer, errFrame, plain(err.Error()))
	}
	if h, ok := v.(*hello); ok {
		h.Version, h.Refused = plain(h.Version), plain(h.Refused)
	}
	return nil
}

// errFrame is the error about data that nettoll does not send.
var errFrame = errors.New("no message of nettoll")

// readFrame reads a message of at most this many bytes.
func readFrame(r io.Reader, most int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size == 0 || size > frameLimit {
		return nil, fmt.Errorf("%w (it begins with %q)", errFrame, head[:])
	}
	if size > int64(most) {
		return nil, fmt.Errorf("%w: it has %d bytes (limit %d)", errFrame, size, most)
	}
	body, err := io.ReadAll(io.LimitReader(r, size)) // memory grows with the data, not with the claimed size
	if err == nil && int64(len(body)) < size {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}

// explain turns an error into what happened to the connection.
func (l line) explain(err error, within time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s %w %v", l.peer, errSilent, within)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%s %w", l.peer, errEnded)
	case errors.Is(err, errFrame):
		return fmt.Errorf("%s sent %w", l.peer, err)
	}
	return fmt.Errorf("%s: %w", l.peer, err)
}

var (
	errEnded  = errors.New("has ended the connection")
	errSilent = errors.New("has sent nothing for")
)

// plain makes text of the other end safe for a terminal: without control characters, and limited in length.
func plain(s string) string {
	const most = 1000
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// ask sends a request and waits for its answer.
func (l line) ask(r request, within time.Duration) (answer, error) {
	if err := l.say(r); err != nil {
		return answer{}, err
	}
	var a answer
	if err := l.hear(&a, within); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s", l.peer, plain(a.Error))
	}
	return a, nil
}

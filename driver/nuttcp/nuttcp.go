package nuttcp

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Driver drives tcp-stream and udp-rate with nuttcp.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	interval = "0.1" // s, at which the receiver reports

	largest = 65507   // bytes of a datagram (RFC 791, RFC 768)
	longest = 1 << 20 // bytes of a write
)

// times returns how long a client takes to begin, and how long it may take to fetch the server's results and end. The
// start is mostly the exchange of options over its control connection. For a stream the end takes a few ms if the two
// have a CPU to themselves, and a second if ten pairs take turns (see iperf3's). The first datagram is sent 0.3 s after
// the start. Four more at the end, half a second before each, mark the end of the data (as traced: "BOD", "EOD").
func times(stream bool) (start, end time.Duration) {
	if stream {
		return 50 * time.Millisecond, 1450 * time.Millisecond
	}
	return 300 * time.Millisecond, 3200 * time.Millisecond
}

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "nuttcp", Program: "nuttcp", Package: "nuttcp", AskVersion: []string{"-V"},
		Summary: "nuttcp: a stream for tcp-stream, -u for udp-rate, as fast as possible or at a rate",
		Differs: "its streams get their congestion control some ms after their start; at a rate it keeps a CPU busy " +
			"between datagrams",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	switch w.Name {
	case "tcp-stream":
		if n := p.Size("message"); n < 1 || n > longest {
			return fmt.Errorf("driver nuttcp cannot write %d bytes at once (valid: 1 to %d)", n, longest)
		}
		if p["direction"] == "both" {
			return fmt.Errorf("driver nuttcp cannot drive tcp-stream with direction %q (valid: direction forward, reverse)",
				p["direction"])
		}
		return d.Describe().Understands(w, p, "message", "congestion", "direction", "nodelay")
	case "udp-rate":
		if p["mode"] != "single" {
			return fmt.Errorf("driver nuttcp cannot drive udp-rate with mode %q (valid: mode single)", p["mode"])
		}
		if n := p.Size("payload"); n > largest {
			return fmt.Errorf("driver nuttcp cannot send %d bytes (valid: at most %d)", n, largest)
		}
		if r := p.Rate("rate"); r != float64(int64(r)) {
			return fmt.Errorf("driver nuttcp cannot drive udp-rate at a rate of %s (valid: whole numbers a second)",
				p["rate"])
		}
		return d.Describe().Understands(w, p, "payload", "mode", "rate")
	}
	return fmt.Errorf("driver nuttcp cannot drive workload %q (valid: tcp-stream, udp-rate)", w.Name)
}

// Trial implements [driver.Driver].
func (Driver) Trial(w workload.Description, _ part.Params) time.Duration {
	start, end := times(w.Name == "tcp-stream")
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	stream := s.Workload == "tcp-stream"
	granted, err := driver.Grants(s, stream)
	if err != nil {
		return nil, err
	}
	start, end := times(stream)
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Reason = start, end, granted, reason
	if congestion := s.SocketOptions().Congestion; stream && congestion != "" && s.Side == writer(s.Params) {
		// The control connection, and the stream.
		r.Congestion, r.Streams = congestion, 2
		r.Before = func() error { return program.Unpace(congestion) }
	}
	family := "-4"
	if s.Local.Addr().Is6() {
		family = "-6"
	}
	switch s.Side {
	case workload.Sink:
		r.Listens = "tcp" // the control connection
		r.Args = func(int) []string { return []string{"-1", "--nofork", family, "-P", driver.Port(s.Local)} }
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			sample.Span = int64(said.Seconds) * int64(time.Second) // the client receives the server's counts
			return nil
		}
		return r.Open()
	case workload.Source:
		r.Args = func(seconds int) []string {
			args := []string{
				"-fparse", "-v", "-i" + interval, family, "-P", driver.Port(s.Remote), "-p", driver.Port(data(s)),
				"-T" + strconv.Itoa(seconds),
			}
			return append(append(args, options(s, stream)...), s.Remote.Addr().String())
		}
		r.Read = readStream(s.Params["direction"] == "reverse")
		if !stream {
			r.Read = readDatagrams
		}
		return r.Open()
	}
	return nil, fmt.Errorf("open %s by nuttcp: side %q (valid: source or sink)", s.Workload, s.Side)
}

// data returns where the server accepts the data connection: at the sink's second port. If the sink has only one, it is
// the number of the source's port, which nuttcp does not use there.
func data(s workload.Spec) netip.AddrPort {
	if s.RemotePorts > 1 {
		return netip.AddrPortFrom(s.Remote.Addr(), s.Remote.Port()+1)
	}
	return s.Local
}

func options(s workload.Spec, stream bool) []string {
	if !stream {
		rate := "u" // unlimited
		if r := s.Params.Rate("rate"); r > 0 {
			rate = strconv.FormatFloat(r, 'f', 0, 64) + "p"
		}
		return []string{"-u", "-t", "-l" + strconv.Itoa(s.Params.Size("payload")), "-R" + rate}
	}
	list := []string{"-l" + strconv.Itoa(s.Params.Size("message"))}
	if s.Params.On("nodelay") {
		list = append(list, "-D")
	}
	if s.Params["direction"] == "reverse" {
		return append(list, "-r", "-F") // the client still opens the data connection
	}
	return append(list, "-t")
}

// writer returns the side that sends.
func writer(p part.Params) workload.Side {
	if p["direction"] == "reverse" {
		return workload.Sink
	}
	return workload.Source
}

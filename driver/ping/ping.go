package ping

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Driver drives ping with the ping of iputils.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	start = 50 * time.Millisecond  // until its first request
	end   = 450 * time.Millisecond // from the end of its time until it ends: it finishes its output

	largest = 65507 // bytes of ICMP data (RFC 791, RFC 792)
	flood   = "flood"

	// receiveBuffer is the size that it asks for, whatever it sends (sock_setbufs, ping/ping_common.c).
	receiveBuffer = 65536
)

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "ping", Program: "ping", Package: "iputils-ping", AskVersion: []string{"-V"},
		Summary: "ping of iputils: echo requests for ping, at an interval or one after each answer",
		Differs: "it reports round trips in whole µs, counted from when a request was sent, not from when it was due; it " +
			"prints a line for each answer before it sends the next request",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	if w.Name != "ping" {
		return fmt.Errorf("driver ping cannot drive workload %q (valid: ping)", w.Name)
	}
	if n := p.Size("payload"); n > largest {
		return fmt.Errorf("driver ping cannot send %d bytes (valid: at most %d)", n, largest)
	}
	if i := p.Duration("interval"); p["interval"] != flood && (i < time.Millisecond || i%time.Millisecond != 0) {
		return fmt.Errorf("driver ping cannot drive ping at an interval of %s (valid: whole milliseconds, or flood)",
			p["interval"])
	}
	return d.Describe().Understands(w, p, "payload", "interval")
}

// Trial implements [driver.Driver].
func (Driver) Trial(workload.Description, part.Params) time.Duration {
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	granted, err := sock.Grants(s.Local.Addr(), false, sock.Options{RecvBuffer: receiveBuffer})
	if err != nil {
		return nil, err
	}
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Reason = start, end, granted, reason
	switch s.Side {
	case workload.Sink:
		return r.Open() // the sink's kernel answers
	case workload.Source:
		when := []string{"-A"}
		if i := s.Params.Duration("interval"); i > 0 {
			when = []string{"-i", strconv.FormatFloat(i.Seconds(), 'f', 3, 64)}
		}
		r.Args = func(seconds int) []string {
			return append(when, "-U", "-n", "-s", strconv.Itoa(s.Params.Size("payload")), "-w", strconv.Itoa(seconds), "-I",
				s.Local.Addr().String(), s.Remote.Addr().String())
		}
		r.Records, r.Read = true, read
		return r.Open()
	}
	return nil, fmt.Errorf("open ping by driver ping: side %q (valid: source or sink)", s.Side)
}

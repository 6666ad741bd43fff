package iperf3

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Driver drives tcp-stream and udp-rate with iperf3.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	// start is how long a client takes to begin, mostly the exchange of options over its control connection. end is how
	// long it may take to fetch the server's results and end. Both are a few ms if the two have a CPU to themselves.
	// Ten pairs on two CPUs take turns at each message of those exchanges and need a second. A trial is over when both
	// ends are, so one pair loses no time to this limit.
	start = 50 * time.Millisecond
	end   = 1450 * time.Millisecond

	// interval is how often receiver and sender report, the shortest possible (MIN_INTERVAL, src/iperf_api.h).
	interval = "0.1" // s

	// Limits of iperf3: datagrams (MIN_UDP_BLOCKSIZE, MAX_UDP_BLOCKSIZE, src/iperf_api.h) and writes to a stream
	// (MAX_BLOCKSIZE).
	smallest, largest = 16, 65507
	longestWrite      = 1 << 20
)

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "iperf3", Program: "iperf3", Package: "iperf3",
		Summary: "iperf3 of ESnet: a stream for tcp-stream, --udp --bitrate 0 for udp-rate",
		Differs: "the second of each pair begins when its two ends have agreed, so many pairs are not in step; its " +
			"datagram sink sleeps in each receive, whereas that of udp-rate polls for about 20 µs first",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	switch w.Name {
	case "tcp-stream":
		if n := p.Size("message"); n < 1 || n > longestWrite {
			return fmt.Errorf("driver iperf3 cannot write %d bytes at once (valid: 1 to %d)", n, longestWrite)
		}
		return d.Describe().Understands(w, p, "message", "congestion")
	case "udp-rate":
		if p["mode"] != "single" {
			return fmt.Errorf("driver iperf3 cannot drive udp-rate with mode %q (valid: mode single)", p["mode"])
		}
		if n := p.Size("payload"); n < smallest || n > largest {
			return fmt.Errorf("driver iperf3 cannot send %d bytes (valid: %d to %d)", n, smallest, largest)
		}
		return d.Describe().Understands(w, p, "payload", "mode")
	}
	return fmt.Errorf("driver iperf3 cannot drive workload %q (valid: tcp-stream, udp-rate)", w.Name)
}

// Trial implements [driver.Driver].
func (Driver) Trial(workload.Description, part.Params) time.Duration {
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	stream := s.Workload == "tcp-stream"
	granted, err := driver.Grants(s, stream)
	if err != nil {
		return nil, err
	}
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Reason = start, end, granted, reason
	local, remote := s.Local, s.Remote
	switch s.Side {
	case workload.Sink:
		r.Listens = "tcp" // the control connection
		r.Args = func(int) []string {
			return []string{
				"--server", "--one-off", "--json", "--interval", interval, "--bind", local.Addr().String(), "--port",
				driver.Port(local),
			}
		}
		r.Read = readServer(s)
		return r.Open()
	case workload.Source:
		congestion := s.SocketOptions().Congestion
		if stream {
			r.Before = func() error { return program.Unpace(congestion) }
		}
		r.Args = func(seconds int) []string {
			args := []string{
				"--client", remote.Addr().String(), "--port", driver.Port(remote), "--bind", local.Addr().String(), "--json",
				"--interval", interval,
				"--time", strconv.Itoa(seconds), "--length", strconv.Itoa(s.Params.Size(size(stream))),
			}
			switch {
			case !stream:
				args = append(args, "--udp", "--bitrate", "0", "--cport", driver.Port(local))
			case congestion != "":
				args = append(args, "--congestion", congestion)
			}
			return args
		}
		r.Read = readClient
		return r.Open()
	}
	return nil, fmt.Errorf("open %s by iperf3: side %q (valid: source or sink)", s.Workload, s.Side)
}

// size returns the parameter that --length takes.
func size(stream bool) string {
	if stream {
		return "message"
	}
	return "payload"
}

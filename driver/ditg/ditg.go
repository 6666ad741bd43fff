package ditg

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Driver is D-ITG.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	// start is how long a client takes to begin, which is the exchange of options over its signalling connection, and end how long it may take to end: it
	// waits for a second, and its logs are written.
	start = 50 * time.Millisecond
	end   = 2450 * time.Millisecond

	largest = 65507 // bytes of a datagram (RFC 791, RFC 768)

	fastest = 100000 // datagrams a second: each takes 144 bytes of a log that is memory

	decoder = "ITGDec"
)

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "d-itg", Program: "ITGSend", Server: "ITGRecv", Package: "d-itg", AskVersion: []string{"-h"}, Needs: map[string]string{"rate": "1k/s"},
		Summary: "D-ITG of the University of Naples: datagrams with constant or random gaps for udp-rate at a rate",
		Differs: "it sleeps from one datagram to the next and never makes up for what it comes late, so that it sends less than its rate",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	if w.Name != "udp-rate" {
		return fmt.Errorf("driver d-itg cannot drive workload %q (it can drive udp-rate at a rate)", w.Name)
	}
	if p["mode"] != "single" {
		return fmt.Errorf("driver d-itg cannot drive udp-rate with mode %q (it can with mode single)", p["mode"])
	}
	if r := p.Rate("rate"); r <= 0 || r > fastest {
		return fmt.Errorf("driver d-itg cannot drive udp-rate at rate %q (it can at up to %d/s)", p["rate"], fastest)
	}
	if n := p.Size("payload"); n > largest {
		return fmt.Errorf("driver d-itg cannot send %d bytes (it can send %d at most)", n, largest)
	}
	if _, err := gaps(p); err != nil {
		return err
	}
	return d.Describe().Understands(w, p, "payload", "mode", "rate", "arrivals")
}

// widest is the most spread of normal gaps at which less than one of 10,000 would be negative, which D-ITG and ours treat differently.
const widest = 0.25

// gaps returns the options for the time between two datagrams: rates are in 1/s, times in ms (d-itg-manual.pdf, "Inter-departure time options"; means and
// spreads were checked against its logs).
func gaps(p part.Params) ([]string, error) {
	rate := p.Rate("rate")
	mean := 1e3 / rate // ms
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }
	name, parameter, _ := strings.Cut(p["arrivals"], ":")
	x, _ := strconv.ParseFloat(parameter, 64) // it is checked
	switch name {
	case "constant", "":
		return []string{"-C", text(rate)}, nil
	case "poisson":
		return []string{"-E", text(rate)}, nil
	case "uniform":
		if x < 1 {
			return []string{"-U", text(rate / (1 + x)), text(rate / (1 - x))}, nil
		}
	case "normal":
		if x <= widest {
			return []string{"-N", text(mean), text(x * mean)}, nil
		}
	case "gamma":
		return []string{"-G", text(x), text(mean / x)}, nil
	case "pareto":
		return []string{"-V", text(x), text(mean * (x - 1) / x)}, nil
	}
	return nil, fmt.Errorf("driver d-itg cannot drive udp-rate with arrivals %q (it can with constant, poisson, uniform with a spread below 1, normal with one up to %g, gamma, pareto)",
		p["arrivals"], widest)
}

// Trial implements [driver.Driver].
func (Driver) Trial(workload.Description, part.Params) time.Duration {
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	granted, err := driver.Grants(s, false)
	if err != nil {
		return nil, err
	}
	decode, err := d.Describe().Locate(decoder)
	if err != nil {
		return nil, err
	}
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Reason, r.Log = start, end, granted, reason, true
	switch s.Side {
	case workload.Sink:
		r.Listens, r.Stop = "tcp", program.Interrupted // its signalling socket
		r.Args = func(int) []string { return []string{"-a", s.Local.Addr().String(), "-Sp", driver.Port(s.Local)} }
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			log, err := decoded(decode, said)
			if err != nil {
				return err
			}
			sample.Received, sample.Total, sample.Bytes = log.packets, log.packets, log.bytes
			sample.Span = int64(said.Seconds) * int64(time.Second)
			return nil
		}
		return r.Open()
	case workload.Source:
		options, err := gaps(s.Params)
		if err != nil {
			return nil, err
		}
		remote := s.Remote.Addr().String()
		r.Args = func(seconds int) []string {
			return append([]string{
				"-a", remote, "-rp", driver.Port(s.Remote), "-Sda", remote, "-Sdp", driver.Port(s.Remote), "-T", "UDP", "-t", strconv.Itoa(1000 * seconds),
				"-c", strconv.Itoa(s.Params.Size("payload")), "-l", program.LogPath, "-x", program.LogPath,
			}, options...)
		}
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			log, err := decoded(decode, said)
			if err != nil {
				return err
			}
			sample.Sent, sample.Total = log.packets, log.packets
			sample.Window = int64(said.Seconds) * int64(time.Second) // it begins with the first datagram, and -t ends it
			sample.Span = sample.Window
			return nil
		}
		return r.Open()
	}
	return nil, fmt.Errorf("open %s by d-itg: side %q (want source or sink)", s.Workload, s.Side)
}

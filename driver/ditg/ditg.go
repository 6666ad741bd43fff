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

// Driver drives workloads with D-ITG.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	// start is how long a client takes to begin, mostly the exchange of options over its signalling connection. end is
	// how long it may take to end: it waits for a second and writes its logs.
	start = 50 * time.Millisecond
	end   = 2450 * time.Millisecond

	largest = 65507 // bytes of a datagram (RFC 791, RFC 768)

	fastest = 100000 // datagrams a second: each takes 144 bytes of a log in memory

	decoder = "ITGDec"
)

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "d-itg", Program: "ITGSend", Server: "ITGRecv", Package: "d-itg", AskVersion: []string{"-h"},
		Needs: map[string]map[string]string{"udp-rate": {"rate": "1k/s"}, "quake3": {"players": "1"}},
		Summary: "D-ITG of the University of Naples: datagrams with constant or random gaps for udp-rate at a rate, its " +
			"bursts for burst, one of its players for quake3",
		Differs: "it sleeps from one datagram to the next and never makes up for what it comes late, so that it sends less " +
			"than its rate; a one-way latency counts from when " +
			"a datagram was sent, not from when it was due, but for the first one after a pause of burst, which has the whole " +
			"pause in it (and in mean, jitter and maximum); its " +
			"quake3 has no server, only what a player sends",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	switch w.Name {
	case "udp-rate":
		return d.servesRate(w, p)
	case "burst":
		return d.servesBurst(w, p)
	case "quake3":
		return d.servesQuake(w, p)
	default:
		return fmt.Errorf("driver d-itg cannot drive workload %q (valid: udp-rate at a rate, burst, quake3)", w.Name)
	}
}

func (d Driver) servesRate(w workload.Description, p part.Params) error {
	if p["mode"] != "single" {
		return fmt.Errorf("driver d-itg cannot drive udp-rate with mode %q (valid: mode single)", p["mode"])
	}
	if r := p.Rate("rate"); r <= 0 || r > fastest {
		return fmt.Errorf("driver d-itg cannot drive udp-rate at rate %q (valid: up to %d/s)", p["rate"], fastest)
	}
	if n := p.Size("payload"); n > largest {
		return fmt.Errorf("driver d-itg cannot send %d bytes (valid: at most %d)", n, largest)
	}
	if _, err := gaps(p); err != nil {
		return err
	}
	return d.Describe().Understands(w, p, "payload", "mode", "rate", "arrivals")
}

// widest is the largest spread of normal gaps at which less than one in 10,000 is negative: D-ITG and nettoll treat
// negative gaps differently.
const widest = 0.25

// gaps returns the options for the time between two datagrams: rates are in 1/s, times in ms (d-itg-manual.pdf,
// "Inter-departure time options"; means and spreads were checked against its logs).
func gaps(p part.Params) ([]string, error) {
	rate := p.Rate("rate")
	mean := 1e3 / rate // ms
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }
	name, parameter, _ := strings.Cut(p["arrivals"], ":")
	x, _ := strconv.ParseFloat(parameter, 64) // Resolve has checked it
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
	return nil, fmt.Errorf("driver d-itg cannot drive udp-rate with arrivals %q (valid: constant, poisson, uniform "+
		"with a spread below 1, normal with one up to %g, gamma, pareto)",
		p["arrivals"], widest)
}

// Trial implements [driver.Driver].
func (Driver) Trial(w workload.Description, p part.Params) time.Duration {
	least := program.Role{Start: start, End: end}.Shortest()
	if w.Name == "burst" {
		return least + period(p) - time.Second
	}
	return least
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
		r.Read = func(said program.Said, sample *traffic.Sample, recorder *traffic.Recorder) error {
			if s.Workload != "udp-rate" {
				return readMessages(decode, said, sample, recorder)
			}
			log, err := decoded(decode, said)
			if err != nil {
				return err
			}
			sample.Received, sample.Total, sample.Bytes = log.packets, log.packets, log.bytes
			sample.Span = int64(said.Seconds) * int64(time.Second)
			return nil
		}
		r.Records, r.Of = s.Workload != "udp-rate", traffic.OneWay
		return r.Open()
	case workload.Source:
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			log, err := decoded(decode, said)
			if err != nil {
				return err
			}
			sample.Sent, sample.Total = log.packets, log.packets
			sample.Window = int64(said.Seconds) * int64(time.Second) // from the first datagram to the end by -t
			sample.Span = sample.Window
			if s.Workload == "quake3" {
				sample.Doubt = oneSided
			}
			return nil
		}
		return openSource(s, r)
	}
	return nil, fmt.Errorf("open %s by d-itg: side %q (valid: source or sink)", s.Workload, s.Side)
}

func openSource(s workload.Spec, r program.Role) (traffic.Endpoint, error) {
	var options []string
	switch s.Workload {
	case "quake3":
		options = []string{"Quake3"}
	case "burst":
		options = append(size(s.Params), bursts(s.Params)...)
	default:
		times, err := gaps(s.Params)
		if err != nil {
			return nil, err
		}
		options = append(size(s.Params), times...)
	}
	remote := s.Remote.Addr().String()
	r.Args = func(seconds int) []string {
		return append([]string{
			"-a", remote, "-rp", driver.Port(s.Remote), "-Sda", remote, "-Sdp", driver.Port(s.Remote), "-T", "UDP", "-t",
			strconv.Itoa(1000 * seconds),
			"-l", program.LogPath, "-x", program.LogPath,
		}, options...)
	}
	return r.Open()
}

func size(p part.Params) []string { return []string{"-c", strconv.Itoa(p.Size("payload"))} }

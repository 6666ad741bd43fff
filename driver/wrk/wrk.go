package wrk

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

// Driver drives http with wrk.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	// start is the time until its first request: its start, and connecting.
	start = 150 * time.Millisecond
	// end is how long it runs after its time is up, which each thread checks every 100 ms (RECORD_INTERVAL_MS,
	// src/wrk.h), and until it has ended.
	end = 500 * time.Millisecond

	pagePath = "/page" // workload/http
)

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "wrk", Program: "wrk", Package: "wrk", AskVersion: []string{"-v"}, SourceOnly: true,
		Summary: "wrk: pages on persistent connections, as fast as possible, for http, against the workload's own server",
		Differs: "it counts from before it has connected; a latency begins when its request is written, in whole µs, and " +
			"ends when the page was parsed, where those of nettoll's own engine end when " +
			"its last byte was received; where one is longer than twice the mean it adds those of the requests that would " +
			"have been sent meanwhile (its way to make up for coordinated omission), " +
			"which its mean and median contain",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	if w.Name != "http" {
		return fmt.Errorf("driver wrk cannot drive workload %q (valid: http)", w.Name)
	}
	return d.Describe().Understands(w, p, "payload", "clients", "server", "congestion")
}

// Trial implements [driver.Driver].
func (Driver) Trial(workload.Description, part.Params) time.Duration {
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Side != workload.Source {
		return nil, fmt.Errorf("open http by wrk: side %q (valid: source: the sink is the workload's own)", s.Side)
	}
	granted, err := driver.Grants(s, true)
	if err != nil {
		return nil, err
	}
	clients := s.Params.Count("clients")
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Read = start, end, granted, read
	if congestion := s.SocketOptions().Congestion; congestion != "" {
		r.Congestion, r.Streams = congestion, clients
		r.Before = func() error { return program.Unpace(congestion) }
	}
	r.Args = func(seconds int) []string {
		return []string{"-t1", "-c" + strconv.Itoa(clients), "-d" + strconv.Itoa(seconds) + "s", "--latency", "http://" +
			s.Remote.String() + pagePath}
	}
	return r.Open()
}

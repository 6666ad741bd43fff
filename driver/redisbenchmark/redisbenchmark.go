package redisbenchmark

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

// Driver drives kv with redis-benchmark.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	// start is the time until its first request: its start, a query for the server's configuration, and connecting.
	start = 100 * time.Millisecond
	// end is how long it runs on until it is ended, so that a late report arrives, and until it has ended.
	end = 400 * time.Millisecond

	requests = 2_000_000_000 // more than it can make in a trial; it counts in an int
)

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "redis-benchmark", Program: "redis-benchmark", Package: "redis-tools", SourceOnly: true,
		Summary: "redis-benchmark: values set or read as fast as answers arrive, for kv, against the workload's own server",
		Differs: "a latency ends when the first bytes of the answers have come, where those of nettoll's own engine end " +
			"with the last one; of a pipeline all requests are written at once, when all " +
			"answers to those before have come; values are letters, and keys another order; it has no time limit and is " +
			"ended, so that it tells rate and mean latency, and no percentiles",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	if w.Name != "kv" {
		return fmt.Errorf("driver redis-benchmark cannot drive workload %q (valid: kv)", w.Name)
	}
	if op := p["operation"]; op != "get" && op != "set" {
		return fmt.Errorf("driver redis-benchmark cannot drive kv with operation %q (valid: operation get, set)", op)
	}
	if p.Count("clients") == 1 && p.Count("pipeline") == 1 {
		return fmt.Errorf("driver redis-benchmark cannot drive kv with one request in flight, because it does not report a " +
			"median latency (valid: clients or pipeline 2 or more)")
	}
	return d.Describe().Understands(w, p, "payload", "operation", "clients", "pipeline", "keys", "server", "congestion")
}

// Trial implements [driver.Driver].
func (Driver) Trial(workload.Description, part.Params) time.Duration {
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Side != workload.Source {
		return nil, fmt.Errorf("open kv by redis-benchmark: side %q (valid: source: the sink is the workload's own)", s.Side)
	}
	granted, err := driver.Grants(s, true)
	if err != nil {
		return nil, err
	}
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Stop, r.Read, r.Reason = start, end, granted, program.Asked, read, reason
	if congestion := s.SocketOptions().Congestion; congestion != "" {
		r.Congestion, r.Streams = congestion, s.Params.Count("clients")
		r.Before = func() error { return program.Unpace(congestion) }
	}
	r.Args = func(int) []string {
		return []string{
			"-h", s.Remote.Addr().String(), "-p", driver.Port(s.Remote), "-t", s.Params["operation"], "-n",
			strconv.Itoa(requests), "-q",
			"-c", s.Params["clients"], "-P", s.Params["pipeline"], "-d", s.Params["payload"], "-r",
			strconv.Itoa(workload.Keys(s.Params)),
		}
	}
	return r.Open()
}

package dnsperf

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Driver drives dns with dnsperf.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	// start is how long dnsperf takes to begin. end is how long it may take to end: it waits for queries in flight and
	// checks every 100 ms whether they are lost (TIMEOUT_CHECK_TIME, src/dnsperf.c).
	start = 50 * time.Millisecond
	end   = 650 * time.Millisecond

	// lost is the time after which a query counts as lost. With 20 ms, version 2.10 often looped for ever on a busy
	// machine, when its threads had been without a CPU for longer.
	lost = 250 * time.Millisecond

	// atOnce is how many answers dnsperf receives at once (RECV_BATCH_SIZE). It wakes its sender before it counts them
	// (do_recv). So a sender that still finds all of its queries in flight sleeps on. If all answers came at once,
	// nothing wakes it for up to 100 ms.
	atOnce = 16
)

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "dnsperf", Program: "dnsperf", Package: "dnsperf", AskVersion: []string{"-h"}, SourceOnly: true,
		Needs:   map[string]map[string]string{"dns": {"in-flight": "32"}},
		Summary: "dnsperf of DNS-OARC: dns over UDP and TCP with 17 queries in flight or more",
		Differs: "it sends on one thread and receives on another, which wakes it; takes up to 16 answers at a time; counts " +
			"an answer as lost after 250 ms; and does not check the addresses that it gets",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	if w.Name != "dns" {
		return fmt.Errorf("driver dnsperf cannot drive workload %q (valid: dns)", w.Name)
	}
	if workload.Scheduled(p) {
		return fmt.Errorf("driver dnsperf cannot drive dns with rate %q: it counts latency from when a query was sent, not "+
			"from when it was due (valid: rate closed)", p["rate"])
	}
	if n := outstanding(p); n <= atOnce {
		return fmt.Errorf("driver dnsperf cannot drive dns with %d queries in flight: it would sometimes stall (valid: %d "+
			"or more, all clients together)", n, atOnce+1)
	}
	return d.Describe().Understands(w, p, "transport", "type", "clients", "in-flight", "names", "addresses", "congestion")
}

// outstanding returns how many queries of a pair are in flight.
func outstanding(p part.Params) int { return p.Count("clients") * p.Count("in-flight") }

// Trial implements [driver.Driver].
func (Driver) Trial(workload.Description, part.Params) time.Duration {
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Side != workload.Source {
		return nil, fmt.Errorf("open %s by dnsperf: side %q (valid: source: the sink is the workload's)", s.Workload, s.Side)
	}
	stream := s.Params["transport"] == "tcp"
	granted, err := driver.Grants(s, stream)
	if err != nil {
		return nil, err
	}
	clients := s.Params.Count("clients")
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Read = start, end, granted, read
	args := []string{
		"-m", s.Params["transport"], "-s", s.Remote.Addr().String(), "-p", driver.Port(s.Remote), "-a",
		s.Local.Addr().String(), "-d", program.FilePath(0),
		"-c", strconv.Itoa(clients), "-q", strconv.Itoa(outstanding(s.Params)), "-t",
		strconv.FormatFloat(lost.Seconds(), 'f', -1, 64), "-O", "suppress=timeout,unexpected",
	}
	r.Args = func(seconds int) []string { return append(slices.Clip(args), "-l", strconv.Itoa(seconds)) }
	if stream {
		r.Congestion, r.Streams = s.SocketOptions().Congestion, clients
		r.Before = func() error { return program.Unpace(r.Congestion) }
	}
	names, err := questions(s)
	if err != nil {
		return nil, err
	}
	r.Files = []*os.File{names}
	e, err := r.Open()
	if err != nil {
		_ = names.Close()
		return nil, err
	}
	return e, nil
}

// questions writes the questions, one per line, into a file in memory. dnsperf starts again at its end.
func questions(s workload.Spec) (*os.File, error) {
	var text strings.Builder
	for _, i := range workload.Services(s.Params.Count("names"), s.Seed) {
		fmt.Fprintf(&text, "%s %s\n", workload.Service(i), s.Params["type"])
	}
	f, err := process.Memory("questions")
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(text.String()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the queries for dnsperf: %w", err)
	}
	return f, nil
}

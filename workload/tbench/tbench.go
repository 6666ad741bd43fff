package tbench

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload tbench.
type Workload struct{}

var _ workload.Workload = Workload{}

const (
	// Port is the only port at which tbench_srv listens, on all IPv4 addresses (dbench.h, TCP_PORT; socklib.c,
	// open_socket_in).
	Port = 7003

	loadFile = "/usr/share/dbench/client.txt" // from Debian's package

	mostClients = 64

	// launch is how long the processes take to start, which tbench checks every 100 ms (dbench.c, create_procs). Their
	// first second is not part of the window. At the end, each client completes a last operation, and the results are
	// written: a few ms if they have the CPU to themselves. Ten pairs on two CPUs share it for that and for the launch,
	// and need a second. A trial is over when both ends are, so a single pair loses nothing.
	launch    = 100 * time.Millisecond
	leftOut   = time.Second
	end       = 1400 * time.Millisecond
	warmShare = 5 // its own warm-up is shorter than its run by this factor (dbench.c, main)
)

// Describe implements [workload.Workload].
func (Workload) Describe() workload.Description {
	return workload.Description{
		Name: "tbench",
		Summary: "the TCP traffic of clients of a file server, without files: the real tbench and tbench_srv (Debian " +
			"package dbench)",
		Reproduces: "the tbench tables of Lezcano 2007: throughput in MB/s of 10^6 bytes is goodput / 8,000,000, which " +
			"that paper reports without the CPU beside it; " +
			"tbench's own Throughput has its first second in it as well, in which it writes four times as many bytes with " +
			"each operation",
		Primary: func(part.Params) string { return "goodput" },
		Why: "tbench counts whole seconds, and the first is left out; where operations are few, longer trials see more of " +
			"its load file, " +
			"whose bytes for each operation differ by 3 % between parts of 20,000",
		Whole:    true,
		Trial:    func(part.Params) time.Duration { return role(workload.Spec{}).Shortest() },
		Spins:    func(part.Params) bool { return false },
		Port:     Port,
		IPv4Only: true,
		Params: part.List{
			{
				Name: "clients", Default: "1",
				Summary: "processes of a source, each with a connection and one operation in flight, 1 to 64",
				Check:   part.CountBetween(1, mostClients),
			},
		},
		Programs: func(_ part.Params, side workload.Side) []program.Needed {
			return []program.Needed{needed(side)}
		},
		Metrics: slices.Concat(
			[]string{
				"goodput", "goodput_per_pair", "transaction_rate", "transaction_rate_per_pair", "latency_max",
				"service_demand", "cpu_per_transaction",
			},
			workload.CPUMetrics(),
		),
	}
}

func needed(side workload.Side) program.Needed {
	n := program.Needed{By: "workload tbench", Program: "tbench", Package: "dbench"}
	if side == workload.Sink {
		n.Program, n.Unasked = "tbench_srv", true // its version is that of tbench
	}
	return n
}

// role returns the common part of both ends' roles.
func role(s workload.Spec) program.Role {
	n := needed(s.Side)
	return program.Role{
		By: n.By, Program: n.Program, Package: n.Package, Local: netip.AddrPortFrom(s.Local.Addr(), Port),
		Start: launch + leftOut, End: end, Reason: reason,
	}
}

// limit returns the option -t for a run whose window has this many seconds: its own warm-up and the omitted second come
// before.
func limit(window int) (seconds int) {
	for seconds = window + 1; seconds+seconds/warmShare > window+1; seconds-- {
	}
	return seconds
}

// Open implements [workload.Workload].
func (Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	if !s.Local.Addr().Is4() {
		return nil, &linux.UnsupportedError{
			What: "open tbench at " + s.Local.Addr().String(), Missing: "IPv6 in tbench", Hint: "family: ipv4",
		}
	}
	r := role(s)
	var err error
	if r.Granted, err = sock.Grants(s.Local.Addr(), true, sock.Options{Congestion: s.Congestion}); err != nil {
		return nil, err
	}
	switch s.Side {
	case workload.Sink:
		r.Listens, r.Stop, r.Options = "tcp", program.Killed, sock.Options{Congestion: s.Congestion}
		r.Args = func(int) []string { return nil }
		return r.Open()
	case workload.Source:
		clients := s.Params.Count("clients")
		r.Congestion, r.Streams = s.Congestion, clients
		r.Before = func() error { return program.Unpace(s.Congestion) }
		r.Args = func(seconds int) []string {
			return []string{
				"-t", strconv.Itoa(limit(seconds)), "-c", loadFile, "--per-client-results", strconv.Itoa(clients),
				s.Remote.Addr().String(),
			}
		}
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			return read(said.Stdout, limit(said.Seconds), clients, sample)
		}
		return r.Open()
	}
	return nil, fmt.Errorf("open tbench: side %q (valid: source or sink)", s.Side)
}

// Metrics implements [workload.Workload].
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	var bytes, operations int64
	goodput, rates := make([]float64, len(t.Sources)), make([]float64, len(t.Sources))
	for i, s := range t.Sources {
		window := time.Duration(s.Window).Seconds()
		goodput[i], rates[i] = 8*float64(s.Bytes)/window, float64(s.Received)/window
		r.Metrics["goodput"] += goodput[i]
		r.Metrics["transaction_rate"] += rates[i]
		r.Metrics["latency_max"] = max(r.Metrics["latency_max"], s.Foreign.Max/1e9)
		bytes += s.Bytes
		operations += s.Received
	}
	if pairs := float64(len(t.Sources)); pairs > 1 {
		for name, list := range map[string][]float64{"goodput": goodput, "transaction_rate": rates} {
			r.Metrics[name+"_per_pair"] = r.Metrics[name] / pairs
			r.PerPair[name] = list
		}
	}
	cpu := t.PutCPU(r.Metrics)
	if bytes > 0 && operations > 0 {
		r.Metrics["service_demand"] = cpu / float64(bytes)
		r.Metrics["cpu_per_transaction"] = cpu / float64(operations)
	}
	return r
}

// Carried implements [workload.Carrier]. A client sends a request and waits for the answer, at least one packet in each
// direction.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	return t.Sources[i].Received, t.Sources[i].Received
}

package netperf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Driver drives workloads with netperf.
type Driver struct{}

var _ driver.Driver = Driver{}

const (
	// start is how long a client takes to begin, mostly the exchange of options over its control connection.
	start = 50 * time.Millisecond

	largest = 65507   // bytes of a datagram (RFC 791, RFC 768)
	longest = 1 << 20 // bytes of a write
)

// end returns how long a client may take to fetch the server's results: a few ms if the two have a CPU to themselves, a
// second if ten pairs take turns (see iperf3's). The receiver waits for another 4 s (PAD_TIME, src/netlib.h) if the
// last, shorter datagram of UDP_STREAM is lost, and always after TCP_CRR.
func end(workload string) time.Duration {
	const results, pad = 1450 * time.Millisecond, 4 * time.Second
	if workload == "udp-rate" || workload == "tcp-crr" {
		return results + pad
	}
	return results
}

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "netperf", Program: "netperf", Server: "netserver", Package: "netperf (Debian: component non-free)",
		AskVersion: []string{"-V"},
		Summary: "netperf of Hewlett-Packard: UDP_STREAM for udp-rate, TCP_STREAM for tcp-stream, UDP_RR, TCP_RR and " +
			"TCP_CRR for round trips and connections",
		Differs: "it has no warm-up: figures of a stream include slow start; of latencies it reports the mean and, in " +
			"whole µs, the median; it connects to one port of the sink, whereas tcp-crr uses eight in turn",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	known := []string{"payload", "mode", "response"}
	switch w.Name {
	case "udp-rate":
		if p["mode"] != "single" {
			return fmt.Errorf("driver netperf cannot drive udp-rate with mode %q (valid: mode single)", p["mode"])
		}
		known = []string{"payload", "mode"}
	case "udp-rr", "tcp-rr":
		if p["mode"] != "wait" {
			return fmt.Errorf("driver netperf cannot drive %s with mode %q (valid: mode wait)", w.Name, p["mode"])
		}
	case "tcp-crr":
	case "tcp-stream":
		if n := p.Size("message"); n < 1 || n > longest {
			return fmt.Errorf("driver netperf cannot write %d bytes at once (valid: 1 to %d)", n, longest)
		}
		if p["direction"] == "both" {
			return fmt.Errorf("driver netperf cannot drive tcp-stream with direction %q (valid: direction forward, "+
				"reverse)", p["direction"])
		}
		return d.Describe().Understands(w, p, "message", "congestion", "direction", "nodelay")
	default:
		return fmt.Errorf("driver netperf cannot drive workload %q (valid: udp-rate, tcp-stream, udp-rr, tcp-rr, "+
			"tcp-crr)", w.Name)
	}
	if n := max(p.Size("payload"), response(p)); strings.HasPrefix(w.Name, "udp") &&
		(p.Size("payload") < 1 || n > largest) {
		return fmt.Errorf("driver netperf cannot send %d bytes (valid: 1 to %d)", n, largest)
	}
	return d.Describe().Understands(w, p, append(known, "congestion")...)
}

// response returns the length of the answer to a request.
func response(p part.Params) int {
	if n := p.Size("response"); n > 0 {
		return n
	}
	return p.Size("payload") // "same", or the parameter does not exist
}

// Trial implements [driver.Driver].
func (Driver) Trial(w workload.Description, _ part.Params) time.Duration {
	return program.Role{Start: start, End: end(w.Name)}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	granted, err := driver.Grants(s, strings.HasPrefix(s.Workload, "tcp"))
	if err != nil {
		return nil, err
	}
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Reason = start, end(s.Workload), granted, reason
	family := "4"
	if s.Local.Addr().Is6() {
		family = "6"
	}
	local, remote := s.Local.Addr().String(), s.Remote.Addr().String()
	switch s.Side {
	case workload.Sink:
		// It serves the tests one by one itself (-f): children would be left behind, and their CPU time would not be
		// counted. The client receives the server's counts.
		r.Listens, r.Stop = "tcp", program.Killed
		r.Args = func(int) []string { return []string{"-D", "-f", "-" + family, "-L", local, "-p", driver.Port(s.Local)} }
		return r.Open()
	case workload.Source:
		t := testOf(s)
		r.Args = func(seconds int) []string {
			args := []string{
				"-" + family, "-H", remote + "," + family, "-L", local + "," + family, "-p", driver.Port(s.Remote), "-P", "0",
				"-l", strconv.Itoa(seconds), "-j", "-t", t.name, "--",
			}
			return append(append(args, t.options...), "-k", strings.Join(t.asks, ","))
		}
		r.Read = t.read
		return r.Open()
	}
	return nil, fmt.Errorf("open %s by netperf: side %q (valid: source or sink)", s.Workload, s.Side)
}

// A test is one of netperf's tests.
type test struct {
	name    string
	options []string
	asks    []string // output selectors (doc/netperf.html, "Omni Output Selectors")
	read    func(program.Said, *traffic.Sample, *traffic.Recorder) error
}

// testOf returns the test for a workload.
func testOf(s workload.Spec) test {
	payload := strconv.Itoa(s.Params.Size("payload"))
	// netserver listens for the test's own connection at a port other than the one of the control connection. If it
	// were the same, it would be taken, and netserver would leave the choice to the kernel, which picks a port that no
	// filter allows.
	remote := s.Remote.Port()
	if s.RemotePorts > 1 {
		remote++
	}
	to := "," + strconv.Itoa(int(remote))
	ports := []string{"-P", driver.Port(s.Local) + to}
	roundTrip := []string{"-r", payload + "," + strconv.Itoa(response(s.Params))}
	congestion := s.SocketOptions().Congestion
	if congestion != "" {
		ports = append(ports, "-K", congestion+","+congestion)
	}
	latency := []string{
		"ELAPSED_TIME", "TRANSACTION_RATE", "LOCAL_SEND_CALLS", "LOCAL_RECV_CALLS", "MEAN_LATENCY",
		"P50_LATENCY",
	}
	// The sockets of nettoll's own engine are connected (-n, -N), too.
	connected := []string{"-n", "-N"}
	switch s.Workload {
	case "udp-rate":
		return test{
			name: "UDP_STREAM", read: readDatagrams,
			// Without -R it would set SO_DONTROUTE and reach only its own subnet.
			options: slices.Concat(ports, connected, []string{"-R", "1", "-m", payload}),
			asks: []string{
				"ELAPSED_TIME", "LOCAL_SEND_THROUGHPUT", "LOCAL_SEND_CALLS", "LOCAL_BYTES_SENT",
				"REMOTE_RECV_CALLS", "REMOTE_BYTES_RECVD",
			},
		}
	case "udp-rr":
		return test{name: "UDP_RR", read: readUDP, options: slices.Concat(ports, connected, roundTrip), asks: latency}
	case "tcp-rr":
		return test{
			name: "TCP_RR", read: readRoundTrips, options: slices.Concat(ports, roundTrip, []string{"-D"}),
			asks: latency,
		}
	case "tcp-crr":
		ports[1] = to
		if n := s.LocalPorts; n > 1 {
			ports = append(ports, "-p", driver.Port(s.Local)+","+strconv.Itoa(int(s.Local.Port())+n-1))
		}
		return test{
			name: "TCP_CRR", read: readRoundTrips, options: slices.Concat(ports, roundTrip, []string{"-D"}),
			asks: latency,
		}
	}
	message := strconv.Itoa(s.Params.Size("message"))
	t := test{
		name: "TCP_STREAM", read: readStream("LOCAL_CONG_CONTROL", congestion),
		options: slices.Concat(ports, []string{"-m", message}),
		asks: []string{
			"ELAPSED_TIME", "LOCAL_SEND_THROUGHPUT", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD",
			"LOCAL_TRANSPORT_RETRANS", "LOCAL_CONG_CONTROL",
		},
	}
	if s.Params["direction"] == "reverse" {
		t.name, t.read = "TCP_MAERTS", readStream("REMOTE_CONG_CONTROL", congestion)
		t.options = slices.Concat(ports, []string{"-m", "," + message})
		t.asks = []string{
			"ELAPSED_TIME", "LOCAL_RECV_THROUGHPUT", "LOCAL_BYTES_RECVD", "REMOTE_BYTES_SENT",
			"REMOTE_TRANSPORT_RETRANS", "REMOTE_CONG_CONTROL",
		}
	}
	if s.Params.On("nodelay") {
		t.options = append(t.options, "-D")
	}
	return t
}

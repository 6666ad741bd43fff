package sockperf

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Driver drives udp-rr and udp-rate with sockperf.
type Driver struct{}

var _ driver.Driver = Driver{}

// Times of sockperf (src/client.cpp, src/defs.h).
const (
	// start is how long a client takes to begin: 0.1 s to measure its clock, 2 s of sleep after the dummies that warm up
	// the path (initBeforeLoop), and its start.
	start = 2150 * time.Millisecond
	// end is how long it may take to end: 0.1 s for late packets (cleanupAfterLoop), then its log: 0.1 s for 100,000
	// packets.
	end = 650 * time.Millisecond

	// warm and cool are what a ping-pong leaves out at its beginning and end (TEST_START_WARMUP_MSEC,
	// TEST_END_COOLDOWN_MSEC).
	warm = 400 * time.Millisecond
	cool = 50 * time.Millisecond
)

// Payload limits of sockperf: its own header, and the largest datagram (MIN_PAYLOAD_SIZE, MAX_PAYLOAD_SIZE).
const smallest, largest = 14, 65507

// Describe implements [driver.Driver].
func (Driver) Describe() driver.Description {
	return driver.Description{
		Name: "sockperf", Program: "sockperf", Package: "sockperf", IPv4Only: true,
		Summary: "sockperf of Mellanox: ping-pong for udp-rr, throughput for udp-rate",
		Differs: "its ping-pong leaves out its first 0.4 s and counts half a round trip, which is doubled here; its sink " +
			"sleeps in each receive, whereas that of udp-rate polls for about 20 µs first",
	}
}

// Serves implements [driver.Driver].
func (d Driver) Serves(w workload.Description, p part.Params) error {
	switch {
	case w.Name != "udp-rr" && w.Name != "udp-rate":
		return fmt.Errorf("driver sockperf cannot drive workload %q (valid: udp-rr, udp-rate)", w.Name)
	case w.Name == "udp-rate" && p["mode"] != "single":
		return fmt.Errorf("driver sockperf cannot drive udp-rate with mode %q (valid: mode single)", p["mode"])
	case p.Size("payload") < smallest || p.Size("payload") > largest:
		return fmt.Errorf("driver sockperf cannot send %d bytes (valid: %d to %d)", p.Size("payload"), smallest, largest)
	}
	return d.Describe().Understands(w, p, "payload", "mode")
}

// Trial implements [driver.Driver].
func (Driver) Trial(workload.Description, part.Params) time.Duration {
	return program.Role{Start: start, End: end}.Shortest()
}

// Open implements [driver.Driver].
func (d Driver) Open(s workload.Spec) (traffic.Endpoint, error) {
	if s.Local.Addr().Is6() {
		return nil, &linux.UnsupportedError{
			What: fmt.Sprintf("drive %s at %s by sockperf", s.Workload, s.Local), Missing: "IPv6 in sockperf",
			Hint: "use IPv4, or another driver",
		}
	}
	granted, err := driver.Grants(s, false)
	if err != nil {
		return nil, err
	}
	r := d.Describe().Role(s)
	r.Start, r.End, r.Granted, r.Reason = start, end, granted, reason
	pingPong := s.Workload == "udp-rr"
	var common []string
	if s.Params["mode"] == "spin" {
		common = []string{"--nonblocked"}
	}
	switch s.Side {
	case workload.Sink:
		r.Listens, r.Stop = "udp", program.Interrupted
		if pingPong {
			r.Stop = program.Killed // its count of received datagrams is not used
		}
		r.Args = func(int) []string {
			return append([]string{"server", "-i", s.Local.Addr().String(), "-p", driver.Port(s.Local)}, common...)
		}
		r.Read = readServer
		return r.Open()
	case workload.Source:
		mode := "throughput"
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			return readThroughput(said, sample)
		}
		if pingPong {
			mode = "ping-pong"
			r.Log, r.Records, r.Read = true, true, readPingPong
			common = append(common, "--full-log", program.LogPath)
		}
		r.Args = func(seconds int) []string {
			return append([]string{
				mode, "-i", s.Remote.Addr().String(), "-p", driver.Port(s.Remote), "--client_ip", s.Local.Addr().String(),
				"--client_port", driver.Port(s.Local),
				"--msg-size", strconv.Itoa(s.Params.Size("payload")), "--mps", "max", "--time", strconv.Itoa(seconds),
			}, common...)
		}
		return r.Open()
	}
	return nil, fmt.Errorf("open %s by sockperf: side %q (valid: source or sink)", s.Workload, s.Side)
}

package netperf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

const (
	maxOutput = 1 << 20
	most      = 1 << 53 // of any figure: a larger one is invalid
	longRun   = 1 << 20 // s

	// rough is the largest figure printed with two or three digits after the point that gives the run time less exactly
	// than the printed time, which is in 10 ms.
	rough = 10

	// coarse is the median below which a whole µs, the unit it is printed in, is more than 5 % of it.
	coarse = 20 * time.Microsecond

	// lostAfter is how much longer than the sum of its round trips a test must last for its last request to count as
	// lost: UDP_RR then waits until its time is up.
	lostAfter = 100 * time.Millisecond
)

// reason returns the message of netperf or netserver if one failed. Most messages are on standard error, which is
// quoted in any case.
func reason(stdout io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(stdout, maxOutput))
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(regexp.MustCompile(`(?:establish control|recv_response|remote error|netperf: send_omni|Unable to start netserver)[^\n]*`).Find(text))), " ")
}

// said are the output selectors as -k prints them: NAME=value.
type said map[string]string

func parse(r io.Reader) (said, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxOutput))
	if err != nil {
		return nil, err
	}
	s := said{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			s[name] = value
		}
	}
	return s, nil
}

// number returns the value of a selector.
func (s said) number(name string) (float64, error) {
	text, ok := s[name]
	if !ok {
		return 0, fmt.Errorf("did not print %s", name)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, fmt.Errorf("printed the invalid count %s=%.40q", name, text)
	}
	return v, nil
}

// numbers returns the values of several selectors.
func (s said) numbers(names ...string) ([]float64, error) {
	list := make([]float64, len(names))
	for i, name := range names {
		var err error
		if list[i], err = s.number(name); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// took returns how long a test took, in ns: the count divided by its rate, both as printed. If the rate is less exact,
// it is the time as printed, in s. scale is how many counts a unit of the rate is.
func took(count, rate, scale, elapsed float64) (int64, error) {
	seconds := elapsed
	if rate > rough {
		seconds = count / (rate * scale)
	}
	if !(math.Abs(seconds-elapsed) <= 0.05*elapsed+0.01) {
		return 0, fmt.Errorf("reported a run time of %g s, but its rate implies %g s", elapsed, seconds)
	}
	return program.Lasted(seconds)
}

const megabit = 1e6 / 8 // bytes

// readDatagrams reads what a UDP_STREAM sent and what its receiver received.
func readDatagrams(from program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	all, err := parse(from.Stdout)
	if err != nil {
		return err
	}
	n, err := all.numbers("ELAPSED_TIME", "LOCAL_SEND_THROUGHPUT", "LOCAL_BYTES_SENT", "LOCAL_SEND_CALLS",
		"REMOTE_RECV_CALLS", "REMOTE_BYTES_RECVD")
	if err != nil {
		return err
	}
	if s.Window, err = took(n[2], n[1], megabit, n[0]); err != nil {
		return err
	}
	s.Span = s.Window
	s.Sent, s.Total = int64(n[3]), int64(n[3])
	if n[4] > n[3] {
		return fmt.Errorf("reported that %g of %g datagrams arrived", n[4], n[3])
	}
	s.Foreign.Peer = &traffic.Sample{Received: int64(n[4]), Total: int64(n[4]), Bytes: int64(n[5])}
	return nil
}

// readStream reads how much a stream carried. netperf reports only totals: the rate counts as steady, and slow start is
// included. sender is the selector of the sender's congestion control, which netperf does not enforce.
func readStream(sender, congestion string) func(program.Said, *traffic.Sample, *traffic.Recorder) error {
	return func(from program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
		all, err := parse(from.Stdout)
		if err != nil {
			return err
		}
		if got := all[sender]; congestion != "" && got != congestion {
			return fmt.Errorf("sent with congestion control %.20q instead of %q", got, congestion)
		}
		reverse := strings.HasPrefix(sender, "REMOTE")
		rate, counted, received, resent := "LOCAL_SEND_THROUGHPUT", "LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD",
			"LOCAL_TRANSPORT_RETRANS"
		if reverse {
			rate, counted, received, resent = "LOCAL_RECV_THROUGHPUT", "LOCAL_BYTES_RECVD", "LOCAL_BYTES_RECVD",
				"REMOTE_TRANSPORT_RETRANS"
		}
		n, err := all.numbers("ELAPSED_TIME", rate, counted, received, resent)
		if err != nil {
			return err
		}
		window, err := took(n[2], n[1], megabit, n[0])
		if err != nil {
			return err
		}
		even := make([]int64, traffic.Slices+1)
		for i := range even {
			even[i] = int64(n[3] * float64(i) / traffic.Slices)
		}
		reader := traffic.Sample{Bytes: int64(n[3]), Series: traffic.Series{traffic.SeriesDelivered: even}}
		writer := traffic.Sample{}
		writer.Count(traffic.CountResent, int64(n[4]))
		if reverse {
			reader, writer = writer, reader
		}
		*s = writer
		s.Window, s.Span = window, window
		s.Foreign.Peer = &reader
		return nil
	}
}

// readUDP reads the output of UDP_RR.
func readUDP(from program.Said, s *traffic.Sample, r *traffic.Recorder) error {
	if err := readRoundTrips(from, s, r); err != nil {
		return err
	}
	if silent := float64(s.Window) - float64(s.Sent)*s.Foreign.Mean; silent > float64(lostAfter) {
		s.Received--
		s.Doubt = "a response was lost, and netperf waited for it until the end of its time: nettoll itself " +
			"(driver=nettoll) does not"
	}
	return nil
}

// readRoundTrips reads the output of a request/response test with one request in flight.
func readRoundTrips(from program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	all, err := parse(from.Stdout)
	if err != nil {
		return err
	}
	n, err := all.numbers("ELAPSED_TIME", "TRANSACTION_RATE", "LOCAL_SEND_CALLS", "MEAN_LATENCY", "P50_LATENCY")
	if err != nil {
		return err
	}
	requests, mean, median := n[2], n[3]*1e3, n[4]*1e3 // ns
	if requests < 1 || mean <= 0 || mean > longRun*1e9 || median > longRun*1e9 {
		return errors.New("counted no round trip")
	}
	// Each request is one system call, whether or not the last one was answered.
	if s.Window, err = took(requests, n[1], 1, n[0]); err != nil {
		return err
	}
	s.Span = s.Window
	s.Sent, s.Received, s.Total = int64(requests), int64(requests), int64(requests)
	// A median of less than 1 µs is printed as 0.
	s.Foreign.Mean, s.Foreign.Median = mean, max(median, 500)
	if time.Duration(median) < coarse {
		s.Doubt = "netperf reports the median in whole µs, a resolution coarser than 5 %: driver=nettoll has a finer one"
	}
	return nil
}

package wrk

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

const (
	maxOutput = 64 << 10 // bytes; its output has a dozen lines

	most = 1 << 53 // of any count: wrk cannot make more requests

	// answers is the share of a trial that must have answers. wrk does not report requests without an answer, and its
	// rate leaves out the periods of 100 ms without one.
	answers = 2. / 3
)

// said is the output of one run (src/wrk.c, main). format_time_us prints times: from 1 s on in units of 60.
type said struct {
	requests     int64
	rate         float64 // requests/s
	answered     float64 // requests/s, the mean of those 100 ms that had answers (record_rate)
	mean, median float64 // ns
	failed       int64   // answers with status 400 or above
	broken       string  // what happened to connections: "connect 0, read 3, write 0"; "" if they all lasted
	late         int64   // answers that took more than 2 s: no latency includes them
}

func parse(text string) (said, error) {
	var s said
	var err error
	if s.requests, err = count(text, `(?m)^  ([0-9]{1,16}) requests in [0-9.]+[a-z]+, [0-9.]+[KMGTP]?B read$`,
		"requests"); err != nil {
		return s, err
	}
	rate, err := find(text, `(?m)^Requests/sec: +([0-9]{1,16}\.[0-9]{2})$`, "rate")
	if err != nil {
		return s, err
	}
	if s.rate, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return s, fmt.Errorf("printed an invalid rate: %w", err)
	}
	if s.answered, err = number(text, `(?m)^    Req/Sec +([0-9]{1,9}\.[0-9]{2})([kMGTP]?) `, "rate of 100 ms",
		metrics()); err != nil {
		return s, err
	}
	if s.mean, err = number(text, `(?m)^    Latency +([0-9]{1,9}\.[0-9]{2})(us|ms|s|m|h) `, "mean latency",
		durations()); err != nil {
		return s, err
	}
	if s.median, err = number(text, `(?m)^     50% +([0-9]{1,9}\.[0-9]{2})(us|ms|s|m|h)$`, "median latency",
		durations()); err != nil {
		return s, err
	}
	if m := regexp.MustCompile(`(?m)^  Socket errors: (connect [0-9]{1,10}, read [0-9]{1,10}, write [0-9]{1,10}), timeout ([0-9]{1,10})$`).FindStringSubmatch(text); m != nil {
		if m[1] != "connect 0, read 0, write 0" {
			s.broken = m[1]
		}
		if s.late, err = strconv.ParseInt(m[2], 10, 64); err != nil {
			return s, err
		}
	}
	if regexp.MustCompile(`(?m)^  Non-2xx`).MatchString(text) {
		if s.failed, err = count(text, `(?m)^  Non-2xx or 3xx responses: ([0-9]{1,10})$`, "failed requests"); err != nil {
			return s, err
		}
	}
	if s.requests > most || s.failed > s.requests {
		return s, fmt.Errorf("reported that %d of %d requests failed", s.failed, s.requests)
	}
	return s, nil
}

// find finds what a pattern matches.
func find(text, pattern, what string) ([]string, error) {
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("did not print its %s", what)
	}
	return m, nil
}

func count(text, pattern, what string) (int64, error) {
	m, err := find(text, pattern, what)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(m[1], 10, 64)
}

// number reads a number with a unit behind it.
func number(text, pattern, what string, units map[string]float64) (float64, error) {
	m, err := find(text, pattern, what)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("printed an invalid %s: %w", what, err)
	}
	return v * units[m[2]], nil
}

// durations returns the units of format_time_us, in ns, and metrics those of format_metric.
func durations() map[string]float64 {
	return map[string]float64{"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}
}

func metrics() map[string]float64 {
	return map[string]float64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
}

// read fills the sample of a source.
func read(out program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	text, err := io.ReadAll(io.LimitReader(out.Stdout, maxOutput))
	if err != nil {
		return err
	}
	run, err := parse(string(text))
	if err != nil {
		return err
	}
	switch {
	case run.broken != "":
		return errors.New("had errors of its connections: " + run.broken)
	case run.requests == 0 || run.rate == 0:
		return errors.New("got no answer")
	case run.failed == run.requests:
		return fmt.Errorf("got %d answers, all with status 400 or above", run.requests)
	}
	if run.rate < answers*run.answered {
		return fmt.Errorf("got %.0f answers per second while the server answered, but %.0f over the whole trial: the "+
			"server stalled", run.answered, run.rate)
	}
	took, err := program.Lasted(float64(run.requests) / run.rate)
	if err != nil {
		return err
	}
	s.Sent, s.Received, s.Errors, s.Total = run.requests, run.requests-run.failed, run.failed, run.requests
	s.Window, s.Span = took, took
	s.Foreign.Mean, s.Foreign.Median = run.mean, run.median
	if run.late > 0 {
		s.Doubt = "some answers took more than 2 s: wrk excludes them from latency (driver=nettoll counts them)"
	}
	return nil
}

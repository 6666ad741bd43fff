package dnsperf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

const (
	maxLine   = 4096    // bytes
	maxOutput = 1 << 20 // bytes; its output has a dozen lines
	longest   = 1e6     // s: more than the longest run it accepts
)

// statistics are the figures that dnsperf prints at its end (src/dnsperf.c, print_statistics).
type statistics struct {
	sent, completed, lost, interrupted int64   // queries
	right, wrong                       int64   // completed queries: with NOERROR, with another response code
	took                               float64 // s
	mean                               float64 // s
	reconnections                      int64
}

// read fills the sample of a source.
func read(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	run, err := parse(said.Stdout)
	if err != nil {
		return err
	}
	switch {
	case run.sent == 0:
		return errors.New("sent no query: there was no connection")
	case run.completed == 0:
		return errors.New("got no answer")
	case run.right == 0:
		return errors.New("got only answers that report a failure")
	}
	s.Sent, s.Received, s.Errors, s.Total = run.sent-run.interrupted, run.right, run.wrong, run.sent
	if s.Window, err = program.Lasted(run.took); err != nil {
		return err
	}
	s.Span = s.Window
	s.Foreign.Mean = run.mean * 1e9
	if run.reconnections > 0 {
		s.Doubt = "dnsperf reconnected in the middle of a trial: use driver=nettoll if that is often so"
	}
	return nil
}

// parse reads all of its output.
func parse(stdout io.Reader) (s statistics, err error) {
	codes := ""
	counts := map[string]*int64{
		"Queries sent": &s.sent, "Queries completed": &s.completed, "Queries lost": &s.lost,
		"Queries interrupted": &s.interrupted, "Reconnections": &s.reconnections,
	}
	found := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(stdout, maxOutput))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if value = strings.TrimSpace(value); !ok || found[name] {
			continue // the second "Average Latency" is for connections
		}
		found[name] = true
		switch name {
		case "Response codes":
			codes = value
		case "Run time (s)":
			s.took, err = seconds(value)
		case "Average Latency (s)":
			value, _, _ = strings.Cut(value, " ")
			s.mean, err = seconds(value)
		default:
			if count := counts[name]; count != nil {
				value, _, _ = strings.Cut(value, " ")
				*count, err = number(value)
			}
		}
		if err != nil {
			return s, fmt.Errorf("printed %.100q: %w", line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("printed unreadable output: %w", err)
	}
	for _, name := range []string{
		"Queries sent", "Queries completed", "Queries lost", "Response codes", "Run time (s)", "Average Latency (s)",
	} {
		if !found[name] {
			return s, fmt.Errorf("did not print its %q", name)
		}
	}
	if s.right, s.wrong, err = responses(codes); err != nil {
		return s, err
	}
	return s, s.check()
}

// check returns an error if the figures are impossible.
func (s statistics) check() error {
	switch {
	case s.sent != s.completed+s.lost+s.interrupted:
		return fmt.Errorf("reported inconsistent counts: %d queries sent, %d completed, %d lost, %d interrupted", s.sent,
			s.completed, s.lost, s.interrupted)
	case s.completed != s.right+s.wrong:
		return fmt.Errorf("reported %d response codes for %d answers", s.right+s.wrong, s.completed)
	case s.took <= 0 && s.sent > 0:
		return errors.New("reported a run time of 0")
	}
	return nil
}

// responses reads "NOERROR 505 (100.00%), NXDOMAIN 3 (0.60%)", or an empty text.
func responses(text string) (right, wrong int64, err error) {
	for code := range strings.SplitSeq(text, ", ") {
		if code == "" {
			continue
		}
		m := regexp.MustCompile(`^([A-Z0-9]{1,20}) ([0-9]{1,15}) \(`).FindStringSubmatch(code)
		if m == nil {
			return 0, 0, fmt.Errorf("printed the invalid response codes %.100q", text)
		}
		n, err := number(m[2])
		if err != nil {
			return 0, 0, err
		}
		if m[1] == "NOERROR" {
			right += n
		} else {
			wrong += n
		}
	}
	return right, wrong, nil
}

// seconds reads a time as dnsperf prints it, with six decimals.
func seconds(text string) (float64, error) {
	if !regexp.MustCompile(`^[0-9]{1,9}\.[0-9]{6}$`).MatchString(text) {
		return 0, fmt.Errorf("%.40q is not a time", text)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && v > longest {
		err = fmt.Errorf("%.40q is too long", text)
	}
	return v, err
}

// number reads a count.
func number(text string) (int64, error) {
	if !regexp.MustCompile(`^[0-9]{1,15}$`).MatchString(text) {
		return 0, fmt.Errorf("%.40q is not a number", text)
	}
	return strconv.ParseInt(text, 10, 64)
}

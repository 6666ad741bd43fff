package ping

import (
	"bufio"
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
	maxLine   = 4096      // bytes
	maxOutput = 256 << 20 // bytes
	longest   = 1 << 20   // s

	// coarse is the round trip below which a whole µs, the unit it is printed in, is more than 5 % of it.
	coarse = 20 * time.Microsecond
)

// reason returns ping's message if it fails. Most messages are on standard error, which is quoted in any case.
func reason(stdout io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(stdout, maxLine))
	if err != nil {
		return ""
	}
	return string(regexp.MustCompile(`[^\n]*(?:[Uu]nreachable|exceeded|Frag needed|too long)[^\n]*`).Find(text))
}

// read reads each round trip and the counts at the end.
func read(said program.Said, s *traffic.Sample, r *traffic.Recorder) error {
	lines := bufio.NewScanner(io.LimitReader(said.Stdout, maxOutput))
	lines.Buffer(nil, maxLine)
	summary := regexp.MustCompile(`^([0-9]{1,12}) packets transmitted, ([0-9]{1,12}) received`)
	told := false
	var answers, short int64
	for lines.Scan() {
		line := lines.Text()
		if m := summary.FindStringSubmatch(line); m != nil {
			s.Sent, _ = strconv.ParseInt(m[1], 10, 64) // the pattern allows a few digits only
			s.Received, _ = strconv.ParseInt(m[2], 10, 64)
			told = true
			continue
		}
		_, rest, ok := strings.Cut(line, " time=")
		if !ok || strings.HasSuffix(line, "(DUP!)") {
			continue
		}
		ns, err := milliseconds(rest)
		if err != nil {
			return fmt.Errorf("printed %.80q: %w", line, err)
		}
		r.Record(ns)
		answers++
		if ns < int64(coarse) {
			short++
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return fmt.Errorf("printed unreadable output: %w", err)
	case !told:
		return errors.New("did not print how many requests it sent")
	case s.Received > s.Sent || s.Received != answers:
		return fmt.Errorf("reported that %d of %d requests were answered, but printed %d "+
			"answers", s.Received, s.Sent, answers)
	case s.Received == 0:
		return errors.New("got no answer")
	}
	s.Total = s.Sent
	if s.Sent == s.Received+1 {
		s.Sent-- // it was on its way when the time was up
	}
	s.Window = int64(said.Seconds) * int64(time.Second) // -w
	s.Span = s.Window
	if 2*short > answers {
		s.Doubt = "ping reports round trips in whole µs, a resolution coarser than 5 % of most of them: driver=nettoll " +
			"has a finer one"
	}
	return nil
}

// milliseconds reads "0.038 ms" as ns.
func milliseconds(text string) (int64, error) {
	number, ok := strings.CutSuffix(text, " ms")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v >= 0 && v <= 1e3*longest) {
		return 0, errors.New("no time in ms")
	}
	return int64(math.Round(v * 1e6)), nil
}

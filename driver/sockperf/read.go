package sockperf

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
	// lostAfter is how much shorter than it should be a ping-pong must be for its last request to count as lost. Less
	// than that is missing if other work takes the CPU away at the edges of the counted time.
	lostAfter = 100 * time.Millisecond

	// rough is the rate, in 1/s, below which the rate as printed, a whole number, gives the run time less exactly than
	// the printed time, which is in ms.
	rough = 1000

	maxLine = 4096 // bytes
)

// reason returns sockperf's message if it fails.
func reason(stdout io.Reader) string {
	text, err := io.ReadAll(stdout)
	if err != nil {
		return ""
	}
	return string(regexp.MustCompile(`ERROR: [^\n]*(?:\n \([^\n]*)?|'-[^\n]*' [^\n]*|No (?:messages|valid)[^\n]*`).Find(text))
}

// readPingPong reads the log of a ping-pong. Each line after a heading is an answered packet, with its number and the
// times of sending and receiving in s. The lines before the heading are also printed. A packet that is not answered
// stops the client for good: it waits until its time is up.
func readPingPong(said program.Said, s *traffic.Sample, r *traffic.Recorder) error {
	var first, last, took float64 // s
	rows, table := int64(0), false
	lines := bufio.NewScanner(said.Log)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "packet, txTime(sec), rxTime(sec)"):
			table = true
		case table:
			number, rest, _ := strings.Cut(line, ", ")
			if _, err := strconv.ParseUint(number, 10, 64); err != nil {
				table = false // the line below the table
				continue
			}
			tx, rx, err := times(rest)
			if err != nil {
				return fmt.Errorf("logged %.100q: %w", line, err)
			}
			if rows == 0 {
				first = tx
			}
			last = max(last, rx)
			rows++
			r.Record(ns(rx - tx))
		case strings.Contains(line, "[Total Run]"):
			var err error
			if took, err = number(line, "RunTime"); err != nil {
				return err
			}
			sent, err := number(line, "SentMessages")
			if err != nil {
				return err
			}
			s.Total = int64(sent)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("wrote an unreadable log: %w", err)
	}
	if rows == 0 {
		return errors.New("logged no round trip")
	}
	s.Sent, s.Received = rows, rows
	var err error
	if s.Window, err = program.Lasted(last - first); err != nil {
		return err
	}
	if s.Span, err = program.Lasted(took); err != nil {
		return err
	}
	if silent := took - (last - first) - (warm + cool).Seconds(); silent > lostAfter.Seconds() {
		s.Sent++
		s.Doubt = "a response was lost, and sockperf waited for it until the end of its time: nettoll itself " +
			"(driver=nettoll) does not"
	}
	return nil
}

// ns turns seconds into nanoseconds.
func ns(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

// times reads "2.409690379, 2.409764992, 37.306".
func times(rest string) (tx, rx float64, err error) {
	fields := strings.Split(rest, ", ")
	if len(fields) != 3 {
		return 0, 0, fmt.Errorf("%d columns after the first instead of 3", len(fields))
	}
	if tx, err = decimal(fields[0]); err != nil {
		return 0, 0, err
	}
	if rx, err = decimal(fields[1]); err != nil {
		return 0, 0, err
	}
	if rx < tx {
		return 0, 0, errors.New("received before it was sent")
	}
	return tx, rx, nil
}

// longest, in s, is more than sockperf accepts as a run time, and most is more than it can send: a larger figure is
// invalid.
const longest, most = 36000000, 1 << 53

// decimal reads a time in s.
func decimal(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	if !(v >= 0 && v <= longest) {
		return 0, fmt.Errorf("%v is not a time in seconds", v)
	}
	return v, nil
}

// number reads the value of NAME from a line with "NAME=1.001".
func number(line, name string) (float64, error) {
	_, rest, ok := strings.Cut(line, name+"=")
	if !ok {
		return 0, fmt.Errorf("logged %.100q: no %s", line, name)
	}
	digits := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	v, err := strconv.ParseFloat(rest, 64)
	if err != nil || v > most {
		return 0, fmt.Errorf("logged %.100q: %s is not a number", line, name)
	}
	return v, nil
}

// readThroughput reads how many datagrams a throughput test sent, and in which time: their number divided by their
// rate, which is more exact than the time as printed.
func readThroughput(said program.Said, s *traffic.Sample) error {
	text, err := io.ReadAll(said.Stdout)
	if err != nil {
		return err
	}
	sent := regexp.MustCompile(`Total of ([0-9]{1,15}) messages sent in ([0-9]{1,8}\.[0-9]{1,9}) sec`).FindSubmatch(text)
	rate := regexp.MustCompile(`Message Rate is ([0-9]{1,15}) \[msg/sec\]`).FindSubmatch(text)
	if sent == nil || rate == nil {
		return errors.New("did not print what it sent")
	}
	if s.Sent, err = strconv.ParseInt(string(sent[1]), 10, 64); err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(string(sent[2]), 64)
	if err != nil {
		return err
	}
	perSecond, err := strconv.ParseFloat(string(rate[1]), 64)
	if err != nil {
		return err
	}
	if perSecond > rough {
		seconds = float64(s.Sent) / perSecond
	}
	if s.Window, err = program.Lasted(seconds); err != nil {
		return err
	}
	s.Total = s.Sent
	s.Span = s.Window
	return nil
}

// readServer reads how many datagrams came to a server.
func readServer(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	text, err := io.ReadAll(said.Stdout)
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`(?:Total ([0-9]{1,15}) messages received|(No messages) were received)`).FindSubmatch(text)
	if m == nil {
		return errors.New("did not print what it received")
	}
	if len(m[1]) > 0 {
		if s.Received, err = strconv.ParseInt(string(m[1]), 10, 64); err != nil {
			return err
		}
	}
	s.Total = s.Received
	s.Span = int64(time.Duration(said.Seconds) * time.Second)
	return nil
}

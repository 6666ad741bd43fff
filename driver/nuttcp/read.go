package nuttcp

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

const (
	maxOutput = 16 << 20 // bytes: a day of intervals
	most      = 1 << 53  // of any figure: a larger one is invalid
	megabyte  = 1 << 20  // bytes, as nuttcp defines it
)

// reason returns why nuttcp failed.
func reason(stdout io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(stdout, maxOutput))
	if err != nil {
		return ""
	}
	return string(regexp.MustCompile(`Error: [^\n]*(?:\nerrno=[^\n]*)?`).Find(text))
}

// figures are what transmitter ("nuttcp-t") or receiver ("nuttcp-r") prints: NAME=value.
type figures map[string]float64

// output is the output of nuttcp with -fparse -v -i.
type output struct {
	transmitter, receiver figures
	intervals             []figures
}

func parse(r io.Reader) (output, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxOutput))
	if err != nil {
		return output{}, err
	}
	o := output{transmitter: figures{}, receiver: figures{}}
	for line := range strings.Lines(string(text)) {
		who, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		var into figures
		switch {
		case ok && who == "nuttcp-t":
			into = o.transmitter
		case ok && who == "nuttcp-r":
			into = o.receiver
		case strings.HasPrefix(line, "megabytes="):
			into, rest = figures{}, line
			o.intervals = append(o.intervals, into)
		default:
			continue
		}
		for word := range strings.FieldsSeq(rest) {
			name, value, _ := strings.Cut(word, "=")
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				continue // it is text
			}
			if !(v >= 0 && v <= most) {
				return o, fmt.Errorf("printed the invalid count %.80q", word)
			}
			into[name] = v
		}
	}
	return o, nil
}

// bytes returns how many bytes went through an end, and in how many seconds: the bytes divided by their rate, which is
// more exact than the time as printed.
func (e figures) bytes(who string) (bytes, seconds float64, err error) {
	for _, name := range []string{"megabytes", "real_seconds", "rate_KBps"} {
		if _, ok := e[name]; !ok {
			return 0, 0, fmt.Errorf("did not print %s of its %s", name, who)
		}
	}
	bytes, seconds = e["megabytes"]*megabyte, e["real_seconds"]
	if e["rate_KBps"] > 1 {
		seconds = bytes / 1024 / e["rate_KBps"]
	}
	if !(math.Abs(seconds-e["real_seconds"]) <= 0.05*e["real_seconds"]+0.01) {
		return 0, 0, fmt.Errorf("reported that its %s took %g s, but its rate implies %g s", who, e["real_seconds"], seconds)
	}
	return bytes, seconds, nil
}

// readDatagrams reads how many datagrams were sent and how many arrived. Both are the receiver's counts: the
// transmitter's last datagrams contain how many there were.
func readDatagrams(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	o, err := parse(said.Stdout)
	if err != nil {
		return err
	}
	_, seconds, err := o.transmitter.bytes("transmitter")
	if err != nil {
		return err
	}
	bytes, _, err := o.receiver.bytes("receiver")
	if err != nil {
		return err
	}
	packets, counted := o.receiver["pkt"]
	dropped, told := o.receiver["drop"]
	if !counted || !told || dropped > packets {
		return fmt.Errorf("did not print how many datagrams arrived (pkt=%g drop=%g)", packets, dropped)
	}
	s.Sent, s.Total = int64(packets), int64(packets)
	if s.Window, err = program.Lasted(seconds); err != nil {
		return err
	}
	s.Span = s.Window
	s.Foreign.Peer = &traffic.Sample{
		Received: int64(packets - dropped), Total: int64(packets - dropped), Bytes: int64(bytes),
	}
	return nil
}

// readStream reads how much a stream carried, as its receiver reports it.
func readStream(reverse bool) func(program.Said, *traffic.Sample, *traffic.Recorder) error {
	return func(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
		o, err := parse(said.Stdout)
		if err != nil {
			return err
		}
		bytes, seconds, err := o.receiver.bytes("receiver")
		if err != nil {
			return err
		}
		curve := driver.Curve{{}}
		for _, i := range o.intervals {
			last := curve[len(curve)-1]
			next := driver.Point{At: last.At + i["real_sec"], Bytes: last.Bytes + i["megabytes"]*megabyte}
			if next.At < seconds && next.Bytes <= bytes { // the last one may end with the stream
				curve = append(curve, next)
			}
		}
		curve = append(curve, driver.Point{At: seconds, Bytes: bytes})
		// Traffic that was on its way when the time was up is not a slice of its own.
		length := min(seconds, float64(said.Seconds))
		window, err := program.Lasted(length)
		if err != nil {
			return err
		}
		if bytes <= 0 {
			return errors.New("reported that nothing arrived")
		}
		reader := traffic.Sample{Bytes: int64(bytes), Series: curve.Delivered(length)}
		writer := traffic.Sample{}
		writer.Count(traffic.CountResent, int64(o.transmitter["retrans"]))
		if reverse {
			reader, writer = writer, reader
		}
		*s = writer
		s.Window, s.Span = window, window
		s.Foreign.Peer = &reader
		return nil
	}
}

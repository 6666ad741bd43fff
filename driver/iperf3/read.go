package iperf3

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// output is the part of iperf3's --json output that is used.
type output struct {
	Error     string `json:"error"`
	Intervals []struct {
		Sum sum `json:"sum"`
	} `json:"intervals"`
	End struct {
		Streams []struct {
			UDP struct {
				OutOfOrder float64 `json:"out_of_order"`
			} `json:"udp"`
		} `json:"streams"`
		Sent sum `json:"sum_sent"`
	} `json:"end"`
}

// reason returns why iperf3 failed.
func reason(stdout io.Reader) string {
	var o output
	_ = json.NewDecoder(io.LimitReader(stdout, maxOutput)).Decode(&o) // output that is not JSON has no reason
	return o.Error
}

// sum is one interval of all streams together, or all intervals.
type sum struct {
	Start       float64 `json:"start"` // s
	End         float64 `json:"end"`   // s
	Bytes       float64 `json:"bytes"`
	Packets     float64 `json:"packets"`     // reported by a sender
	Retransmits float64 `json:"retransmits"` // reported by a sender of a stream
}

const (
	maxOutput = 64 << 20 // bytes: more than an hour of intervals
	most      = 1 << 53  // of any figure: a larger one is invalid
	longest   = 1 << 20  // s
)

// read decodes the output and checks that its intervals follow each other.
func read(r io.Reader) (output, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxOutput))
	if err != nil {
		return output{}, err
	}
	var o output
	if err := json.Unmarshal(text, &o); err != nil {
		return output{}, fmt.Errorf("did not print JSON: %w", err)
	}
	if o.Error != "" {
		return output{}, errors.New("gave up") // the reason is quoted in any case
	}
	if len(o.Intervals) == 0 {
		return output{}, errors.New("reported no interval")
	}
	var before, bytes, packets float64
	for _, i := range o.Intervals {
		s := i.Sum
		if s.Start < before || s.End < s.Start || s.End > longest || s.Bytes < 0 || s.Bytes > most || s.Packets < 0 ||
			s.Packets > most {
			return output{}, fmt.Errorf("reported an invalid interval from %g to %g s with %g bytes and %g packets, after one "+
				"to %g s",
				s.Start, s.End, s.Bytes, s.Packets, before)
		}
		before = s.End
		bytes += s.Bytes
		packets += s.Packets
	}
	for _, n := range []float64{bytes, packets, o.End.Sent.Retransmits, o.outOfOrder()} {
		if n < 0 || n > most {
			return output{}, fmt.Errorf("reported the invalid count %g of bytes, packets, or segments retransmitted or out of "+
				"order", n)
		}
	}
	if before <= 0 {
		return output{}, errors.New("reported intervals of length 0")
	}
	return o, nil
}

func (o output) outOfOrder() float64 {
	var n float64
	for _, s := range o.End.Streams {
		n += s.UDP.OutOfOrder
	}
	return n
}

// readClient reads what a sender sent.
func readClient(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
	o, err := read(said.Stdout)
	if err != nil {
		return err
	}
	var packets float64
	for _, i := range o.Intervals {
		packets += i.Sum.Packets
	}
	s.Sent, s.Total = int64(packets), int64(packets)
	s.Count(traffic.CountResent, int64(o.End.Sent.Retransmits))
	s.Span, err = program.Lasted(o.Intervals[len(o.Intervals)-1].Sum.End)
	return err
}

// readServer reads what a receiver received.
func readServer(spec workload.Spec) func(program.Said, *traffic.Sample, *traffic.Recorder) error {
	return func(said program.Said, s *traffic.Sample, _ *traffic.Recorder) error {
		o, err := read(said.Stdout)
		if err != nil {
			return err
		}
		curve := o.curve()
		last := curve[len(curve)-1]
		s.Bytes = int64(last.Bytes)
		length := last.At
		if spec.Workload == "tcp-stream" {
			// Traffic that was on its way when the time was up is not a slice of its own.
			length = min(length, float64(said.Seconds))
			s.Series = curve.Delivered(length)
		} else {
			// Not end.sum: versions differ in which of its figures count packets sent, received and lost.
			s.Received = int64(last.Bytes) / int64(spec.Params.Size("payload"))
			s.Total = s.Received
			s.Count(traffic.CountReordered, int64(o.outOfOrder()))
		}
		s.Window, err = program.Lasted(length)
		s.Span = s.Window
		return err
	}
}

// curve returns how many bytes had arrived by the end of each interval.
func (o output) curve() driver.Curve {
	curve := driver.Curve{{}}
	for _, i := range o.Intervals {
		curve = append(curve, driver.Point{At: i.Sum.End, Bytes: curve[len(curve)-1].Bytes + i.Sum.Bytes})
	}
	return curve
}

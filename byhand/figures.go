package byhand

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Result holds the results of a source, in base units, under the names that its workload declares.
type Result struct {
	Session
	Intervals []Interval         `json:"intervals"`
	Metrics   map[string]float64 `json:"metrics"` // over all intervals
	Limit     workload.Limit     `json:"limit,omitempty"`
	Warnings  []string           `json:"warnings"`
}

// Interval is one trial.
type Interval struct {
	Start    float64            `json:"start"`    // s since the first one began
	Duration float64            `json:"duration"` // s from opening to close
	Window   float64            `json:"window"`   // s that counted
	Metrics  map[string]float64 `json:"metrics"`
	Limit    workload.Limit     `json:"limit,omitempty"`
	Failure  string             `json:"failure,omitempty"` // why there are no metrics
	Warnings []string           `json:"warnings,omitempty"`

	sent, total, bytes float64 // denominators of shares, times per packet and times per byte
	silent             bool    // something was sent, and nothing arrived on either side
}

// note makes an interval from a trial, and keeps its durations for the sum.
func (s *source) note(t workload.Trial) Interval {
	in := Interval{Duration: t.Length.Seconds(), Window: t.Window.Seconds(), Metrics: map[string]float64{}}
	arrived, recorded := 0.0, false
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		for _, one := range side {
			in.sent += float64(one.Sent)
			in.total += float64(one.Total)
			in.bytes += float64(one.Bytes)
			arrived += float64(one.Received)
		}
	}
	for _, q := range []traffic.Quantity{traffic.Latency, traffic.Connect} { // others are also of what was sent
		recorded = recorded || t.Histograms[q] != nil
	}
	in.Failure = t.Failure()
	// If a stream fails, its own message says more.
	in.silent = in.total > 0 && arrived == 0 && in.bytes == 0 && !recorded && (in.Failure == "" || !s.stream())
	if in.Failure != "" {
		return in
	}
	r, err := metrics(s.o.Workload, t)
	if err != nil {
		in.Failure = err.Error()
		return in
	}
	in.Metrics, in.Limit, in.Warnings = r.Metrics, r.Limit, r.Warnings
	delete(in.Metrics, "cpu_softirqd") // these threads are not observed here
	if s.alone {
		delete(in.Metrics, "cpu_sink")
	}
	// JSON cannot represent these values
	maps.DeleteFunc(in.Metrics, func(_ string, x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if r.Window > 0 {
		in.Window = r.Window.Seconds()
	}
	putDurations(s.known, in.Metrics, t.Histograms)
	for q, h := range t.Histograms {
		if h == nil {
			continue
		}
		if s.sums[q] == nil {
			s.sums[q] = traffic.NewHistogram()
		}
		s.sums[q].Merge(h)
	}
	return in
}

// oneWay is the prefix of metrics that compare the clocks of both ends.
const oneWay = "oneway_latency"

// Primary returns the primary metric of a workload or, if that requires one clock for both ends, its jitter.
func Primary(load workload.Workload, params part.Params) string {
	if primary := load.Describe().Primary(params); !strings.HasPrefix(primary, oneWay) {
		return primary
	}
	return "jitter"
}

// stream reports whether the workload's traffic goes over connections, which have a congestion control.
func (s *source) stream() bool {
	_, has := s.o.Params["congestion"]
	return has
}

// metrics asks the workload for the metrics of a trial. The samples from the other end may be anything.
func metrics(load workload.Workload, t workload.Trial) (r workload.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("samples that make no sense: %v", p)
		}
	}()
	return load.Metrics(t), nil
}

// putDurations writes the mean and maximum of each measured duration, and the percentiles for which there are enough
// samples (measure.MinSamples).
func putDurations(known measure.Vocabulary, metrics map[string]float64,
	of [traffic.Quantities]*hdrhistogram.Histogram,
) {
	for q, h := range of {
		if h == nil || h.TotalCount() == 0 {
			continue
		}
		put := func(what string, ns float64) {
			if name := traffic.Quantity(q).Name() + "_" + what; declared(known, name) {
				metrics[name] = ns / 1e9
			}
		}
		put("mean", h.Mean())
		put("max", float64(h.Max()))
		for _, digits := range []string{"50", "90", "99", "999"} {
			share, _ := strconv.ParseFloat("0."+digits, 64)
			if h.TotalCount() >= measure.MinSamples(share) {
				put("p"+digits, float64(h.ValueAtQuantile(100*share)))
			}
		}
	}
}

func declared(known measure.Vocabulary, metric string) bool {
	return slices.ContainsFunc(known.All(), func(m measure.Metric) bool { return m.Name == metric })
}

// sum computes the figures of all intervals: rates from sums, percentiles from the merged histograms.
func (r *Result) sum(known measure.Vocabulary, durations [traffic.Quantities]*hdrhistogram.Histogram) {
	r.Metrics = map[string]float64{}
	weights := map[string]float64{}
	limits := map[workload.Limit]int{}
	said := map[string]int{}
	var order []string // order of the messages
	for _, in := range r.Intervals {
		for name, value := range in.Metrics {
			switch name {
			case "retransmits", "ports_busy":
				r.Metrics[name] += value
				continue
			case "backlog":
				r.Metrics[name] = max(r.Metrics[name], value)
				continue
			}
			w := in.weight(known, name)
			r.Metrics[name] += w * value
			weights[name] += w
		}
		limits[in.Limit]++
		if limits[in.Limit] > limits[r.Limit] {
			r.Limit = in.Limit
		}
		warnings := in.Warnings
		if in.Failure != "" {
			warnings = []string{in.Failure}
		}
		for _, w := range warnings {
			if said[w]++; said[w] == 1 {
				order = append(order, w)
			}
		}
	}
	for name, w := range weights {
		if r.Metrics[name] /= w; w == 0 {
			delete(r.Metrics, name)
		}
	}
	putDurations(known, r.Metrics, durations)
	for _, w := range order {
		if said[w] < len(r.Intervals) {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s (%d of %d intervals)", w, said[w], len(r.Intervals)))
		} else {
			r.Warnings = append(r.Warnings, w)
		}
	}
}

// weight returns the weight of an interval's metric in the metric of all intervals: its denominator for a share or a
// cost, and time for anything else.
func (in Interval) weight(known measure.Vocabulary, metric string) float64 {
	m, _ := known.Lookup(metric)
	of := in.Window
	switch {
	case m.Kind == measure.KindShare && in.sent > 0:
		of = in.sent
	case m.Unit == measure.UnitSecondsPacket && in.total > 0:
		of = in.total
	case m.Unit == measure.UnitSecondsByte && in.bytes > 0:
		of = in.bytes
	}
	return of
}

package tcpstream

import (
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Metrics implements [workload.Workload]. The window opens when the rate of all pairs together, in both directions, is
// steady.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	readers := map[string][]traffic.Sample{forward: t.Sinks, reverse: t.Sources} // by direction
	if t.Params["direction"] != both {
		readers = map[string][]traffic.Sample{t.Params["direction"]: readers[t.Params["direction"]]}
	}
	sum := make([]float64, traffic.Slices+1)
	var bytes int64
	for _, side := range readers {
		for _, s := range side {
			for i, b := range s.Series[traffic.SeriesDelivered] {
				sum[i] += float64(b)
			}
			bytes += s.Bytes
		}
	}
	open, ok := measure.Steady(sum)
	if !ok {
		r.Warnings = append(r.Warnings, "the delivery rate did not become steady: use longer trials (--trial 1s)")
	}
	window := t.Length.Seconds() * float64(traffic.Slices-open) / traffic.Slices
	r.Window = time.Duration(window * float64(time.Second))
	r.Metrics["goodput"] = 8 * (sum[traffic.Slices] - sum[open]) / window
	rates := make([]float64, len(t.Sinks))
	for direction, side := range readers {
		rate := 0.0
		for i, s := range side {
			delivered := s.Series[traffic.SeriesDelivered]
			if len(delivered) <= traffic.Slices {
				continue // of an external program that was missing
			}
			one := 8 * float64(delivered[traffic.Slices]-delivered[open]) / window
			rates[i] += one
			rate += one
		}
		if len(readers) > 1 {
			r.Metrics["goodput_"+direction] = rate
		}
	}
	if len(rates) > 1 {
		r.Metrics["goodput_per_pair"] = r.Metrics["goodput"] / float64(len(rates))
		r.PerPair["goodput"] = rates
	}
	if seconds := t.PutCPU(r.Metrics); bytes > 0 {
		r.Metrics["service_demand"] = seconds / float64(bytes)
	}
	putTCP(t, r.Metrics)
	r.Limit = limited(t)
	return r
}

// putTCP writes the kernel's counters. External programs report only retransmissions.
func putTCP(t workload.Trial, metrics map[string]float64) {
	tcp := counted(t)
	metrics["retransmits"] = float64(tcp[traffic.CountResent])
	if n := float64(tcp[countConnections]); n > 0 {
		metrics["tcp_rtt"] = float64(tcp[countRTT]) / n / 1e9
		metrics["tcp_min_rtt"] = float64(tcp[countMinRTT]) / n / 1e9
		metrics["tcp_cwnd"] = float64(tcp[countWindow]) / n
	}
	if n := tcp[countAcks]; n > 0 && t.Params["direction"] != both { // otherwise data packets also acknowledge
		metrics["tcp_bytes_per_ack"] = float64(tcp[countBytes]) / float64(n)
	}
}

// counted adds up the counters of both ends: the kernel's counters of all connections, at each end that writes to them.
func counted(t workload.Trial) traffic.Counts {
	sum := traffic.Counts{}
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		for _, s := range side {
			for name, n := range s.Counts {
				sum[name] += n
			}
		}
	}
	return sum
}

// Carried implements [workload.Carrier]. Delivered data arrived in segments of the largest size, or smaller ones.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	return workload.Segments(t.Sinks[i].Bytes), workload.Segments(t.Sources[i].Bytes)
}

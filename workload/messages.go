package workload

import (
	"slices"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
)

// Warnings about a trial in which not all messages arrived. Streams do not lose messages: there, the loss is what was
// still under way when the drain was over.
const (
	messagesLost = "messages were lost, or came too late to be counted: lower the rate, or use fewer pairs"
	messagesLate = "messages came too late to be counted: the loss is their share, for a stream loses none (a lower " +
		"rate, or fewer pairs, makes it smaller)"
)

// fewMessages is the least number of one-way times for the median of a trial. A burst has 95, and the comparison uses
// medians of many trials, which do not need 200 each like percentiles of a whole run (design, "Estimate").
const fewMessages = 20

// MessageMetrics lists the metrics that [Trial.PutMessages] writes.
func MessageMetrics() []string {
	return slices.Concat([]string{
		"goodput", "goodput_per_pair", "packet_rate", "packet_rate_per_pair", "packet_rate_sent", "loss", "duplicates",
		"reordering", "jitter", "oneway_latency_iqr",
		"first_packet_latency", "backlog", "cpu_per_packet",
	}, CPUMetrics(), DurationMetrics(traffic.OneWay, traffic.Departure))
}

// PutMessages writes the metrics of one-way messages (traffic/flows), in both directions. It returns how many were
// received inside the window.
func (t Trial) PutMessages(r *Result) (received int64) {
	var sent, total, bytes, repeated, reordered, jitter, carried, first, firsts, backlog int64
	window, pairs := t.Window.Seconds(), float64(len(t.Sources))
	goodputs, rates := make([]float64, len(t.Sources)), make([]float64, len(t.Sources))
	for _, side := range [][]traffic.Sample{t.Sources, t.Sinks} {
		for i, s := range side {
			sent += s.Sent
			received += s.Received
			bytes += s.Bytes
			repeated += s.Counts[traffic.CountRepeated]
			reordered += s.Counts[traffic.CountReordered]
			jitter += s.Counts[flows.CountJitter]
			carried += s.Counts[flows.CountFlows]
			backlog = max(backlog, s.Counts[traffic.CountBacklog])
			if s.Sent > 0 { // otherwise they are what it received
				total += s.Total
			}
			if one := s.Counts[traffic.CountFirst]; one > 0 {
				first += one
				firsts++
			}
			goodputs[i] += 8 * float64(s.Bytes) / window
			rates[i] += float64(s.Received) / window
		}
	}
	m := r.Metrics
	m["goodput"], m["packet_rate"], m["packet_rate_sent"] = 8*float64(bytes)/window, float64(received)/window,
		float64(sent)/window
	if pairs > 1 {
		m["goodput_per_pair"], m["packet_rate_per_pair"] = m["goodput"]/pairs, m["packet_rate"]/pairs
		r.PerPair["goodput"], r.PerPair["packet_rate"] = goodputs, rates
	}
	if sent > 0 {
		m["loss"] = float64(sent-received) / float64(sent)
	}
	if received < sent {
		why := messagesLost
		if _, stream := t.Params["congestion"]; stream {
			why = messagesLate
		}
		r.Warnings = append(r.Warnings, why)
	}
	if received > 0 {
		m["duplicates"], m["reordering"] = float64(repeated)/float64(received), float64(reordered)/float64(received)
	}
	if received > carried {
		m["jitter"] = float64(jitter) / float64(received-carried) / 1e9
	}
	if firsts > 0 {
		m["first_packet_latency"] = float64(first) / float64(firsts) / 1e9
	}
	m["backlog"] = float64(backlog)
	if t.Behind(0) {
		r.Warnings = append(r.Warnings, FellBehind)
	}
	t.PutDurations(m)
	if h := t.Histograms[traffic.OneWay]; h != nil && h.TotalCount() >= fewMessages {
		m["oneway_latency_mean"], m["oneway_latency_p50"] = h.Mean()/1e9, float64(h.ValueAtQuantile(50))/1e9
		m["oneway_latency_iqr"] = float64(h.ValueAtQuantile(75)-h.ValueAtQuantile(25)) / 1e9
	}
	if cpu := t.PutCPU(m); total > 0 {
		m["cpu_per_packet"] = cpu / float64(total)
	}
	return received
}

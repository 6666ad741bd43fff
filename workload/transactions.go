package workload

import "github.com/nettoll/nettoll/traffic"

// behind is by what share a source may send less than it should.
const behind = 0.01

// PutTransactions writes the metrics of requests and answers: what the sources sent and got, with latencies, CPU and what should be known of them. A
// transaction is two packets, one each way.
//
// Rate is how many requests a source was to send in a second; 0 where it does not matter.
func (t Trial) PutTransactions(r *Result, rate float64) {
	window, pairs := t.Window.Seconds(), float64(len(t.Sources))
	var sent, received, total, firsts int64
	var first, backlog float64
	rates := make([]float64, len(t.Sources))
	for i, s := range t.Sources {
		sent += s.Sent
		received += s.Received
		total += s.Total
		rates[i] = float64(s.Received) / window
		backlog = max(backlog, float64(s.Backlog))
		if s.First > 0 {
			firsts++
			first += float64(s.First) / 1e9
		}
	}
	r.Metrics["transaction_rate"] = float64(received) / window
	if pairs > 1 {
		r.Metrics["transaction_rate_per_pair"] = float64(received) / window / pairs
		r.PerPair["transaction_rate"] = rates
	}
	if sent > 0 {
		r.Metrics["loss"] = float64(sent-received) / float64(sent)
	}
	if received < sent {
		r.Warnings = append(r.Warnings, "requests or responses were lost")
	}
	if firsts > 0 {
		r.Metrics["first_packet_latency"] = first / float64(firsts)
	}
	if asked := pairs * rate * window; asked > 0 && float64(sent) < (1-behind)*asked {
		r.Warnings = append(r.Warnings, "the source fell behind the rate that it was to send at")
	}
	if t.Histograms[traffic.Departure] != nil {
		r.Metrics["backlog"] = backlog
	}
	if seconds := t.PutCPU(r.Metrics); total > 0 {
		r.Metrics["cpu_per_packet"] = seconds / float64(2*total)
	}
	t.PutDurations(r.Metrics)
}

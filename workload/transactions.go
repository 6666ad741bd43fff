package workload

import (
	"time"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/dialogue"
)

// TransactionWarm is the share of a trial of transactions before its window opens.
const TransactionWarm = 0.1

// TransactionTrial returns the default length of a trial of transactions; docs/method.md has the study behind it. In
// mode wait, the ratio of two paths has settled after the given time; in mode spin, after 10 ms. At a rate, the window
// has enough requests for a median.
func TransactionTrial(p part.Params, least time.Duration) time.Duration {
	const requests, longest = 250 / (1 - TransactionWarm), 10 * time.Second
	if p["mode"] == "spin" {
		least = 10 * time.Millisecond
	}
	if rate := p.Rate("rate"); rate > 0 {
		return min(max(least, time.Duration(requests/rate*1e9)), longest)
	}
	return least
}

// FellBehind is the warning for a trial whose sources are [Trial.Behind].
const FellBehind = "the source fell behind its rate: lower the rate, or use fewer pairs"

// Behind reports whether sources sent at least 1 % fewer messages than they should. rate is the wanted number a second
// of each source; 0 if there is none. With random arrivals, a window may have fewer messages than the mean; then the
// messages that were due and not sent count.
func (t Trial) Behind(rate float64) bool {
	const some = 0.01
	var sent, unsent float64
	for _, s := range t.Sources {
		sent += float64(s.Sent)
		unsent += float64(s.Unsent)
	}
	asked := float64(len(t.Sources)) * rate * t.Window.Seconds()
	arrivals := t.Params["arrivals"]
	return unsent > some*(sent+unsent) || (arrivals == "" || arrivals == "constant") && sent < (1-some)*asked
}

// PutTransactions writes the metrics of requests and answers: their number a second, under the given name, with
// latencies, CPU and warnings. rate is that of [Trial.Behind]. It returns the run time of all threads in s, and the
// transactions of the whole trial.
func (t Trial) PutTransactions(r *Result, name string, rate float64) (cpu float64, total int64) {
	window, pairs := t.Window.Seconds(), float64(len(t.Sources))
	var received, backlog, planted, answered int64
	rates := make([]float64, len(t.Sources))
	for i, s := range t.Sources {
		received += s.Received
		total += s.Total
		rates[i] = float64(s.Received) / window
		backlog = max(backlog, s.Counts[traffic.CountBacklog])
	}
	for _, s := range t.Sinks {
		planted += s.Counts[traffic.CountPlanted]
		answered += s.Total
	}
	r.Metrics[name] = float64(received) / window
	if pairs > 1 {
		r.Metrics[name+"_per_pair"] = float64(received) / window / pairs
		r.PerPair[name] = rates
	}
	if t.Behind(rate) {
		r.Warnings = append(r.Warnings, FellBehind)
	}
	if t.Histograms[traffic.Departure] != nil {
		r.Metrics["backlog"] = float64(backlog)
	}
	if planted > 0 {
		r.Metrics["planted"] = float64(planted) / float64(answered) / 1e9
	}
	t.PutDurations(r.Metrics)
	return t.PutCPU(r.Metrics), total
}

// PutExchange is PutTransactions for [traffic.Exchange]: datagrams can be lost, and a transaction is two packets, one
// in each direction.
func (t Trial) PutExchange(r *Result, rate float64) {
	cpu, total := t.PutTransactions(r, "transaction_rate", rate)
	var sent, answered, firsts, first int64
	for _, s := range t.Sources {
		sent += s.Sent
		answered += s.Received + s.Errors
		if one := s.Counts[traffic.CountFirst]; one > 0 {
			firsts++
			first += one
		}
	}
	if total > 0 {
		r.Metrics["cpu_per_packet"] = cpu / float64(2*total)
	}
	if sent > 0 {
		r.Metrics["loss"] = float64(sent-answered) / float64(sent)
	}
	if answered < sent {
		r.Warnings = append(r.Warnings, "requests or responses were lost: lower the rate, or in-flight")
	}
	if firsts > 0 {
		r.Metrics["first_packet_latency"] = float64(first) / float64(firsts) / 1e9
	}
}

// PutDialogue is PutTransactions for traffic/dialogue: a response can be an error, and each other response carries this
// many bytes, in one direction or the other. CPU time is also divided into the part outside the kernel, the part inside
// it, and that of ksoftirqd, if all programs report theirs. Retransmissions are known only if the connections of both
// sides outlast the trial, and both ends are nettoll's.
func (t Trial) PutDialogue(r *Result, rate float64, bytes int) {
	cpu, total := t.PutTransactions(r, "transaction_rate", rate)
	var received, failed, resent int64
	counted := true
	for _, s := range t.Sources {
		received += s.Received
		failed += s.Errors
		resent += s.Counts[traffic.CountResent]
		counted = counted && s.Counts[dialogue.CountConnections] > 0
	}
	for _, s := range t.Sinks {
		resent += s.Counts[traffic.CountResent]
		counted = counted && s.Counts[dialogue.CountConnections] > 0
	}
	r.Metrics["goodput"] = float64(received) * float64(bytes) * 8 / t.Window.Seconds()
	if counted {
		r.Metrics["retransmits"] = float64(resent)
	}
	if total > 0 {
		r.Metrics["cpu_per_transaction"] = cpu / float64(total)
	}
	if received+failed > 0 {
		r.Metrics["errors"] = float64(failed) / float64(received+failed)
	}
	// it is counted in ticks: in a short trial it can be more than the total
	if user, said := r.Metrics["cpu_user"]; said {
		r.Metrics["cpu_system"] = max(0, r.Metrics["cpu_busy"]-user-r.Metrics["cpu_softirqd"]-r.Metrics["cpu_programs"])
	}
}

// DialogueMetrics lists the metrics that [Trial.PutDialogue] writes, except those of CPU and durations.
func DialogueMetrics() []string {
	return []string{
		"goodput", "transaction_rate", "transaction_rate_per_pair", "errors", "cpu_system", "cpu_per_transaction",
		"retransmits", "backlog", "planted",
	}
}

// DialogueMemory returns the memory of a server of traffic/dialogue for its clients, in bytes: unanswered parts of
// requests, and answers that wait for room, of these sizes. Both buffers grow by doubling.
func DialogueMemory(p part.Params, request, response int) int64 {
	const least, head = 4 << 10, 1 << 10 // bytes
	ahead := int64(max(1, p.Count("pipeline"), p.Count("in-flight")))
	waiting := min(ahead*int64(response+head), dialogue.MostGathered+int64(response))
	return int64(p.Count("clients")) * (least + 2*int64(request+head) + 2*waiting)
}

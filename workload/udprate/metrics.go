package udprate

import (
	"fmt"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// Shares of loss above which a trial has a warning. Smaller losses are below the accuracy of the window's edges.
const (
	lossSome = 0.001
	lossMuch = 0.1
)

// waits is the least share of datagrams for which a sink has waited if it was not the limit. At full rate over loopback
// it is 0.7 to 0.9 (single), 0.8 to 0.9 (batched), 0.3 to 0.7 (segmented); for a sink that stands still most of the
// time, 0.1.
const waits = 0.2

func metricNames() []string {
	return append(append([]string{
		"packet_rate", "packet_rate_per_pair", "packet_rate_sent", "packet_rate_sent_per_pair", "goodput", "goodput_per_pair",
		"no_drop_rate",
		"loss", "duplicates", "reordering", "cpu_per_packet", "backlog",
	}, workload.CPUMetrics()...), workload.DurationMetrics(traffic.Departure)...)
}

// Metrics implements [workload.Workload]. Sent is the sources' count, received the sinks'. For a search, both are those
// of the step that counts, which the sinks have reported to the sources.
//
// There is no service demand: it would be cpu_per_packet divided by the payload, which is the same for all compared
// cells.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{
		Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts(),
		Limit: limitOf(t),
	}
	window := t.Window.Seconds()
	pairs := float64(len(t.Sinks))
	seeks := t.Params["search"] == noDrop
	var sent, received, repeated, reordered, total, bytes int64
	sentRates, rates := make([]float64, len(t.Sources)), make([]float64, len(t.Sinks))
	counted := t.Sinks
	if seeks {
		counted = t.Sources
	}
	for i, s := range t.Sources {
		sent += s.Sent
		sentRates[i] = float64(s.Sent) / window
		if seeks && s.Window > 0 {
			sentRates[i] = float64(s.Sent) / float64(s.Window) * 1e9
			r.Metrics["no_drop_rate"] += sentRates[i]
		}
	}
	for i, s := range counted {
		received += s.Received
		repeated += s.Counts[traffic.CountRepeated]
		reordered += s.Counts[traffic.CountReordered]
		rates[i] = float64(s.Received) / window
	}
	for _, s := range t.Sinks {
		total += s.Total
		bytes += s.Bytes
	}
	payload := float64(t.Params.Size("payload"))
	if total > 0 && bytes > 0 {
		payload = float64(bytes) / float64(total) // on average
	}
	r.Metrics["packet_rate"] = float64(received) / window
	r.Metrics["packet_rate_sent"] = float64(sent) / window
	r.Metrics["goodput"] = 8 * payload * float64(received) / window
	if pairs > 1 {
		for _, name := range []string{"packet_rate", "packet_rate_sent", "goodput"} {
			r.Metrics[name+"_per_pair"] = r.Metrics[name] / pairs
		}
		r.PerPair["packet_rate"], r.PerPair["packet_rate_sent"] = rates, sentRates
	}
	if sent > 0 {
		loss := float64(sent-received) / float64(sent)
		r.Metrics["loss"] = loss
		switch {
		case seeks: // it is below the limit
		case loss > lossMuch:
			r.Warnings = append(r.Warnings, lossOver(lossMuch))
		case loss > lossSome:
			r.Warnings = append(r.Warnings, lossOver(lossSome))
		}
	}
	if t.Behind(t.Params.Rate("rate")) {
		r.Warnings = append(r.Warnings, workload.FellBehind)
	}
	if t.Histograms[traffic.Departure] != nil {
		for _, s := range t.Sources {
			r.Metrics["backlog"] = max(r.Metrics["backlog"], float64(s.Counts[traffic.CountBacklog]))
		}
	}
	if received > 0 && !seeks {
		r.Metrics["duplicates"] = float64(repeated) / float64(received)
		r.Metrics["reordering"] = float64(reordered) / float64(received)
	}
	t.PutDurations(r.Metrics)
	if seconds := t.PutCPU(r.Metrics); total > 0 {
		r.Metrics["cpu_per_packet"] = seconds / float64(total)
	}
	return r
}

// limitOf returns what kept the rate from being higher.
//
// If datagrams were lost, it is what dropped them: the kernel counts those that did not fit into the sink's receive
// buffer, and the others were lost on the path. (Whether the sink waited is not evidence: a sink that is off its CPU
// for 4 ms loses what arrives meanwhile, and waits for the rest.) If nothing was lost, it is the path if that held a
// whole send buffer and made the source wait. It is the source if that could send no more to a waiting sink. External
// programs report neither.
func limitOf(t workload.Trial) workload.Limit {
	var sent, received, awaited, dropped, blocked int64
	for _, s := range t.Sources {
		sent += s.Total
		blocked += s.Counts[countBlocked]
	}
	foreign, gaveUp := false, false
	for _, s := range t.Sinks {
		gaveUp = gaveUp || s.Doubt != ""
		received += s.Total
		awaited += s.Counts[countAwaited]
		dropped += s.Counts[countDropped]
		foreign = foreign || s.Window > 0
	}
	for _, s := range t.Sources {
		foreign = foreign || s.Window > 0 && t.Params["search"] != noDrop
	}
	lost := sent - received
	switch {
	case sent == 0 || foreign:
		return ""
	case float64(lost) > lossSome*float64(sent):
		switch {
		case 2*dropped > lost:
			return workload.ByReceiver
		case gaveUp && blocked == 0:
			return "" // datagrams still under way when the sink gave up count as lost
		}
		return workload.ByPath
	case blocked > 0:
		return workload.ByPath
	case float64(awaited) > waits*float64(received):
		return workload.BySender
	default:
		return "" // the sink was always busy, but it kept up
	}
}

// Carried implements [workload.Carrier]. All datagrams of a segmented message may have arrived as one packet. A search
// has no window, and all of its steps count.
func (Workload) Carried(t workload.Trial, i int) (there, back int64) {
	there = t.Sinks[i].Received
	if t.Params["search"] == noDrop {
		there = t.Sinks[i].Total
	}
	if t.Params["mode"] == "segmented" {
		there = (there + sock.MostSegments - 1) / sock.MostSegments
	}
	return there, 0
}

// lossOver returns the warning about a trial that lost more than a share of its datagrams.
func lossOver(share float64) string {
	return fmt.Sprintf("more than %g %% of the datagrams were lost: lower the rate, or search for the highest "+
		"without loss (search=no-drop)", 100*share)
}

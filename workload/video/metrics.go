package video

import (
	"slices"

	"github.com/nettoll/nettoll/workload"
)

const (
	notStarted = "a video did not start: its buffer did not fill within the trial: use longer trials (--trial 5s)"
	stoodStill = "videos stalled: lower the rate, or use fewer pairs, if this is not what you look for"
)

func metricNames() []string {
	return slices.Concat(workload.MessageMetrics(), []string{"startup_delay", "stalls", "stall_share", "service_demand"})
}

// Metrics implements [workload.Workload]. Players are observed from the opening on; everything else is of the window.
// Packets are messages.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutMessages(&r)
	var p playback
	bytes := int64(0)
	for _, s := range t.Sinks {
		bytes += s.Bytes
		p.videos += s.Counts[countVideos]
		p.started += s.Counts[countStarted]
		p.delay += s.Counts[countDelay]
		p.stalls += s.Counts[countStalls]
		p.stalled += s.Counts[countStalled]
		p.watched += s.Counts[countWatched]
	}
	if p.started > 0 && p.delay > 0 {
		r.Metrics["startup_delay"] = float64(p.delay) / 1e9 / float64(p.started)
	}
	if p.watched > 0 {
		r.Metrics["stalls"], r.Metrics["stall_share"] = float64(p.stalls), float64(p.stalled)/float64(p.watched)
	}
	switch {
	case p.started < p.videos:
		r.Warnings = append(r.Warnings, notStarted)
	case p.stalls > 0:
		r.Warnings = append(r.Warnings, stoodStill)
	}
	if perByte := r.Metrics["cpu_busy"] * t.Window.Seconds() / float64(bytes); bytes > 0 {
		r.Metrics["service_demand"] = perByte
	}
	return r
}

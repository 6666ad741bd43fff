package video

import (
	"slices"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

const (
	notStarted = "a video did not start: its buffer did not come within the trial"
	stoodStill = "videos stood still"
)

func metricNames() []string {
	return slices.Concat(workload.MessageMetrics(), []string{"startup_delay", "stalls", "stall_share", "service_demand"})
}

// Metrics implements [workload.Workload]. Players are watched from the opening on; all else is of the window. Packets are messages.
func (Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutMessages(&r)
	var p traffic.Playback
	bytes := int64(0)
	for _, s := range t.Sinks {
		bytes += s.Bytes
		p.Videos += s.Playback.Videos
		p.Started += s.Playback.Started
		p.Delay += s.Playback.Delay
		p.Stalls += s.Playback.Stalls
		p.Stalled += s.Playback.Stalled
		p.Watched += s.Playback.Watched
	}
	if p.Started > 0 && p.Delay > 0 {
		r.Metrics["startup_delay"] = float64(p.Delay) / 1e9 / float64(p.Started)
	}
	if p.Watched > 0 {
		r.Metrics["stalls"], r.Metrics["stall_share"] = float64(p.Stalls), float64(p.Stalled)/float64(p.Watched)
	}
	switch {
	case p.Started < p.Videos:
		r.Warnings = append(r.Warnings, notStarted)
	case p.Stalls > 0:
		r.Warnings = append(r.Warnings, stoodStill)
	}
	if perByte := r.Metrics["cpu_busy"] * t.Window.Seconds() / float64(bytes); bytes > 0 {
		r.Metrics["service_demand"] = perByte
	}
	return r
}

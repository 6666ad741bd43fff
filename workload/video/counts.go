package video

import "github.com/nettoll/nettoll/traffic"

// Counters of a sink: how the videos of a pair played in a trial.
const (
	countVideos  traffic.Count = "videos"  // how many there were
	countStarted traffic.Count = "started" // of those, how many showed a picture
	// ns from the opening to the first picture, of those that started, added up; 0: unknown
	countDelay  traffic.Count = "startup"
	countStalls traffic.Count = "stalls" // how many times a video that had started stood still
	// ns in which they stood still, added up; of one that never started all of the trial
	countStalled traffic.Count = "stalled"
	// ns from the first picture to the close, added up; of one that never started all of the trial
	countWatched traffic.Count = "watched"
)

// playback is the counters of one trial.
type playback struct{ videos, started, delay, stalls, stalled, watched int64 }

func (p *playback) put(s *traffic.Sample) {
	s.Count(countVideos, p.videos)
	s.Count(countStarted, p.started)
	s.Count(countDelay, p.delay)
	s.Count(countStalls, p.stalls)
	s.Count(countStalled, p.stalled)
	s.Count(countWatched, p.watched)
}

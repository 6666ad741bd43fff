package video

import "github.com/nettoll/nettoll/traffic"

// Counters of a sink: how the videos of a pair played in a trial.
const (
	countVideos  traffic.Count = "videos"  // number of videos
	countStarted traffic.Count = "started" // number of these that showed a picture
	// ns from the opening to the first picture, summed over those that started; 0: unknown
	countDelay  traffic.Count = "startup"
	countStalls traffic.Count = "stalls" // how often a started video stood still
	// ns for which videos stood still, summed; for one that never started, the whole trial
	countStalled traffic.Count = "stalled"
	// ns from the first picture to the close, summed; for one that never started, the whole trial
	countWatched traffic.Count = "watched"
)

// playback holds the counters of one trial.
type playback struct{ videos, started, delay, stalls, stalled, watched int64 }

func (p *playback) put(s *traffic.Sample) {
	s.Count(countVideos, p.videos)
	s.Count(countStarted, p.started)
	s.Count(countDelay, p.delay)
	s.Count(countStalls, p.stalls)
	s.Count(countStalled, p.stalled)
	s.Count(countWatched, p.watched)
}

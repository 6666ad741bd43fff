package traffic

// Playback is how the videos of a pair played in a trial.
type Playback struct {
	Videos  int64 `json:"videos"`  // how many there were
	Started int64 `json:"started"` // of those, how many showed a picture
	Delay   int64 `json:"delay"`   // ns from the opening to the first picture, of those that started, added up; 0: nobody can tell
	Stalls  int64 `json:"stalls"`  // how many times a video that had started stood still
	Stalled int64 `json:"stalled"` // ns in which they stood still, added up; of one that never started all of the trial
	Watched int64 `json:"watched"` // ns from the first picture to the close, added up; of one that never started all of the trial
}

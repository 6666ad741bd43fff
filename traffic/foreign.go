package traffic

// Foreign holds figures that only foreign programs report.
type Foreign struct {
	Peer   *Sample `json:"peer,omitempty"`   // what the other end saw, where the program at this one is told
	Mean   float64 `json:"mean,omitempty"`   // ns: of latency, where it tells no single ones
	Median float64 `json:"median,omitempty"` // ns: the same
	Max    float64 `json:"max,omitempty"`    // ns: the longest
	// the one that it was asked for, in the base unit of its metric (workload command)
	Figure float64 `json:"figure,omitempty"`
}

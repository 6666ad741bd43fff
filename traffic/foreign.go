package traffic

// Foreign holds figures that only external programs report.
type Foreign struct {
	Peer   *Sample `json:"peer,omitempty"`   // the other end's sample, if the program at this end reports it
	Mean   float64 `json:"mean,omitempty"`   // ns: of latency, if it reports no single values
	Median float64 `json:"median,omitempty"` // ns: the same
	Max    float64 `json:"max,omitempty"`    // ns: the longest
	// the requested figure, in the base unit of its metric (workload command)
	Figure float64 `json:"figure,omitempty"`
}

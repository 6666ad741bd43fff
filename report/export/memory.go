package export

import (
	"math"

	"github.com/nettoll/nettoll/measure"
)

// memoryLine is how long the noise of a group is remembered. Times are in s.
type memoryLine struct {
	Type        string    `json:"type"` // "memory"
	Group       string    `json:"group"`
	Memory      *float64  `json:"memory,omitempty"`
	MemoryLo    *float64  `json:"memory_lo,omitempty"`    // ends of its 95 % interval; neither 0 nor without end
	MemoryHi    *float64  `json:"memory_hi,omitempty"`    //
	ShorterThan *float64  `json:"shorter_than,omitempty"` // in place of the memory: it is not seen at the shortest lag
	LongerThan  *float64  `json:"longer_than,omitempty"`  // in place of the memory: nor its end at the longest one
	Trial       float64   `json:"trial"`                  // length
	Near        *float64  `json:"near,omitempty"`         // from a cell to its baseline or twin: 5th percentile
	Far         *float64  `json:"far,omitempty"`          // 95th
	Trials      int       `json:"trials"`
	Generations int       `json:"generations"`
	Lags        []lagLine `json:"lags,omitempty"`
}

// lagLine is the correlation of two trials that start so far apart.
type lagLine struct {
	From          float64  `json:"from"`
	To            float64  `json:"to"`
	Pairs         int      `json:"pairs"`
	Correlation   *float64 `json:"correlation,omitempty"`
	CorrelationLo *float64 `json:"correlation_lo,omitempty"`
	CorrelationHi *float64 `json:"correlation_hi,omitempty"`
}

func newMemoryLine(m measure.Memory) memoryLine {
	line := memoryLine{
		Type: "memory", Group: m.Group, Memory: known(m.Seconds), MemoryLo: known(m.Lo), MemoryHi: known(m.Hi),
		Trial: m.Trial, Near: known(m.Near), Far: known(m.Far), Trials: m.Trials, Generations: m.Generations,
	}
	switch {
	case m.Seconds == 0:
		line.Memory, line.ShorterThan = nil, &m.Lags[0].At
	case math.IsInf(m.Seconds, 0):
		line.LongerThan = &m.Lags[len(m.Lags)-1].At
	}
	if m.Lo == 0 {
		line.MemoryLo = nil
	}
	if m.Hi == 0 {
		line.MemoryHi = nil
	}
	for _, l := range m.Lags {
		line.Lags = append(line.Lags, lagLine{
			l.From, l.To, l.Pairs, known(l.Correlation), known(l.Lo), known(l.Hi),
		})
	}
	return line
}

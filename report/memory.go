package report

import (
	"math"
	"strconv"

	"github.com/nettoll/nettoll/measure"
)

// Memory is how long the noise of a group is remembered; ok is false if that is not asked of its primary metric.
func (v *Reading) Memory(g *Group) (m measure.Memory, ok bool) {
	if v.memories == nil {
		v.memories = map[string]measure.Memory{}
		for _, m := range v.Analysis.Memories() {
			v.memories[m.Group] = m
		}
	}
	m, ok = v.memories[g.one().Group]
	return m, ok
}

// MemorySlug is what the figure of a group's memory is called.
func (g *Group) MemorySlug() string { return g.Slug + "-memory" }

// memoryText says how long a group's noise is remembered, and how far from its baseline a cell is; "" if it is not
// asked.
func (v *Reading) memoryText(g *Group) string {
	m, ok := v.Memory(g)
	if !ok {
		return ""
	}
	return Remembered(m) + distance(m)
}

// distance is how far from its baseline a cell is, as the second half of a sentence.
func distance(m measure.Memory) string {
	switch near, far := About(m.Near), About(m.Far); {
	case math.IsNaN(m.Near):
		return ""
	case near == far:
		return "; a cell and its baseline or twin start " + near + " apart"
	default:
		return "; a cell and its baseline or twin start " + near + " to " + far + " apart"
	}
}

// Remembered says how long noise is remembered.
func Remembered(m measure.Memory) string {
	const noise = "the machine's noise is remembered for "
	switch {
	case math.IsNaN(m.Seconds):
		return "how long the machine's noise is remembered is not known: too few trials in too few generations"
	case m.Seconds == 0:
		return noise + "less than " + About(m.Lags[0].At) + ", the time between two trials that follow each other" +
			orUpTo(m)
	case math.IsInf(m.Seconds, 0):
		return noise + "longer than " + About(m.Lags[len(m.Lags)-1].At)
	}
	text := noise + "about " + About(m.Seconds)
	switch endless := math.IsInf(m.Hi, 0); {
	case m.Lo == 0 && endless:
		return text + " (a guess)"
	case m.Lo == 0:
		return text + " (95 % interval up to " + About(m.Hi) + ")"
	case endless:
		return text + " (95 % interval from " + About(m.Lo) + ")"
	}
	return text + " (95 % interval " + About(m.Lo) + " to " + About(m.Hi) + ")"
}

// orUpTo is the upper end of the interval of a memory that was not seen.
func orUpTo(m measure.Memory) string {
	if math.IsInf(m.Hi, 0) || m.Hi <= m.Lags[0].At {
		return ""
	}
	return " (95 % interval up to " + About(m.Hi) + ")"
}

// About is a time, in s, with two digits.
func About(s float64) string {
	s, _ = strconv.ParseFloat(strconv.FormatFloat(s, 'g', 2, 64), 64)
	return measure.Format(s, measure.UnitSecond)
}

// memoryPart has the memory of a group's noise in a figure and a sentence, folded.
func (v *Reading) memoryPart(g *Group) (Part, bool) {
	if m, ok := v.Memory(g); !ok || m.Lags == nil {
		return Part{}, false
	}
	return Part{
		Title: "How long noise is remembered", Folded: true, Figures: g.MemorySlug(),
		Tables: []Block{{Text: Capital(v.memoryText(g)) + "."}},
	}, true
}

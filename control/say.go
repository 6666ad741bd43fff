package control

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
)

// say tells [Options.Log] a line. It is called between blocks only, so that nothing of it falls into a trial.
func (s *scheduler) say(format string, args ...any) {
	if s.options.Log != nil {
		s.options.Log(fmt.Sprintf(format, args...))
	}
}

// sayBuilt says which labs stand, slowest first, and how long it took.
func (s *scheduler) sayBuilt(g *generation, took time.Duration) {
	var labs []*lab
	for _, l := range g.labs {
		if l != nil {
			labs = append(labs, l)
		}
	}
	slices.SortStableFunc(labs, func(a, b *lab) int { return int(b.took - a.took) })
	var each []string
	for _, l := range labs {
		each = append(each, fmt.Sprintf("%s in %v", l.ID, l.took.Round(time.Millisecond)))
	}
	s.say("generation %d: %s in %v, workers and sockets included: %s", g.number, count(len(labs), "lab"),
		took.Round(time.Millisecond), strings.Join(each, ", "))
}

// sayProved says how a proof went. What failed has a warning of its own.
func (s *scheduler) sayProved(g *generation, when string, held, labs int) {
	s.say("generation %d: proof %s the blocks: it holds in %d of %s", g.number, when, held, count(labs, "lab"))
}

// sayLook says how precisely each cell is known, which have left, and when the open ones will, if the noise stays.
func (s *scheduler) sayLook(generations int, now measure.Analysis) {
	wanted := s.experiment.Design.Precision
	s.say("look after %s in %s: target %g %%", count(s.blocks, "block"), count(generations, "generation"), 100*wanted)
	for _, r := range now.Rows {
		if r.Metric != r.Cell.Primary || !r.Cell.Governs() {
			continue
		}
		known := "no interval yet"
		switch {
		case r.HasRatio:
			known = fmt.Sprintf("±%.2g %%", 100*r.Estimate.HalfWidth())
		case r.HasDifference:
			known = "±" + measure.Format(r.Difference.HalfWidth(), r.Unit)
		}
		i := s.index(r.Cell.ID)
		switch {
		case s.gone[i] == precise:
			known += ", precise enough at two looks: it has left"
		case s.gone[i] == decided:
			known += ", decided: it has left"
		case s.gone[i] != "":
			known += ", not measured any more"
		case s.may[i]:
			known += ", known well enough: it waits for the others of its mix"
		case r.Precise(wanted):
			known += ", precise enough at this look"
		}
		for _, g := range s.open {
			if g.Name == r.Cell.ID && s.gone[i] == "" {
				known += ", " + s.sayCloses(g)
			}
		}
		s.say("  %s: %s", r.Cell.ID, known)
	}
	if s.options.Goals != nil && s.experiment.Design.Decided {
		s.say("  open: %d of %s", len(s.open), count(s.goals, "question"))
		for _, g := range s.open {
			s.say("  %s: %s", g.Name, s.sayCloses(g))
		}
	}
}

// sayCloses says when a goal will be closed.
func (s *scheduler) sayCloses(g measure.Goal) string {
	switch after, known := s.closes(g); {
	case !known:
		return "not known how much longer it takes"
	case s.measured+after > s.budget:
		return fmt.Sprintf("about %v more at this noise, which is more than is left", about(after))
	case after > 0:
		return fmt.Sprintf("about %v more at this noise", about(after))
	}
	return "expected at the next look"
}

// about rounds an estimated time, which is known to a digit or two.
func about(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, 10 * time.Minute, time.Minute, 10 * time.Second} {
		if d > 10*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}

// sayWarning passes a warning on as it comes.
func (s *scheduler) sayWarning(w measure.Warning) {
	about := w.Cell
	if about == "" && w.Lab != "" {
		about = "lab " + w.Lab
	}
	if about != "" {
		about += ": "
	}
	s.say("warning: %s%s", about, w.Text)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

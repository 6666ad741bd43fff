package report

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// Compared is two runs beside each other.
type Compared struct {
	OldDir, NewDir   string
	Old, New         *Data
	Changes          []measure.Change // of all cells that both runs have, twins and baselines too, in every metric
	Obstacles        []measure.Obstacle
	OnlyOld, OnlyNew []string // ids of cells
}

// ErrIncomparable is wrapped by errors about runs that ought not to be compared.
var ErrIncomparable = errors.New("cannot be compared")

// ErrNothingInCommon is wrapped by errors about runs of which no cell is the same.
var ErrNothingInCommon = errors.New("have no cell in common")

// Compare puts two runs beside each other, the older first. The directories are what the views call them.
func Compare(oldDir, newDir string, older, newer *Data) *Compared {
	x, y := measure.Side{Run: older.Run, Analysis: older.Analysis}, measure.Side{Run: newer.Run, Analysis: newer.Analysis}
	c := &Compared{
		OldDir: oldDir, NewDir: newDir, Old: older, New: newer, Changes: measure.Compare(x, y),
		Obstacles: measure.Obstacles(x, y),
	}
	c.OnlyOld, c.OnlyNew = without(older.Run, newer.Run), without(newer.Run, older.Run)
	return c
}

// without lists the cells of one run that the other does not have.
func without(run, other measure.Run) []string {
	var list []string
	for _, c := range run.Cells {
		if !slices.ContainsFunc(other.Cells, func(o measure.Cell) bool { return o.ID == c.ID }) {
			list = append(list, c.ID)
		}
	}
	return list
}

// mostObstacles is how many obstacles an error names.
const mostObstacles = 20

// Check returns why the two runs ought not to be compared: an error that wraps [ErrNothingInCommon] or, a line for each
// obstacle and unless they are to be compared anyway, [ErrIncomparable].
func (c *Compared) Check(anyway bool) error {
	if len(c.OnlyNew) == len(c.New.Run.Cells) {
		return fmt.Errorf("compare: %q and %q %w: OLD has %s, NEW has %s", c.OldDir, c.NewDir, ErrNothingInCommon,
			some(c.OnlyOld), some(c.OnlyNew))
	}
	if len(c.Obstacles) == 0 || anyway {
		return nil
	}
	var lines []string
	for i, o := range c.Obstacles {
		if i == mostObstacles {
			lines = append(lines, fmt.Sprintf("and %d more", len(c.Obstacles)-i))
			break
		}
		lines = append(lines, obstacle(o))
	}
	return fmt.Errorf("compare: %q and %q %w: %s", c.OldDir, c.NewDir, ErrIncomparable, strings.Join(lines, "\n  "))
}

// obstacle says in what two runs differ.
func obstacle(o measure.Obstacle) string {
	const longest = 200
	short := func(s string) string {
		if s = Printable(s); utf8.RuneCountInString(s) > longest {
			s = string([]rune(s)[:longest]) + "…"
		}
		return s
	}
	text := fmt.Sprintf("%s: %s in OLD, %s in NEW", short(o.What), short(o.Old), short(o.New))
	if len(o.Cells) > 0 {
		text += " (" + some(o.Cells) + ")"
	}
	return text
}

// some names cells: the first, and how many there are beside it.
func some(ids []string) string {
	switch n := len(ids) - 1; {
	case n < 0:
		return "no cell"
	case n == 0:
		return Printable(ids[0])
	default:
		return Printable(ids[0]) + " and " + Count(n, "more cell", "more cells")
	}
}

// Worse counts the cells whose primary metric got slower, or worse if it is not a speed.
func (c *Compared) Worse() int { return c.count(measure.Change.Worse) }

// Failed counts the cells of both runs that have failed in one of them.
func (c *Compared) Failed() int {
	return c.count(func(x measure.Change) bool { return x.Verdict == measure.HasFailed })
}

func (c *Compared) count(pass func(measure.Change) bool) int {
	n := 0
	for _, x := range c.Changes {
		if x.Primary && pass(x) {
			n++
		}
	}
	return n
}

// Doubts lists what limits a comparison: how the runs differ, which cells only one of them has, what failed, and what
// is too short.
func (c *Compared) Doubts() []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, o := range c.Obstacles {
		add("compared although the runs differ: %s", obstacle(o))
	}
	switch {
	case filepath.Clean(c.OldDir) == filepath.Clean(c.NewDir):
		add("OLD and NEW are the same directory: nothing can have changed")
	case c.Old.Run.Started.Equal(c.New.Run.Started) && c.Old.Run.Design.Seed == c.New.Run.Design.Seed &&
		len(c.Old.Log.Trials) == len(c.New.Log.Trials):
		add("OLD and NEW started at the same moment: they are copies of one run")
	case c.New.Run.Started.Before(c.Old.Run.Started):
		add("NEW started before OLD: swap the arguments?")
	}
	if len(c.OnlyOld) > 0 {
		add("only in OLD: %s", Printable(strings.Join(c.OnlyOld, ", ")))
	}
	if len(c.OnlyNew) > 0 {
		add("only in NEW: %s", Printable(strings.Join(c.OnlyNew, ", ")))
	}
	for _, s := range c.sides() {
		a := s.data.Analysis
		for _, f := range a.Failed {
			if f.Trials == 0 {
				add("%s: %s was not measured: %s", s.word, Printable(f.Cell), Printable(f.Reason))
			} else {
				add("%s: %s failed in %s: %s", s.word, Printable(f.Cell), ofAll(f.Trials), Printable(f.Reason))
			}
		}
		if proofs, broken := proved(a.Proofs); broken > 0 {
			p := a.Proofs[slices.IndexFunc(a.Proofs, func(p measure.Proof) bool { return !p.OK })]
			add("%s: %d of %d proofs failed, the first: lab %s, generation %d, %s: %s", s.word, broken, proofs,
				Printable(p.Lab), p.Generation+1, Printable(p.When), Printable(p.Claim))
		}
		if len(a.Proofs) == 0 {
			add("%s: no proof was recorded", s.word)
		}
		if n := a.Generations; n == 0 {
			add("%s: nothing was measured", s.word)
		} else if n < measure.LeastGenerations {
			add("%s has only %s: a verdict needs %d", s.word, Count(n, "generation", "generations"), measure.LeastGenerations)
		}
		if n := len(a.Warnings); n > 0 {
			add("%s has %s: nettoll report %s shows them", s.word, Count(n, "warning", "warnings"), Printable(s.dir))
		}
	}
	return list
}

type side struct {
	word, dir string
	data      *Data
}

func (c *Compared) sides() []side {
	return []side{{"OLD", c.OldDir, c.Old}, {"NEW", c.NewDir, c.New}}
}

package report

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// Compared holds the comparison of two runs.
type Compared struct {
	OldDir, NewDir   string
	Old, New         *Data
	Absolute         bool             // values are compared, not ratios to the baseline
	Changes          []measure.Change // of all cells that both runs have, twins and baselines too, in every metric
	Obstacles        []measure.Obstacle
	OnlyOld, OnlyNew []string // ids of cells
	Found            []Found  // findings of the gates: see [Comparisons.Judge]

	word  string // the name of the new run: "NEW", or "NEW 2" if there are several
	gates []Gate
}

// Comparisons are the comparisons of one older run with newer ones.
type Comparisons []*Compared

// Directory is a run, and the name of its directory in views.
type Directory struct {
	Dir string
	*Data
}

// CompareAll compares an older run with newer ones. All comparisons are one family for Holm's procedure.
func CompareAll(how measure.Comparing, older Directory, newer ...Directory) Comparisons {
	side := func(d Directory) measure.Side { return measure.Side{Run: d.Run, Analysis: d.Analysis} }
	sides := make([]measure.Side, len(newer))
	for i, d := range newer {
		sides[i] = side(d)
	}
	list := make(Comparisons, len(newer))
	for i, changes := range how.Compare(side(older), sides...) {
		n := newer[i]
		c := &Compared{
			OldDir: older.Dir, NewDir: n.Dir, Old: older.Data, New: n.Data, Absolute: how.Absolute, Changes: changes,
			Obstacles: measure.Obstacles(side(older), sides[i]), word: "NEW",
		}
		if len(newer) > 1 {
			c.word = fmt.Sprintf("NEW %d", i+1)
		}
		c.OnlyOld, c.OnlyNew = without(older.Run, n.Run), without(n.Run, older.Run)
		list[i] = c
	}
	return list
}

// ErrIncomparable is wrapped by errors about runs with obstacles: see [measure.Obstacles].
var ErrIncomparable = errors.New("cannot be compared")

// ErrNothingInCommon is wrapped by errors about runs that have no cell in common.
var ErrNothingInCommon = errors.New("have no cell in common")

// Compare compares two runs, the older first. oldDir and newDir are the names of their directories in views.
func Compare(oldDir, newDir string, older, newer *Data) *Compared {
	return CompareAll(measure.Comparing{}, Directory{oldDir, older}, Directory{newDir, newer})[0]
}

// Check returns the first error of [Compared.Check] over all comparisons.
func (l Comparisons) Check(anyway bool) error {
	for _, c := range l {
		if err := c.Check(anyway); err != nil {
			return err
		}
	}
	return nil
}

// margin returns the margin of [measure.Compare], a share.
func (c *Compared) margin() float64 { return measure.Margin(c.Old.Run.Design, c.New.Run.Design) }

// shownMargin returns the margin rounded to the digits that views show.
func (c *Compared) shownMargin() float64 {
	const step = 0.001
	return math.Round(c.margin()/step) * step
}

// without returns the ids of the cells of one run that the other does not have.
func without(run, other measure.Run) []string {
	var list []string
	for _, c := range run.Cells {
		if !slices.ContainsFunc(other.Cells, func(o measure.Cell) bool { return o.ID == c.ID }) {
			list = append(list, c.ID)
		}
	}
	return list
}

// mostObstacles is the number of obstacles that an error names at most.
const mostObstacles = 20

// Check returns an error if the two runs should not be compared. It wraps [ErrNothingInCommon] or, unless anyway is
// true, [ErrIncomparable], with a line for each obstacle.
func (c *Compared) Check(anyway bool) error {
	if len(c.OnlyNew) == len(c.New.Run.Cells) {
		return fmt.Errorf("compare: %q and %q %w: OLD has %s, %s has %s", c.OldDir, c.NewDir,
			ErrNothingInCommon, some(c.OnlyOld), c.word, some(c.OnlyNew))
	}
	against := c.against()
	if len(against) == 0 || anyway {
		return nil
	}
	var lines []string
	for i, o := range against {
		if i == mostObstacles {
			lines = append(lines, fmt.Sprintf("and %d more", len(against)-i))
			break
		}
		lines = append(lines, c.obstacle(o))
	}
	return fmt.Errorf("compare: %q and %q %w: %s", c.OldDir, c.NewDir, ErrIncomparable, strings.Join(lines, "\n  "))
}

// against returns the obstacles to the comparison. If values are compared, only the essential ones are obstacles.
func (c *Compared) against() []measure.Obstacle {
	return slices.DeleteFunc(slices.Clone(c.Obstacles), func(o measure.Obstacle) bool {
		return c.Absolute && !o.Essential
	})
}

// Essential reports whether the runs differ in something that makes even values incomparable.
func (c *Compared) Essential() bool {
	return slices.ContainsFunc(c.Obstacles, func(o measure.Obstacle) bool { return o.Essential })
}

// Brief returns a printable text from a file, cut after 200 characters.
func Brief(s string) string {
	const longest = 200
	if s = Printable(s); utf8.RuneCountInString(s) > longest {
		s = string([]rune(s)[:longest]) + "…"
	}
	return s
}

// obstacle returns a difference between the two runs in words.
func (c *Compared) obstacle(o measure.Obstacle) string {
	text := fmt.Sprintf("%s: %s in OLD, %s in %s", Brief(o.What), Brief(o.Old), Brief(o.New), c.word)
	if len(o.Cells) > 0 {
		text += " (" + some(o.Cells) + ")"
	}
	return text
}

// some returns the first id and the number of the others.
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

// Worse returns the number of cells that became worse in their primary metric. A baseline counts if its own value
// became worse. See [measure.Change.Worse].
func (c *Compared) Worse() int { return c.count(measure.Change.Worse) }

// Failed returns the number of cells that both runs have and that failed in one of them.
func (c *Compared) Failed() int {
	return c.count(func(x measure.Change) bool { return x.Verdict.Failed() })
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

// Doubts returns the limits of a comparison: differences between the runs, cells that only one of them has, failed
// cells, and runs that are too short.
func (c *Compared) Doubts() []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, o := range c.against() {
		add("compared although the runs differ (measure both alike): %s", c.obstacle(o))
	}
	switch {
	case filepath.Clean(c.OldDir) == filepath.Clean(c.NewDir):
		add("OLD and %s are the same directory: name the directories of two runs", c.word)
	case c.Old.Run.Started.Equal(c.New.Run.Started) && c.Old.Run.Design.Seed == c.New.Run.Design.Seed &&
		len(c.Old.Log.Trials) == len(c.New.Log.Trials):
		add("OLD and %s started at the same moment: they are copies of one run; name another", c.word)
	case c.New.Run.Started.Before(c.Old.Run.Started):
		add("%s started before OLD: swap the arguments?", c.word)
	}
	if len(c.OnlyOld) > 0 {
		add("only in OLD%s (measure the same stacks and workloads in both): %s",
			map[bool]string{true: ", not in " + c.word}[c.word != "NEW"], Printable(strings.Join(c.OnlyOld, ", ")))
	}
	if len(c.OnlyNew) > 0 {
		add("only in %s (measure the same stacks and workloads in both): %s", c.word,
			Printable(strings.Join(c.OnlyNew, ", ")))
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
		if proofs, broken, _ := proved(a.Proofs); broken > 0 {
			p := a.Proofs[slices.IndexFunc(a.Proofs, func(p measure.Proof) bool { return !p.OK })]
			add("%s: %d of %d proofs failed (nettoll report shows all), the first: lab %s, generation %d, %s: %s",
				s.word, broken, proofs, Printable(p.Lab), p.Generation, Printable(p.When), Printable(p.Claim))
		}
		if len(a.Proofs) == 0 {
			add("%s: no proof was recorded: measure again to have them", s.word)
		}
		if n := a.Generations; n == 0 {
			add("%s: nothing was measured: give it more time (--time)", s.word)
		} else if n < measure.LeastGenerations {
			add("%s has only %s: a verdict needs %d (use --generations, or a longer --time)", s.word,
				Count(n, "generation", "generations"), measure.LeastGenerations)
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
	return []side{{"OLD", c.OldDir, c.Old}, {c.word, c.NewDir, c.New}}
}

package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

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
	c := &Compared{OldDir: oldDir, NewDir: newDir, Old: older, New: newer, Changes: measure.Compare(x, y), Obstacles: measure.Obstacles(x, y)}
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

// Check returns why the two runs ought not to be compared: an error that wraps [ErrNothingInCommon] or, a line for each obstacle and unless they
// are to be compared anyway, [ErrIncomparable].
func (c *Compared) Check(anyway bool) error {
	if len(c.OnlyNew) == len(c.New.Run.Cells) {
		return fmt.Errorf("compare: %q and %q %w: OLD has %s, NEW has %s", c.OldDir, c.NewDir, ErrNothingInCommon, some(c.OnlyOld), some(c.OnlyNew))
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
		if s = printable(s); wide(s) > longest {
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
		return printable(ids[0])
	default:
		return printable(ids[0]) + " and " + count(n, "more cell", "more cells")
	}
}

// Worse counts the cells that have become slower in their primary metric, or worse in what is no speed.
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

// Doubts says what a reader of the changes has to know beside them: in what the runs differ, which cells only one of them has, what
// failed, what is too little.
func (c *Compared) Doubts() []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, o := range c.Obstacles {
		add("compared although the runs are not alike: %s", obstacle(o))
	}
	switch {
	case filepath.Clean(c.OldDir) == filepath.Clean(c.NewDir):
		add("OLD and NEW are the same directory: nothing can have changed")
	case c.Old.Run.Started.Equal(c.New.Run.Started) && c.Old.Run.Design.Seed == c.New.Run.Design.Seed && len(c.Old.Log.Trials) == len(c.New.Log.Trials):
		add("OLD and NEW were started at the same moment: they are copies of one run")
	case c.New.Run.Started.Before(c.Old.Run.Started):
		add("NEW was started before OLD: is it the other way round?")
	}
	if len(c.OnlyOld) > 0 {
		add("only in OLD: %s", printable(strings.Join(c.OnlyOld, ", ")))
	}
	if len(c.OnlyNew) > 0 {
		add("only in NEW: %s", printable(strings.Join(c.OnlyNew, ", ")))
	}
	for _, s := range c.sides() {
		a := s.data.Analysis
		for _, f := range a.Failed {
			if f.Trials == 0 {
				add("%s: %s was not measured: %s", s.word, printable(f.Cell), printable(f.Reason))
			} else {
				add("%s: %s failed in %s: %s", s.word, printable(f.Cell), ofAll(f.Trials), printable(f.Reason))
			}
		}
		broken := 0
		detail := ""
		for _, p := range a.Proofs {
			if !p.OK {
				if broken++; broken == 1 {
					detail = fmt.Sprintf("lab %s, generation %d, %s: %s", printable(p.Lab), p.Generation, printable(p.When), printable(p.Claim))
				}
			}
		}
		if broken > 0 {
			add("%s: proof failed in %d of %d times, the first in %s", s.word, broken, len(a.Proofs), detail)
		}
		if len(a.Proofs) == 0 {
			add("%s: no proof was recorded", s.word)
		}
		if n := a.Generations; n == 0 {
			add("%s: nothing was measured", s.word)
		} else if n < fewGenerations {
			add("%s has %s only: intervals are wide with fewer than %d", s.word, count(n, "generation", "generations"), fewGenerations)
		}
		if n := len(a.Warnings); n > 0 {
			add("%s carries %s of its own: nettoll report %s", s.word, count(n, "warning", "warnings"), printable(s.dir))
		}
	}
	return list
}

// fewGenerations is what every run has that was not interrupted.
const fewGenerations = 5

type side struct {
	word, dir string
	data      *Data
}

func (c *Compared) sides() []side {
	return []side{{"OLD", c.OldDir, c.Old}, {"NEW", c.NewDir, c.New}}
}

// CompareFormats lists the formats that [Compared.Write] knows, the default first.
func CompareFormats() []string { return []string{"text", "markdown", "csv", "json"} }

// CheckCompareFormat returns an error that wraps [ErrUnknownFormat] and lists those known, unless the format is one of them.
func CheckCompareFormat(format string) error {
	if slices.Contains(CompareFormats(), format) {
		return nil
	}
	return fmt.Errorf("%w %q (known: %s)", ErrUnknownFormat, format, strings.Join(CompareFormats(), ", "))
}

// Write writes what has changed, in one of the formats: of each cell its primary metric, or all of them if the options say so. Colour and width
// hold for text alone.
func (c *Compared) Write(w io.Writer, format string, o Options) error {
	var text string
	switch format {
	case "text":
		text = c.comparison(o).text()
	case "markdown":
		o.Color = false
		text = c.comparison(o).markdown()
	case "csv":
		return c.csv(w, o.All)
	case "json":
		return c.json(w, o.All)
	default:
		return CheckCompareFormat(format)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// comparison is a comparison for people, before it is set as text or as Markdown.
type comparison struct {
	*view   // of the new run's cells that the old one has too
	c       *Compared
	changes map[string]map[string]*measure.Change // by cell and metric
}

func (c *Compared) comparison(o Options) *comparison {
	common := c.New.Run
	common.Cells = slices.DeleteFunc(slices.Clone(common.Cells), func(x measure.Cell) bool { return slices.Contains(c.OnlyNew, x.ID) })
	v := &comparison{view: newView(common, c.New.Analysis, o), c: c, changes: map[string]map[string]*measure.Change{}}
	for i := range c.Changes {
		x := &c.Changes[i]
		if v.changes[x.Cell.ID] == nil {
			v.changes[x.Cell.ID] = map[string]*measure.Change{}
		}
		v.changes[x.Cell.ID][x.Metric] = x
	}
	return v
}

// sentences say what has changed: first in how many comparisons, then in each of the important ones.
func (v *comparison) sentences() []string {
	n, verdicts := 0, map[measure.Verdict]int{}
	var important, rest []string
	for _, g := range v.groups {
		for _, cell := range g.compared() {
			n++
			c := v.changes[cell.ID][g.primary.Name]
			if c == nil { // neither run knows anything of it
				verdicts[measure.NotPrecise]++
				continue
			}
			verdicts[c.Verdict]++
			if s := v.sentence(g, c); differing(c.Verdict) {
				important = append(important, s)
			} else {
				rest = append(rest, s)
			}
		}
	}
	if n == 0 {
		return []string{"The two runs have no more in common than baselines: nothing can be said about any stack."}
	}
	list := []string{headline(n, verdicts)}
	if n <= mostSentences {
		return append(append(list, important...), rest...)
	}
	if k := len(important) - mostSentences; k > 0 {
		important = append(important[:mostSentences], fmt.Sprintf("… and %s more, in the tables below.", count(k, "difference", "differences")))
	}
	return append(list, important...)
}

// headline says how many of n comparisons came out how.
func headline(n int, verdicts map[measure.Verdict]int) string {
	if verdicts[measure.NoDifference] == n {
		if n == 1 {
			return "No difference above the floor between OLD and NEW, in the only comparison."
		}
		return fmt.Sprintf("No difference above the floor between OLD and NEW, in any of %d comparisons.", n)
	}
	var said []string
	for _, x := range []struct {
		verdict measure.Verdict
		word    string
	}{
		{measure.Slower, "slower"},
		{measure.Faster, "faster"},
		{measure.Higher, "higher"},
		{measure.Lower, "lower"},
		{measure.NoDifference, string(measure.NoDifference)},
		{measure.NotPrecise, string(measure.NotPrecise)},
		{measure.HasFailed, string(measure.HasFailed)},
	} {
		if k := verdicts[x.verdict]; k > 0 {
			said = append(said, fmt.Sprintf("%s in %d", x.word, k))
		}
	}
	return fmt.Sprintf("NEW against OLD: %s of %s.", strings.Join(said, ", "), count(n, "comparison", "comparisons"))
}

// sentence says what has become of a cell in its primary metric, and no more than its verdict does.
func (v *comparison) sentence(g *group, c *measure.Change) string {
	who, what := name(c.Cell), of(c.Metric)
	point, interval := change(&c.Row)
	how := fmt.Sprintf("%s %s, 95 %% interval %s", kind(&c.Row), point, interval)
	switch c.Verdict {
	case measure.HasFailed:
		var in []string
		for _, s := range v.c.sides() {
			for _, f := range s.data.Analysis.Failed {
				switch {
				case f.Cell != c.Cell.ID:
				case f.Trials == 0:
					in = append(in, "was not measured in "+s.word)
				default:
					in = append(in, "failed in "+s.word)
				}
			}
		}
		return fmt.Sprintf("What became of %s under %s %s is not known: it %s.", what, who, g.where, strings.Join(in, " and "))
	case measure.NoDifference:
		return fmt.Sprintf("%s: no difference above the floor (%s) in %s %s.", who, margin(c.Floor, g.primary), what, g.where)
	case measure.Slower, measure.Faster:
		return fmt.Sprintf("%s is %s in NEW %s: its toll on %s went from %s to %s (%s).", who, c.Verdict, g.where, what, toll(c.Old), toll(c.New), how)
	case measure.Higher, measure.Lower:
		return fmt.Sprintf("%s of %s is %s in NEW %s: its toll went from %s to %s (%s).", label(c.Metric), who, c.Verdict, g.where, toll(c.Old), toll(c.New), how)
	}
	if point == "" {
		return fmt.Sprintf("What became of %s under %s %s is not known: %s.", what, who, g.where, v.why(g, c))
	}
	text := fmt.Sprintf("What became of %s under %s %s is not known precisely enough (%s)", what, who, g.where, how)
	if math.IsNaN(c.Floor) {
		text += ", for want of a floor in both runs"
	}
	return text + "."
}

// kind names what two runs are compared by.
func kind(r *measure.Row) string {
	if r.HasDifference {
		return "difference of differences"
	}
	return "ratio of ratios"
}

// toll is what a row's cell adds over its baseline, "–" where that is not known.
func toll(r *measure.Row) string {
	if r == nil {
		return "–"
	}
	if point, _ := change(r); point != "" {
		return point
	}
	return "–"
}

// why says why two rows cannot be compared.
func (v *comparison) why(g *group, c *measure.Change) string {
	for _, s := range v.c.sides() {
		r := c.Old
		if s.word == "NEW" {
			r = c.New
		}
		switch {
		case r == nil:
			return s.word + " has no such value"
		case r.HasRatio || r.HasDifference:
			continue
		case r.Generations < 2:
			return fmt.Sprintf("an interval needs 2 generations, and %s has %d", s.word, r.Generations)
		case slices.ContainsFunc(s.data.Analysis.Failed, func(f measure.FailedCell) bool { return f.Cell == r.Cell.Baseline }):
			return "its baseline failed in " + s.word
		}
		return fmt.Sprintf("%s has no ratio of it to %s", s.word, g.baseAs)
	}
	return "no ratio of ratios could be made"
}

// grid is a table with what stands around it.
type grid struct {
	caption string
	rows    func(short bool) [][]field
	notes   []string
}

// grids are the tables of a group.
func (v *comparison) grids(g *group) []grid {
	if !v.all {
		list := []grid{{rows: func(short bool) [][]field { return v.primary(g, short) }}}
		if s := v.drift(g); s != "" {
			list[0].notes = append(list[0].notes, s)
		}
		list[0].notes = append(list[0].notes, v.floorNote(g))
		return list
	}
	var list []grid
	for _, cell := range g.compared() {
		list = append(list, grid{caption: name(cell) + " " + g.over(), rows: func(short bool) [][]field { return v.metrics(cell, short) }})
	}
	if g.base != nil {
		list = append(list, grid{caption: g.baseAs + ", the baseline: the machine, which cancels", rows: func(bool) [][]field { return v.baseline(g) }})
	}
	return list
}

func heads(first string, titles ...string) []field {
	row := []field{{text: first, style: dim}}
	for _, t := range titles {
		row = append(row, field{t, dim, t != "95 % interval" && t != "verdict"})
	}
	return row
}

// primary makes the rows of the primary metric.
func (v *comparison) primary(g *group, short bool) [][]field {
	first := label(g.primary.Name) + " " + g.over()
	if short {
		first = ""
	}
	rows := [][]field{heads(first, "OLD", "NEW", "change", "95 % interval", "verdict")}
	for _, cell := range g.compared() {
		row := []field{{text: name(cell)}, {text: "–", right: true}, {text: "–", right: true}, {right: true}, {}, verdict(measure.NotPrecise, g.primary, short)}
		if c := v.changes[cell.ID][g.primary.Name]; c != nil {
			point, interval := change(&c.Row)
			row[1].text, row[2].text, row[3].text, row[4].text = toll(c.Old), toll(c.New), point, interval
			row[5] = verdict(c.Verdict, g.primary, short)
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		rows = append(rows, []field{{text: "only the baseline is in both runs", style: dim}})
	}
	return rows
}

// metrics makes the rows of every metric of a cell.
func (v *comparison) metrics(cell *measure.Cell, short bool) [][]field {
	rows := [][]field{heads("", "OLD", "NEW", "change", "95 % interval", "floor", "verdict")}
	for _, metric := range v.ordered(cell) {
		c := v.changes[cell.ID][metric]
		m, _ := measure.LookupMetric(metric)
		point, interval := change(&c.Row)
		rows = append(rows, []field{
			{text: label(metric)},
			{text: toll(c.Old), right: true},
			{text: toll(c.New), right: true},
			{text: point, right: true},
			{text: interval},
			{text: margin(c.Floor, m), style: dim, right: true},
			verdict(c.Verdict, m, short),
		})
	}
	return rows
}

// baseline makes the rows of the baseline's own values.
func (v *comparison) baseline(g *group) [][]field {
	rows := [][]field{heads("", "OLD", "NEW", "change")}
	for _, metric := range v.ordered(g.base) {
		c := v.changes[g.base.ID][metric]
		rows = append(rows, []field{{text: label(metric)}, {text: valueOf(c.Old), right: true}, {text: valueOf(c.New), right: true}, {text: drift(c), right: true}})
	}
	return rows
}

func (v *comparison) ordered(cell *measure.Cell) []string {
	names := map[string]bool{}
	for metric := range v.changes[cell.ID] {
		names[metric] = true
	}
	return ordered(names)
}

// valueOf prints a row's value, "–" where there is none.
func valueOf(r *measure.Row) string {
	if r == nil || math.IsNaN(r.Value) {
		return "–"
	}
	return number(r.Value, r.Unit)
}

// drift prints by how much a value differs from one run to the other, "" where that cannot be said.
func drift(c *measure.Change) string {
	x := c.Drift()
	if math.IsNaN(x) || math.IsInf(x, 0) || x == 0 {
		return ""
	}
	const known = 0.02 // no interval is drawn of it: one decimal
	point, _ := ratio(x, x-known/2, x+known/2)
	return point
}

// drift says what became of the baseline itself.
func (v *comparison) drift(g *group) string {
	if g.base == nil {
		return ""
	}
	c := v.changes[g.base.ID][g.primary.Name]
	if c == nil || c.Verdict == measure.HasFailed {
		return g.baseAs + " itself is not known in both runs"
	}
	text := fmt.Sprintf("%s itself: %s, then %s", g.baseAs, valueOf(c.Old), valueOf(c.New))
	if d := drift(c); d != "" {
		text += " (" + d + "; the machine, which cancels)"
	}
	return text
}

// floorNote says what the floor of the primary metric is.
func (v *comparison) floorNote(g *group) string {
	for _, cell := range g.compared() {
		if c := v.changes[cell.ID][g.primary.Name]; c != nil {
			if m := margin(c.Floor, g.primary); m != "" {
				return "floor " + m + " (the floors of both runs together)"
			}
		}
	}
	return "floor unknown (it takes a twin of the baseline in both runs)"
}

// origins says of each run what it is called, when it was measured, how much and where.
func (v *comparison) origins() []string {
	var list []string
	for _, s := range v.c.sides() {
		a := s.data.Analysis
		text := fmt.Sprintf("%s: %s", s.word, printable(s.dir))
		if at := s.data.Run.Started; !at.IsZero() {
			text += at.UTC().Format(", 2006-01-02 15:04 UTC")
		}
		text += fmt.Sprintf(", %s in %s", count(a.Blocks, "block", "blocks"), count(a.Generations, "generation", "generations"))
		if on := newView(s.data.Run, a, Options{}).circumstances(); on != "" {
			text += " · " + on
		}
		list = append(list, text)
	}
	return list
}

// text sets a comparison for a terminal.
func (v *comparison) text() string {
	for _, s := range v.sentences() {
		v.prose("", "  ", s, bold)
	}
	space := strings.Repeat(" ", indent)
	for _, g := range v.groups {
		v.blank()
		if wide(g.title()) > v.width {
			v.prose("", space, g.title(), bold)
		} else {
			v.line(g.title(), bold)
		}
		for i, t := range v.grids(g) {
			if t.caption != "" {
				if i > 0 {
					v.blank()
				}
				v.prose(space, space, t.caption, bold)
			}
			rows := t.rows(false)
			if width(rows, wide) > v.width {
				if head := rows[0][0].text; head != "" {
					v.prose(space, space, head, dim)
				}
				rows = t.rows(true)
			}
			v.table(rows)
			for _, n := range t.notes {
				v.prose(space, space+space, n, dim)
			}
		}
	}
	v.blank()
	for _, s := range v.origins() {
		v.prose("", space+space+" ", s, dim)
	}
	if doubts := v.c.Doubts(); len(doubts) > 0 {
		v.blank()
		for _, d := range doubts {
			v.prose("! ", "  ", d, doubt)
		}
	}
	return v.String()
}

// markdown sets a comparison as GitHub Flavored Markdown, for a comment on a change.
func (v *comparison) markdown() string {
	m := &markdown{}
	list := v.sentences()
	m.paragraph(heavy(list[0]))
	for _, text := range list[1:] {
		m.WriteString("- " + said(text) + "\n")
	}
	if len(list) > 1 {
		m.WriteByte('\n')
	}
	for _, g := range v.groups {
		p := part{title: g.heading()}
		for _, t := range v.grids(g) {
			p.tables = append(p.tables, Block{Table: tableOf(t.caption, t.rows(false))})
			if len(t.notes) > 0 {
				p.tables = append(p.tables, Block{Text: strings.Join(t.notes, "; "), Tone: Quiet})
			}
		}
		m.part(p, topLevel)
	}
	if doubts := v.c.Doubts(); len(doubts) > 0 {
		m.part(part{title: "Doubts", lists: items(doubts, Doubt)}, topLevel)
	}
	m.part(part{title: "Runs", lists: items(v.origins(), Plain)}, topLevel)
	return strings.TrimRight(m.String(), "\n") + "\n"
}

// topLevel is that of the headings in a comment.
const topLevel = 3

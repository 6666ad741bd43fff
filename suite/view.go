package suite

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// Sections returns the comparison of a run with the paper, as parts of its report: the claims, the figures side by
// side, the differences, and in detail the claims one by one.
func (r *Result) Sections() []report.Section {
	list := append([]report.Section{r.claims()}, r.drawings()...)
	return append(list, r.sideBySide(), r.differs(), r.oneByOne())
}

// claims returns the section with the answer: which claims hold.
func (r *Result) claims() report.Section {
	p := r.Suite.Paper
	s := report.Section{Title: "The paper's claims"}
	source := fmt.Sprintf("%s: %s. %s", p.Authors, p.Title, p.In)
	if p.DOI != "" {
		source += ", doi:" + p.DOI
	}
	s.Blocks = append(s.Blocks, report.Block{Text: source + "."}, report.Block{Text: r.summary()})
	starred, repeated := false, false
	var t *report.Table
	for i, c := range r.Claims {
		if r.narrowed && !c.Tried() {
			continue // the summary names them
		}
		if t == nil || c.Group != t.Caption {
			t = &report.Table{Caption: c.Group, Columns: []report.Column{
				{Title: "claim"}, {Title: "in the paper's figures"}, {Title: "here"}, {Title: "time to decide"},
			}}
			s.Blocks = append(s.Blocks, report.Block{Table: t})
		}
		measured := c.measurements()
		repeated = repeated || len(measured) < len(c.Parts)
		star := ""
		if c.Expect != "" {
			star, starred = "*", true
		}
		t.Rows = append(t.Rows, []report.Field{
			{Text: fmt.Sprintf("%d %s%s", i+1, c.Title, star)},
			c.there(),
			finding(c.Here.Finding, measured, func(p Part) measure.Finding { return p.Answer.Finding }),
			{Text: r.longer(c)},
		})
	}
	if starred {
		s.Blocks = append(s.Blocks, report.Block{
			Text: "* cannot be expected to hold here; the reason is below.", Tone: report.Quiet,
		})
	}
	if repeated {
		s.Blocks = append(s.Blocks, report.Block{
			Text: "Places of the paper that are one measurement here, such as two machines of the paper, count once here.",
			Tone: report.Quiet,
		})
	}
	s.Blocks = append(s.Blocks, report.Block{Tone: report.Quiet, Text: "A claim holds if it holds at each of its places " +
		"(in brackets: at how many of those tried, and of how many in the paper). It does not hold if it fails at one. " +
		"Here, both need an interval beyond the claimed bound and a distance to it above the floor; the error rate is 5 % " +
		"for all claims together. Time to decide: how long a run would decide the claim if the estimates stayed the same."})
	return s
}

// summary returns the sentence with the number of claims that hold.
func (r *Result) summary() string {
	there, here := map[measure.Finding]int{}, map[measure.Finding]int{}
	var lost []string
	plots := 0
	for i, c := range r.Claims {
		if c.Plot != "" {
			plots++
		}
		there[c.There]++
		here[c.Here.Finding]++
		if c.There == measure.Holds && c.Here.Finding == measure.DoesNotHold {
			lost = append(lost, strconv.Itoa(i+1))
		}
	}
	n := len(r.Claims)
	text := fmt.Sprintf("%d claims: all undecided here.", n)
	switch open := here[measure.CannotTell]; {
	case here[NotTried] == n:
		text = fmt.Sprintf("%d claims: none was tried here.", n)
	case open < n:
		text = fmt.Sprintf("%d claims: %s here, %d not, %d undecided.", n, hold(here[measure.Holds]),
			here[measure.DoesNotHold], open)
	}
	if missing := r.untried(); missing != nil && len(missing) < n {
		text += fmt.Sprintf(" Not tried: %s.", Numbers(missing))
	}
	if plots > 0 {
		text += fmt.Sprintf(" The paper gives figures for %d of them; by these, %s.", n-plots, hold(there[measure.Holds]))
	} else {
		text += fmt.Sprintf(" By the paper's own figures, %s.", hold(there[measure.Holds]))
	}
	if len(lost) > 0 {
		text += " By its figures but not here: " + strings.Join(lost, ", ") + "."
	}
	return text
}

// untried returns the numbers of the claims that were not measured.
func (r *Result) untried() []string {
	var list []string
	for i, c := range r.Claims {
		if !c.Tried() {
			list = append(list, strconv.Itoa(i+1))
		}
	}
	return list
}

// hold returns "1 holds" or "2 hold".
func hold(n int) string {
	if n == 1 {
		return "1 holds"
	}
	return strconv.Itoa(n) + " hold"
}

// there returns the finding about a claim on the paper's own figures.
func (c Judged) there() report.Field {
	if c.Plot != "" {
		return report.Field{Text: "no figures", Tone: report.Quiet}
	}
	return finding(c.There, c.Parts, func(p Part) measure.Finding { return p.Finding })
}

// undecided is the word of reports for [measure.CannotTell].
const undecided = "undecided"

// finding returns a finding in words, with the number of places.
func finding(f measure.Finding, parts []Part, of func(Part) measure.Finding) report.Field {
	field := report.Field{Text: string(f)}
	switch f {
	case measure.Holds:
		field.Tone = report.Good
	case measure.DoesNotHold:
		field.Tone = report.Bad
	case measure.CannotTell:
		field.Text, field.Tone = undecided, report.Doubt
	case NotTried:
		field.Tone = report.Quiet
		return field
	}
	counts := map[measure.Finding]int{}
	for _, p := range parts {
		counts[of(p)]++
	}
	if n := len(parts) - counts[NotTried]; len(parts) > 1 {
		of := ""
		if n < len(parts) { // not tried at the others
			of = fmt.Sprintf(" of %d", len(parts))
		}
		field.Text += fmt.Sprintf(" (%d/%d%s)", counts[measure.Holds], n, of)
	}
	return field
}

// day is the longest run that is suggested, in s.
const day = 24 * 60 * 60 // s

// longer returns how long a run would decide a claim; "" if it is decided.
func (r *Result) longer(c Judged) string {
	if c.Here.Finding != measure.CannotTell {
		return ""
	}
	if measured := slices.ContainsFunc(c.Parts, func(p Part) bool { return p.Missing == "" }); !measured {
		return "no estimate" // the claims one by one show the reason
	}
	if missing := slices.ContainsFunc(c.Parts, func(p Part) bool { return p.Missing != "" }); missing &&
		math.IsNaN(c.Here.Longer) {
		return "partly measured"
	}
	return howLong(c.Here.Longer * r.Measured)
}

// howLong returns a time of measuring in words. It is an estimate, and rounded up.
func howLong(seconds float64) string {
	const minute, hour = 60, 60 * 60
	switch {
	case math.IsNaN(seconds):
		return "unknown: no floor"
	case seconds > day:
		return "more than a day"
	case seconds > 2*hour:
		return fmt.Sprintf("about %.0f h", math.Ceil(seconds/hour))
	case seconds > 2*minute:
		return fmt.Sprintf("about %.0f min", math.Ceil(seconds/minute))
	}
	return fmt.Sprintf("about %.0f s", math.Ceil(seconds))
}

// sideBySide returns the section with every published figure and the measured value.
func (r *Result) sideBySide() report.Section {
	s := report.Section{Title: "Published and here"}
	if to := r.Suite.Reference; len(to) > 0 {
		text := "Ratios are to " + strings.Join(to, ", or if that has no figure, to ") + "."
		s.Blocks = append(s.Blocks, report.Block{Text: text, Tone: report.Quiet})
	}
	var table *report.Table
	before := ""
	left := 0
	for _, c := range r.Compare() {
		if r.narrowed && c.Cell == nil {
			left++
			continue
		}
		m := r.Suite.metric(c.At[metricOf])
		place := []string{m.Title}
		for _, axis := range r.Suite.Axes[:max(0, len(r.Suite.Axes)-1)] { // the last one is in the rows
			place = append(place, coordinate(axis, c.At[axis]))
		}
		caption := strings.Join(place, ", ")
		if caption != before {
			before = caption
			i := slices.IndexFunc(s.Blocks, func(b report.Block) bool { return b.Table != nil && b.Table.Caption == caption })
			if i < 0 {
				table = &report.Table{Caption: caption, Columns: []report.Column{
					{Title: ""},
					{Title: "published", Right: true},
					{Title: "here", Right: true},
					{Title: "ratio to"},
					{Title: "there", Right: true},
					{Title: "here", Right: true},
					{Title: "95 % interval"},
					{Title: "verdict"},
				}}
				s.Blocks = append(s.Blocks, report.Block{Table: table})
			} else {
				table = s.Blocks[i].Table
			}
		}
		table.Rows = append(table.Rows, r.row(c, m))
	}
	if left > 0 {
		s.Blocks = append(s.Blocks, report.Block{
			Text: report.Count(left, "published figure was", "published figures were") + " not tried.", Tone: report.Quiet,
		})
	}
	return s
}

func (r *Result) row(c Compared, m Metric) []report.Field {
	name := c.At[stackOf]
	if n := len(r.Suite.Axes); n > 0 {
		name += ", " + coordinate(r.Suite.Axes[n-1], c.At[r.Suite.Axes[n-1]])
	}
	d, _ := r.run.Vocabulary().Lookup(m.Here.Metric)
	row := make([]report.Field, 8) // see sideBySide
	row[0].Text, row[1].Text = name, r.Suite.text(c.Figure, d.Unit)
	row[2].Text, row[3].Text = report.Number(c.Value, d.Unit), c.Reference
	if c.Reference != "" {
		row[4].Text = fixed(c.There, 2)
	}
	switch {
	case c.Cell == nil || math.IsNaN(c.Value):
		row[7] = report.Field{Text: notMeasured, Tone: report.Doubt}
	case c.Here != nil:
		row[5].Text, row[6].Text = ratio(c.Here)
		if row[7] = verdict(c.Verdict); c.Verdict == measure.TooFew {
			row[7] = report.Field{Text: report.TooFew(c.Here.Generations), Tone: report.Doubt}
		}
	case c.Reference != "":
		row[7] = report.Field{Text: "no ratio", Tone: report.Doubt}
	}
	return row
}

// verdict returns nettoll's verdict in a few words.
func verdict(v measure.Verdict) report.Field {
	switch v {
	case measure.Faster:
		return report.Field{Text: string(v), Tone: report.Good}
	case measure.Slower:
		return report.Field{Text: string(v), Tone: report.Bad}
	case measure.NoDifference:
		return report.Field{Text: "no difference"}
	case measure.NotPrecise:
		return report.Field{Text: "not precise", Tone: report.Doubt}
	case measure.TooNoisy:
		return report.Field{Text: "too noisy", Tone: report.Doubt}
	}
	return report.Field{Text: string(v)}
}

// ratio returns an estimate and its interval, without digits below its uncertainty.
func ratio(c *measure.Combined) (point, interval string) {
	n := 2
	if c.Hi-c.Lo < 0.02 {
		n = 3
	}
	return bounded(c.Ratio, n), bounded(c.Lo, n) + " to " + bounded(c.Hi, n)
}

// bounded returns a ratio. Beyond a factor of 1000 its digits add nothing.
func bounded(x float64, decimals int) string {
	const most = 1000
	switch {
	case x > most:
		return ">1000"
	case x < 1.0/most:
		return "<0.001"
	case x < 0.1:
		decimals = 3
	}
	return fixed(x, decimals)
}

func fixed(x float64, decimals int) string {
	if math.IsNaN(x) {
		return "–"
	}
	if x >= 100 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// differs returns the section about the differences from the paper.
func (r *Result) differs() report.Section {
	s := report.Section{Title: "What differs from the paper"}
	for _, text := range r.Suite.Differs {
		s.Blocks = append(s.Blocks, report.Block{Text: text})
	}
	for i, c := range r.Claims {
		if c.Expect != "" {
			s.Blocks = append(s.Blocks, report.Block{
				Text: fmt.Sprintf("Claim %d cannot be expected to hold here: %s %s", i+1, c.Text, c.Expect),
			})
		}
	}
	for _, x := range r.Suite.Stacks {
		added := slices.ContainsFunc(r.run.Cells, func(c measure.Cell) bool { return slices.Contains(x.Here, c.Stack) })
		if x.Missing != "" && !added {
			s.Blocks = append(s.Blocks, report.Block{
				Text: fmt.Sprintf("%s was not measured: %s.", strings.ToUpper(x.Name[:1])+x.Name[1:], x.Missing),
			})
		}
	}
	for _, u := range r.Suite.unpublished {
		s.Blocks = append(s.Blocks, report.Block{
			Text: fmt.Sprintf("No published figure for %s: %s.", r.Suite.where(u.Where), u.Reason), Tone: report.Quiet,
		})
	}
	return s
}

// where returns a point in words.
func (s *Suite) where(p Point) string {
	var list []string
	for _, k := range append([]string{"workload"}, s.coordinates()...) {
		switch v := p[k]; {
		case v == "" || k == metricOf:
		case k == "workload":
			list = append(list, v)
		default:
			list = append(list, coordinate(k, v))
		}
	}
	return strings.Join(list, ", ")
}

// oneByOne returns the section with every claim at each of its places, and the checks of the paper's own figures.
func (r *Result) oneByOne() report.Section {
	s := report.Section{Title: "The claims one by one", Detail: true}
	for i, c := range r.Claims {
		if r.narrowed && !c.Tried() {
			continue
		}
		text := fmt.Sprintf("%d. %s", i+1, c.Text)
		if c.Note != "" {
			text += " " + c.Note
		}
		if c.Plot != "" {
			text += " The paper has no figures for it: " + c.Plot + "."
		}
		if links := c.wanted(); links != "" {
			text += " It is tried only with " + links + "."
		}
		if c.Untried != "" {
			text += " Not tried: " + c.Untried + "."
		}
		if c.Said != "" {
			text += " (" + strings.ToUpper(c.Said[:1]) + c.Said[1:] + ".)"
		}
		s.Blocks = append(s.Blocks, report.Block{Text: text})
		for j := range c.Ratios {
			t := &report.Table{Columns: []report.Column{
				{Title: ""},
				{Title: "published", Right: true},
				{Title: ""},
				{Title: "here", Right: true},
				{Title: "95 % interval"},
				{Title: "floor", Right: true},
				{Title: ""},
				{Title: "time to decide"},
			}}
			for _, p := range c.Parts {
				if p.ratio == j {
					t.Caption = p.Of + ", claimed " + claimed(p.Bounds)
					t.Rows = append(t.Rows, r.part(p))
				}
			}
			s.Blocks = append(s.Blocks, report.Block{Table: t})
		}
	}
	for _, c := range r.Checks {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, p := range c.Parts {
			lo, hi = min(lo, p.There), max(hi, p.There)
		}
		f := finding(c.There, c.Parts, func(p Part) measure.Finding { return p.Finding })
		s.Blocks = append(s.Blocks, report.Block{
			Text: fmt.Sprintf("The published figures checked: %s Computed: %s to %s; %s.", c.Text, fixed(lo, 3), fixed(hi, 3),
				f.Text),
		})
	}
	return s
}

func (r *Result) part(p Part) []report.Field {
	row := []report.Field{
		{Text: p.At},
		{Text: fixed(p.There, 3)},
		brief(p.Finding),
		{},
		{},
		{},
		brief(p.Answer.Finding),
		{},
	}
	if p.At == "" {
		row[0].Text = p.Of
	}
	if math.IsNaN(p.There) {
		row[2] = report.Field{}
	}
	if p.Missing != "" {
		row[7] = report.Field{Text: p.Missing, Tone: report.Doubt}
		if strings.HasSuffix(p.Missing, notMeasured) { // the places name the missing cell, which is long
			row[7].Text = notMeasured
		}
		return row
	}
	row[3].Text, row[4].Text = ratio(&p.Here)
	if row[5].Text = "unknown"; !math.IsNaN(p.Here.Floor) {
		row[5].Text = "±" + fixed(100*math.Expm1(p.Here.Floor), 1) + " %"
	}
	if p.Answer.Finding == measure.CannotTell {
		row[7].Text = howLong(p.Answer.Longer * r.Measured)
	}
	return row
}

// brief returns a finding in a word or two.
func brief(f measure.Finding) report.Field {
	field := finding(f, nil, nil)
	switch f {
	case measure.Holds:
	case measure.DoesNotHold:
		field.Text = "does not"
	case measure.CannotTell:
		field.Text = "open"
	case NotTried:
	}
	return field
}

// claimed returns bounds in words.
func claimed(b measure.Bounds) string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch {
	case b.Below == 0:
		return "above " + number(b.Above)
	case b.Above == 0:
		return "below " + number(b.Below)
	}
	return number(b.Above) + " to " + number(b.Below)
}

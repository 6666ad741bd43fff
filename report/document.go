package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Document holds a run as the parts that HTML and Markdown write, in the order of reading.
type Document struct {
	Title    string
	Subtitle string
	Standing []Block // see [standing]
	Answer   []string
	Sure     []Block // how reliable the answer is
	Sections []Part
}

// Part is a titled part of a document. The fields after the title are shown in this order.
type Part struct {
	Title   string
	Note    string // next to the title of a folded part
	ID      string // its anchor in the page; "" if it has none
	Folded  bool   // hidden until the reader opens it
	Blocks  []Block
	Figures string // the figures shown here, by their name in package chart, in views that have figures
	Tables  []Block
	Lists   []Item
	Code    string // shown verbatim
	Parts   []Part
}

// OnlyFigures reports whether a part has figures and no words.
func (p Part) OnlyFigures() bool {
	return p.Figures != "" && p.Blocks == nil && p.Tables == nil && p.Lists == nil && p.Code == "" && p.Parts == nil
}

// Item is an item of a list.
type Item struct {
	Text string
	Tone Tone
	Sub  []string
}

// Overview is the name of the figures of all comparisons.
const Overview = "overview"

// fewGroups is the number of groups up to which they are shown unfolded.
const fewGroups = 4

// mostBroken is the number of failures of a claim that are listed at most.
const mostBroken = 24

// Document returns the run as HTML and Markdown write it.
func (v *Reading) Document(sections []Section) Document {
	d := Document{Title: Title(v.Run), Subtitle: v.subtitle(), Answer: v.Answer(), Sure: v.sureness()}
	for _, s := range standing(v.Run, v.Analysis) {
		d.Standing = append(d.Standing, Block{Text: s, Tone: Bad})
	}
	for _, s := range sections {
		d.Sections = append(d.Sections, Part{Title: s.Title, Folded: s.Detail, Blocks: s.Blocks})
	}
	if s, ok := v.Beside(); ok {
		d.Sections = append(d.Sections, Part{Title: s.Title, ID: "beside", Blocks: s.Blocks})
	}
	if len(v.Groups) > 1 { // a single group has its own figure
		d.Sections = append(d.Sections, Part{Title: "Overview", ID: Overview, Figures: Overview})
	}
	if p, ok := v.curvesPart(); ok {
		d.Sections = append(d.Sections, p)
	}
	for _, g := range v.Groups {
		d.Sections = append(d.Sections, v.groupPart(g, len(v.Groups) > fewGroups))
	}
	if p, ok := v.percentilesPart(); ok {
		d.Sections = append(d.Sections, p)
	}
	if s, ok := v.Probes(); ok {
		d.Sections = append(d.Sections, Part{Title: s.Title, ID: "probe", Blocks: s.Blocks})
	}
	if s, ok := v.Proved(true); ok {
		d.Sections = append(d.Sections, Part{Title: s.Title, ID: "protects", Blocks: s.Blocks})
	}
	if s, ok := v.Labs(true); ok {
		d.Sections = append(d.Sections, Part{Title: s.Title, ID: "labs", Blocks: s.Blocks})
	}
	if s, ok := v.Nodes(); ok {
		d.Sections = append(d.Sections, Part{Title: s.Title, ID: "nodes", Blocks: s.Blocks})
	}
	d.Sections = append(d.Sections, v.proofPart())
	if len(v.Analysis.Failed) > 0 {
		d.Sections = append(d.Sections, Part{Title: "What failed", ID: "failed", Lists: Items(v.Failures(), Bad)})
	}
	if texts := v.Doubts(); len(texts) > 0 {
		d.Sections = append(d.Sections, Part{Title: "Doubts", ID: "doubts", Lists: Items(texts, Doubt)})
	}
	d.Sections = append(d.Sections, v.environmentPart(), v.methodPart(), v.experimentPart())
	return d
}

// Items returns texts as the items of a list.
func Items(texts []string, t Tone) []Item {
	list := make([]Item, len(texts))
	for i, text := range texts {
		list[i] = Item{Text: text, Tone: t}
	}
	return list
}

func (v *Reading) subtitle() string {
	when := ""
	if !v.Run.Started.IsZero() {
		when = v.Run.Started.UTC().Format("2 January 2006, 15:04 UTC")
	}
	return strings.TrimPrefix(when+" · "+v.Circumstances(), " · ")
}

// differs reports whether any stack differs from its baseline in a primary metric.
func (v *Reading) differs() bool {
	return slices.ContainsFunc(v.Groups, func(g *Group) bool {
		return slices.ContainsFunc(g.Compared(), func(c *measure.Cell) bool {
			r := g.Row(c, g.Primary.Name)
			return r != nil && measure.Differs(r.Verdict)
		})
	})
}

// sureness returns the paragraphs that a reader needs before believing the answer.
func (v *Reading) sureness() []Block {
	var list []Block
	for _, text := range v.Undecided() {
		list = append(list, Block{Text: text, Tone: Doubt})
	}
	if v.Comparisons() > mostSentences && v.differs() {
		list = append(list, Block{Text: "Each range covers only the comparisons that differ. The tables below show each " +
			"one with its interval.", Tone: Quiet})
	}
	list = append(list, Block{Text: v.Measured()})
	proofs, broken, untold := proved(v.Analysis.Proofs)
	switch {
	case proofs == 0:
		list = append(list, Block{Text: "No proof was recorded for the networks that were measured.", Tone: Doubt})
	case broken > 0:
		list = append(list, Block{
			Text: fmt.Sprintf("%s failed: see below.", Count(broken, "proof", "proofs")), Tone: Bad,
		})
	case untold > 0:
		list = append(list, Block{
			Text: fmt.Sprintf("%s made, none failed, %d cannot be told: see below.", Count(proofs, "proof", "proofs"), untold),
			Tone: Doubt,
		})
	default:
		list = append(list, Block{
			Text: Count(proofs, "proof", "proofs") + " made, none failed.",
		})
	}
	if n := len(v.Analysis.Failed); n > 0 {
		list = append(list, Block{
			Text: fmt.Sprintf("%s no result: see below.", Count(n, "cell has", "cells have")), Tone: Bad,
		})
	}
	if n := len(v.Doubts()); n > 0 {
		list = append(list, Block{Text: fmt.Sprintf("%s: see below.", Count(n, "doubt", "doubts")), Tone: Doubt})
	}
	return list
}

// tally returns the verdicts of a group, counted.
func (g *Group) tally() string {
	counts := map[measure.Verdict]int{}
	for _, c := range g.Compared() {
		if r := g.Row(c, g.Primary.Name); r != nil {
			counts[r.Verdict]++
		} else {
			counts[measure.NotPrecise]++
		}
	}
	var list []string
	for _, x := range []measure.Verdict{
		measure.Slower, measure.Faster, measure.Higher, measure.Lower, measure.NoDifference, measure.NotPrecise,
		measure.TooNoisy, measure.TooFew, measure.HasFailed, measure.Leaks,
	} {
		if n := counts[x]; n > 0 {
			list = append(list, strconv.Itoa(n)+" "+Verdict(x, g.Primary, true).Text)
		}
	}
	return strings.Join(list, ", ")
}

// resultFields returns value, difference, change, interval, verdict and floor of a cell in a metric.
func (g *Group) resultFields(c *measure.Cell, r *measure.Row) []Field {
	if r == nil {
		said := Verdict(measure.NotPrecise, g.Primary, false)
		if c == g.Base {
			said = Verdict(measure.IsBaseline, g.Primary, false)
		}
		return []Field{{"–", Quiet}, {}, {}, {}, said, {}}
	}
	m := r.About
	point, interval := Change(r)
	said := Judged(r, m, false)
	return []Field{
		{Text: Number(r.Value, r.Unit)},
		{Text: g.difference(r)},
		{Text: point},
		{Text: interval},
		said,
		{noise(r.Floor, m), Quiet},
	}
}

func (v *Reading) groupPart(g *Group, folded bool) Part {
	p := Part{Title: g.Heading(), ID: "group-" + g.Slug, Folded: folded, Figures: g.Slug}
	if folded {
		p.Note = Label(g.Primary) + ": " + cmp.Or(g.tally(), "nothing to compare")
	}
	t := &Table{Caption: Capital(Label(g.Primary)), Columns: []Column{
		{"stack", false},
		{Label(g.Primary), true},
		{"difference", true},
		{g.Over(), true},
		{"95 % interval", false},
		{"verdict", false},
		{"floor", true},
	}}
	for _, c := range g.Cells {
		t.Rows = append(t.Rows, append([]Field{{Text: StackName(c)}}, g.resultFields(c, g.Row(c, g.Primary.Name))...))
		if c == g.Base {
			for _, twin := range g.Twinned {
				if r := g.Row(twin, g.Primary.Name); r != nil {
					t.Rows = append(t.Rows, append([]Field{{Text: StackName(twin) + ", twin"}}, g.resultFields(twin, r)...))
				}
			}
		}
	}
	if g.Primary.Differs() {
		t = t.without(2)
	}
	p.Tables = append(p.Tables, Block{Table: t}, Block{Text: Capital(g.FloorText()) + ".", Tone: Quiet})
	if t := g.directTable(false); t != nil {
		p.Tables = append(p.Tables, Block{Table: t})
	}
	for _, text := range g.implementationTexts() {
		p.Tables = append(p.Tables, Block{Text: text + "."})
	}
	if text := g.limitText(); text != "" {
		p.Tables = append(p.Tables, Block{Text: Capital(text) + "."})
	}
	cells := g.Compared()
	if len(cells) == 0 {
		cells = g.Cells
	}
	more := Part{Title: "More metrics", Folded: true}
	for _, c := range cells {
		if t := v.metrics(g, c, false, g.Primary.Name); len(t.Rows) > 0 {
			more.Tables = append(more.Tables, Block{Table: t})
		}
	}
	if more.Tables != nil {
		if n := len(more.Tables); n > 1 {
			more.Title += " of " + Count(n, "stack", "stacks")
		}
		p.Parts = append(p.Parts, more)
	}
	if m, ok := v.memoryPart(g); ok {
		p.Parts = append(p.Parts, m)
	}
	return p
}

func (v *Reading) proofPart() Part {
	p := Part{Title: "The proof", ID: "proof"}
	claims := v.Claims()
	if len(claims) == 0 {
		p.Blocks = []Block{{Text: "No proof was recorded.", Tone: Doubt}}
		return p
	}
	p.Blocks = []Block{{Text: "nettoll sent packets through the measured networks before the first block and after the " +
		"last block of every generation."}}
	for _, c := range claims {
		it := Item{Text: Capital(c.Text) + "."}
		if c.Broken != nil || c.Untold != nil {
			it = Item{Text: "Proof " + c.Text + ".", Tone: Bad, Sub: c.Broken}
			if c.Broken == nil {
				it.Tone, it.Sub = Doubt, c.Untold
			}
			if more := len(it.Sub) - mostBroken; more > 0 {
				it.Sub = append(slices.Clone(it.Sub[:mostBroken]), fmt.Sprintf("and %d more", more))
			}
		}
		p.Lists = append(p.Lists, it)
	}
	return p
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// A Picture shows who reached whom in a lab: a row for each sender and a column for each receiver.
type Picture struct {
	Caption       string
	Rows, Columns []string
	Cells         [][]measure.Reach
}

// Table returns the picture as a table of symbols.
func (x *Picture) Table() *Table {
	t := &Table{Caption: x.Caption, Columns: []Column{{}}}
	for _, name := range x.Columns {
		t.Columns = append(t.Columns, Column{Title: name})
	}
	for i, name := range x.Rows {
		row := []Field{{Text: name}}
		for _, r := range x.Cells[i] {
			row = append(row, Field{Text: Symbol(r), Tone: ReachTone(r)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Lines returns the picture as lines of symbols, as wide as they have to be. Columns have numbers, which rows explain.
func (x *Picture) Lines() []string {
	longest := 0
	for _, name := range x.Columns {
		longest = max(longest, len(name))
	}
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", longest+4))
	for i := range x.Columns {
		fmt.Fprintf(&line, "%3d", i+1)
	}
	list := []string{line.String()}
	for i, name := range x.Columns {
		line.Reset()
		fmt.Fprintf(&line, "%3d %-*s", i+1, longest, name)
		if i < len(x.Rows) {
			for _, r := range x.Cells[i] {
				fmt.Fprintf(&line, "%3s", Symbol(r))
			}
		}
		list = append(list, strings.TrimRight(line.String(), " "))
	}
	return list
}

// widest is the number of columns up to which a picture is drawn.
const widest = 48

// Symbol returns a character for what came of tries, so that a picture can be read without colour.
func Symbol(r measure.Reach) string {
	switch r {
	case measure.ReachRefused:
		return "·"
	case measure.ReachClosed:
		return "–"
	case measure.ReachAllowed:
		return "✓"
	case measure.ReachOpen:
		return "○"
	case measure.ReachUntold:
		return "?"
	case measure.ReachMissing:
		return "!"
	case measure.ReachLeak:
		return "✗"
	case measure.ReachUnsent:
		return "×"
	case measure.ReachNotTried:
	}
	return ""
}

// ReachWords says what came of tries.
func ReachWords(r measure.Reach) string {
	switch r {
	case measure.ReachRefused:
		return "refused"
	case measure.ReachClosed:
		return "nothing arrives, nothing is claimed"
	case measure.ReachAllowed:
		return "what is on the list arrives, and nothing else"
	case measure.ReachOpen:
		return "open, nothing is claimed"
	case measure.ReachUntold:
		return "cannot be told"
	case measure.ReachMissing:
		return "on the list, and does not arrive"
	case measure.ReachLeak:
		return "leak: refused, and arrives"
	case measure.ReachUnsent:
		return "refused by the container's rights"
	case measure.ReachNotTried:
	}
	return "not tried"
}

// ReachTone returns the meaning of what came of tries beyond its words.
func ReachTone(r measure.Reach) Tone {
	switch r {
	case measure.ReachAllowed:
		return Good
	case measure.ReachLeak, measure.ReachMissing:
		return Bad
	case measure.ReachUntold:
		return Doubt
	case measure.ReachRefused, measure.ReachClosed, measure.ReachOpen, measure.ReachUnsent, measure.ReachNotTried:
	}
	return Quiet
}

// heldField is what is said of a claim.
func heldField(h measure.Held) Field {
	switch h {
	case measure.HeldAlways:
		return Field{string(h), Good}
	case measure.HeldNot:
		return Field{string(h), Bad}
	case measure.HeldUntold, measure.NotProved:
		return Field{string(h), Doubt}
	case measure.NotClaimed:
	}
	return Field{string(h), Quiet}
}

// Proved returns the section about what each stack protects, beside its speed. It returns false if the records do not
// say who reached whom. With pictures, it shows that for each lab, and what came of each attack.
func (v *Reading) Proved(pictures bool) (Section, bool) {
	labs := v.Analysis.Proved()
	if len(labs) == 0 {
		return Section{}, false
	}
	cells := map[string]*measure.Cell{}
	for i := range v.Run.Cells {
		cells[v.Run.Cells[i].Lab] = &v.Run.Cells[i]
	}
	labs = slices.DeleteFunc(labs, func(p measure.ProvedLab) bool { // a twin is the same once more, if it held as well
		return cells[p.Lab] != nil && cells[p.Lab].Twin && len(p.Broken) == 0
	})
	t := &Table{Columns: []Column{
		{"", false},
		{"allowed works", false},
		{"refused holds", false},
		{"other claims", false},
		{"inside attacks", false},
		{"wire attacks", false},
		{"tries", true},
	}}
	where := v.samePlace(labs, cells)
	s := Section{Title: "What each stack protects"}
	var notes []Block
	var reasons []string // why something was not tried, and in which labs
	without := map[string][]string{}
	because := func(why, name string) {
		if without[why] == nil {
			reasons = append(reasons, why)
		}
		without[why] = append(without[why], name)
	}
	for _, p := range labs {
		name := v.provedName(p.Lab, cells, where)
		other := heldField(p.Others)
		if p.Others == measure.HeldNot {
			other.Text += ": " + Printable(strings.Join(brokenOthers(p), ", "))
		}
		t.Rows = append(t.Rows, []Field{
			{Text: name},
			heldField(p.Allowed), heldField(p.Refused), other, withstoodField(p.Inside),
			withstoodField(p.Wire),
			{Text: triedText(p), Tone: Quiet},
		})
		if what := p.Confined(); what != "" {
			notes = append(notes, Block{Text: name + ": " + Printable(what) + ".", Tone: Quiet})
		}
		for _, why := range p.NotTried {
			because("not tried: "+why, name)
		}
		for _, why := range p.Unknown {
			because("cannot be told: "+why, name)
		}
		if p.NotAttacked != "" {
			because("not attacked: "+p.NotAttacked, name)
		}
		for _, u := range p.Untold {
			because(strings.TrimPrefix(strings.Join(u.Attacks, ", ")+": "+u.Why, ": "), name)
		}
		for _, hole := range p.Holes {
			notes = append(notes, Block{Text: name + ": attack " + Printable(hole) + ".", Tone: Bad})
		}
		if p.Reached == nil {
			continue
		}
		for _, x := range slices.Concat(p.Reached.Leaks, p.Reached.Missing) {
			notes = append(notes, Block{Text: name + ": " + Printable(x) + ".", Tone: Bad})
		}
	}
	for _, why := range reasons {
		notes = append(notes, Block{
			Text: fmt.Sprintf("%s: %s.", strings.Join(without[why], ", "), Printable(why)), Tone: Quiet,
		})
	}
	if text := v.unclaimed(labs, cells, where); text != "" {
		notes = append(notes, Block{Text: text, Tone: Quiet})
	}
	if where != "" {
		t.Caption = where
	}
	s.Blocks = append(s.Blocks, Block{Text: provedText(labs, v.Run.Standing), Tone: Quiet}, Block{Table: t})
	s.Blocks = append(s.Blocks, v.rights(labs, cells, where)...)
	s.Blocks = append(s.Blocks, notes...)
	if pictures {
		s.Blocks = append(s.Blocks, v.attacks(labs, cells, where)...)
		s.Blocks = append(s.Blocks, v.pictures(labs, cells, where)...)
	}
	return s, true
}

// rights says what root may do in containers that have processes of their own: a sentence for all labs in which it is
// the same.
func (v *Reading) rights(labs []measure.ProvedLab, cells map[string]*measure.Cell, where string) (list []Block) {
	var texts []string
	names := map[string][]string{}
	for _, p := range labs {
		text := v.Analysis.Rights[p.Lab]
		if text == "" {
			continue
		}
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], v.provedName(p.Lab, cells, where))
	}
	for _, text := range texts {
		list = append(list, Block{
			Text: fmt.Sprintf("Root in containers of %s has %s.", strings.Join(names[text], ", "), Printable(text)), Tone: Quiet,
		})
	}
	return list
}

// provedText explains the table. Hosts that stand without nettoll cannot be entered: nettoll prove does not know them,
// and nothing is counted there.
func provedText(labs []measure.ProvedLab, standing bool) string {
	tried, of := 0, 0
	for _, p := range labs {
		tried, of = tried+p.Tried, of+p.Of
	}
	to, all := ", to hosts and to groups", ", nettoll prove makes all"
	attacks := "were not tried: --attacks makes them in a run, nettoll prove without measuring"
	if standing {
		to, all, attacks = "", "", "are not tried on such hosts"
	}
	if slices.ContainsFunc(labs, func(p measure.ProvedLab) bool { return p.Attacked }) {
		attacks = "were made once, after the last generation: how many a stack withstood of those that it claims to withstand"
	}
	text := "ICMP, UDP and TCP from every container to every other one" + to + ", counted where they arrive, before and " +
		"after the blocks of each generation."
	if tried < of {
		text += fmt.Sprintf(" There was time for %s of the tries: --proof-budget gives more%s.", percentOf(tried, of), all)
	}
	return text + " Attacks from inside and from the wire " + attacks + "."
}

// withstoodField says how many of the attacks that a stack claims to withstand it did.
func withstoodField(w measure.Withstood) Field {
	f := heldField(w.Claims())
	if w.Tried > 0 && w.Claimed > 0 {
		f.Text = fmt.Sprintf("%d of %d", w.Held, w.Claimed)
		if w.Broken > 0 {
			f.Text += ": " + Printable(strings.Join(w.Names, ", "))
		}
	}
	return f
}

// unclaimed counts the attacks that got through and that nobody claims to withstand, "" if there are none.
func (v *Reading) unclaimed(labs []measure.ProvedLab, cells map[string]*measure.Cell, where string) string {
	var list []string
	for _, p := range labs {
		if n := p.Inside.Open + p.Wire.Open; n > 0 {
			list = append(list, fmt.Sprintf("%s %d", v.provedName(p.Lab, cells, where), n))
		}
	}
	if list == nil {
		return ""
	}
	return "Attacks that got through and that the stack does not claim to withstand: " + strings.Join(list, ", ") +
		" (nettoll prove shows each with the reason)."
}

func percentOf(part, all int) string {
	x := 100 * float64(part) / float64(all)
	if x < 1 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", min(99, x))
}

func triedText(p measure.ProvedLab) string {
	switch {
	case p.Of == 0:
		return string(measure.NotProved)
	case p.Tried < p.Of:
		return fmt.Sprintf("%d of %d", p.Tried, p.Of)
	}
	return fmt.Sprintf("all %d", p.Of)
}

// brokenOthers names the claims that did not hold and have no column of their own.
func brokenOthers(p measure.ProvedLab) []string {
	return slices.DeleteFunc(slices.Clone(p.Broken), func(name string) bool {
		return slices.Contains([]string{"passes", "refuses", measure.MatrixLeaks, measure.MatrixListed}, name)
	})
}

// samePlace returns where all labs are measured, "same-host/1"; "" if they differ.
func (v *Reading) samePlace(labs []measure.ProvedLab, cells map[string]*measure.Cell) string {
	if len(labs) == 0 {
		return ""
	}
	_, where := labName(labs[0].Lab, cells)
	for _, p := range labs {
		if _, other := labName(p.Lab, cells); other != where {
			return ""
		}
	}
	return where
}

func (v *Reading) provedName(lab string, cells map[string]*measure.Cell, where string) string {
	name, place := labName(lab, cells)
	if where == "" && place != "" {
		name += "/" + place
	}
	if c := cells[lab]; c != nil && c.Twin {
		name += ", twin"
	}
	return Printable(name)
}

// pictures are those of labs in which something was tried, a lab after the other.
func (v *Reading) pictures(labs []measure.ProvedLab, cells map[string]*measure.Cell, where string) []Block {
	var list []Block
	var seen []measure.Reach
	for _, p := range labs {
		if p.Reached == nil {
			continue
		}
		name := v.provedName(p.Lab, cells, where)
		if len(p.Reached.To) > widest {
			list = append(list, Block{
				Text: fmt.Sprintf("%s: %d receivers are too many to draw; the records have them.", name, len(p.Reached.To)),
				Tone: Quiet,
			})
			continue
		}
		for _, one := range Pictures(p.Reached) {
			one.Caption = name + one.Caption
			list = append(list, Block{Picture: &one})
			for _, row := range one.Cells {
				seen = append(seen, row...)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	text := "Who reaches whom: senders are rows, receivers columns."
	if legend := Legend(seen); legend != "" {
		text += " " + legend + "."
	}
	return append([]Block{{Text: text, Tone: Quiet}}, list...)
}

// Legend explains the symbols of pictures, as far as they are used.
func Legend(used []measure.Reach) string {
	var list []string
	for _, r := range measure.Reaches() {
		if r != measure.ReachNotTried && slices.Contains(used, r) {
			list = append(list, Symbol(r)+" "+ReachWords(r))
		}
	}
	return strings.Join(list, "; ")
}

// Pictures draws a matrix: one picture if both families are alike, else one each.
func Pictures(m *measure.Matrix) []Picture {
	draw := func(family, caption string) Picture {
		p := Picture{Caption: caption}
		for _, name := range m.From {
			p.Rows = append(p.Rows, Printable(name))
		}
		for _, name := range m.To {
			p.Columns = append(p.Columns, Printable(name))
		}
		for from := range m.From {
			row := make([]measure.Reach, len(m.To))
			for to := range m.To {
				row[to] = m.At(family, from, to)
			}
			p.Cells = append(p.Cells, row)
		}
		return p
	}
	var list []Picture
	v4, v6 := draw("ipv4", ", IPv4"), draw("ipv6", ", IPv6")
	switch {
	case m.Cells["ipv6"] == nil:
		return append(list, v4)
	case m.Cells["ipv4"] == nil:
		return append(list, v6)
	case alike(v4, v6):
		v4.Caption = ", both families"
		return append(list, v4)
	}
	return append(list, v4, v6)
}

// alike says whether two pictures show the same. IPv6 has no broadcast.
func alike(a, b Picture) bool {
	return slices.EqualFunc(a.Cells, b.Cells, func(x, y []measure.Reach) bool {
		return slices.EqualFunc(x, y, func(x, y measure.Reach) bool {
			return x == y || x == measure.ReachNotTried || y == measure.ReachNotTried
		})
	})
}

package report

import (
	"slices"

	"github.com/nettoll/nettoll/measure"
)

// attacks is the table of what came of each attack on each stack; none if no lab was attacked.
func (v *Reading) attacks(labs []measure.ProvedLab, cells map[string]*measure.Cell, where string) []Block {
	t := &Table{Caption: where, Columns: []Column{{Title: "attack"}}}
	var names []string
	var list []*measure.Attacks
	for _, p := range labs {
		i := slices.IndexFunc(v.Analysis.Attacks, func(x measure.Attacks) bool { return x.Lab == p.Lab })
		if i < 0 || len(v.Analysis.Attacks[i].Attacks) == 0 {
			continue
		}
		x := &v.Analysis.Attacks[i]
		list = append(list, x)
		t.Columns = append(t.Columns, Column{Title: v.provedName(p.Lab, cells, where)})
		for _, a := range x.Attacks {
			if !slices.Contains(names, a.Attack) {
				names = append(names, a.Attack)
			}
		}
	}
	if list == nil {
		return nil
	}
	for _, name := range names {
		row := []Field{{Text: Printable(name)}}
		for _, x := range list {
			f := Field{string(measure.AttackNotTried), Quiet}
			if i := slices.IndexFunc(x.Attacks, func(a measure.Attack) bool { return a.Attack == name }); i >= 0 {
				f = attackField(x.Attacks[i])
			}
			row = append(row, f)
		}
		t.Rows = append(t.Rows, row)
	}
	text := "What came of each attack: open and closed are attacks that the stack does not claim to withstand. nettoll " +
		"list attacks explains each."
	return []Block{{Text: text, Tone: Quiet}, {Table: t}}
}

// attackField is what is said of an attack.
func attackField(a measure.Attack) Field {
	f := Field{a.Said(), Quiet}
	switch a.Verdict {
	case measure.AttackWithstood:
		f.Tone = Good
	case measure.AttackBroken:
		f.Tone = Bad
	case measure.AttackUntold:
		f.Tone = Doubt
	case measure.AttackOpen, measure.AttackClosed, measure.AttackNotTried, measure.AttackUnsent:
	}
	return f
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// labSection has what building the labs cost and, where there are filters or filled tables, what changing them does: of all labs, or of those that have more to tell than how
// long they took to build; false where there are none.
func (v *view) labSection(all bool) (Section, bool) {
	more := map[string]bool{}
	for _, f := range v.a.Labs {
		more[f.Lab] = more[f.Lab] || f.Metric != setupTime
	}
	figures := slices.DeleteFunc(slices.Clone(v.a.Labs), func(f measure.LabFigure) bool { return !all && !more[f.Lab] })
	if len(figures) == 0 {
		return Section{}, false
	}
	s := Section{Title: "Building and changing"}
	text := "What each lab cost to build, once a generation: the median"
	if all {
		text += ", and in brackets the smallest and the largest"
	}
	text += ". Set-up is the whole lab with hosts, containers and workers"
	if slices.ContainsFunc(figures, func(f measure.LabFigure) bool { return f.Metric == "rule_effect_time" }) {
		text += "; one rule added among those that stand takes effect with the first packet that it lets through"
	}
	text += "."
	if slices.ContainsFunc(figures, func(f measure.LabFigure) bool { return strings.HasSuffix(f.Metric, "_memory") }) {
		text += " Memory is what the kernel of the whole machine holds more than before; beside other work it is a guess."
	}
	s.Blocks = append(s.Blocks, Block{Text: text, Tone: Quiet})
	where := common(figures)
	t := &Table{Caption: where, Columns: []Column{{"", false}}}
	var metrics []string
	for _, m := range measure.Metrics() {
		if slices.ContainsFunc(figures, func(f measure.LabFigure) bool { return f.Metric == m.Name }) {
			metrics = append(metrics, m.Name)
			t.Columns = append(t.Columns, Column{label(m.Name), true})
		}
	}
	rows := map[string]int{}
	for _, f := range figures {
		i, known := rows[f.Lab]
		if !known {
			i = len(t.Rows)
			rows[f.Lab] = i
			row := make([]Field, 1+len(metrics))
			row[0] = Field{Text: printable(strings.TrimSuffix(f.Lab, "/"+where))}
			t.Rows = append(t.Rows, row)
		}
		text := number(f.Value, f.Unit)
		if all && f.Generations > 1 {
			text += fmt.Sprintf(" [%s, %s]", number(f.Least, f.Unit), number(f.Most, f.Unit))
		}
		t.Rows[i][1+slices.Index(metrics, f.Metric)] = Field{Text: text}
	}
	s.Blocks = append(s.Blocks, Block{Table: t})
	return s, true
}

// common returns what the ids of all labs end in: "same-host/1"; "" where they differ.
func common(figures []measure.LabFigure) string {
	_, where, _ := strings.Cut(figures[0].Lab, "/")
	for _, f := range figures {
		if _, other, _ := strings.Cut(f.Lab, "/"); strings.TrimSuffix(other, "#2") != where {
			return ""
		}
	}
	return where
}

const setupTime = "setup_time"

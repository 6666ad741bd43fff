package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// labSection has what building the labs cost and, where there are filters or filled tables, what changing them does: of
// all labs, or of those that have more to tell than how long they took to build; false where there are none.
func (v *view) labSection(all bool) (Section, bool) {
	more := map[string]bool{}
	for _, f := range v.a.Labs {
		more[f.Lab] = more[f.Lab] || f.Metric != setupTime
	}
	untold := func(f measure.LabFigure) bool { return !all && !more[f.Lab] }
	figures := slices.DeleteFunc(slices.Clone(v.a.Labs), untold)
	again := slices.DeleteFunc(slices.Clone(v.a.Rebuilt), untold)
	if len(figures) == 0 {
		return Section{}, false
	}
	every := slices.Concat(figures, again)
	cells := map[string]*measure.Cell{} // one of each lab
	for i := range v.run.Cells {
		cells[v.run.Cells[i].Lab] = &v.run.Cells[i]
	}
	where := common(every, cells)
	t := &Table{Caption: where, Columns: []Column{{"", false}}}
	var metrics []string
	for _, m := range v.known.All() {
		if slices.ContainsFunc(every, func(f measure.LabFigure) bool { return f.Metric == m.Name }) {
			metrics = append(metrics, m.Name)
			t.Columns = append(t.Columns, Column{labelOf(m), true})
		}
	}
	add := func(figures []measure.LabFigure, mark string) {
		rows := map[string]int{}
		for _, f := range figures {
			i, known := rows[f.Lab]
			if !known {
				i = len(t.Rows)
				rows[f.Lab] = i
				row := make([]Field, 1+len(metrics))
				id, place := labName(f.Lab, cells)
				if where == "" && place != "" {
					id += "/" + place
				}
				if id = printable(id); cells[f.Lab] != nil && cells[f.Lab].Twin {
					id += ", twin"
				}
				row[0] = Field{Text: id + mark}
				t.Rows = append(t.Rows, row)
			}
			t.Rows[i][1+slices.Index(metrics, f.Metric)] = Field{Text: labFigure(f, all)}
		}
	}
	add(figures, "")
	add(again, ", built once more")
	return Section{Title: "Building and changing", Blocks: []Block{
		{Text: labText(figures, cells, all, len(again) > 0), Tone: Quiet}, {Table: t},
	}}, true
}

// labText says what the figures are.
func labText(figures []measure.LabFigure, cells map[string]*measure.Cell, all, again bool) string {
	some := func(metric string) bool {
		return slices.ContainsFunc(figures, func(f measure.LabFigure) bool { return f.Metric == metric })
	}
	most := 0
	for _, f := range figures {
		most = max(most, f.Generations)
	}
	text := "What each lab cost to build"
	switch {
	case most > 1 && all:
		text += fmt.Sprintf(": the median over %d generations, and in brackets the smallest and the largest", most)
	case most > 1:
		text += fmt.Sprintf(": the median over %d generations", most)
	default:
		text += ", once"
	}
	text += ". Set-up is the whole lab with hosts, containers and workers, verified, while others are built beside it."
	if some("rule_update_time") {
		text += " One rule is added among those that stand; it takes effect with the first packet that it lets through, of " +
			"those sent every 50 µs to 1 ms, counted from the same beginning, which can be before the change has returned."
	}
	if slices.ContainsFunc(figures, func(f measure.LabFigure) bool {
		return cells[f.Lab] != nil && cells[f.Lab].Placement == "cross-host"
	}) {
		text += " Of several hosts the worst figure is told."
	}
	if some("translation_rate") {
		text += " Translations are new ones that one sender makes, beside the entries that are there, by a packet each."
	}
	if some("plug_time") {
		text += " A card is plugged in until packets can pass."
	}
	if some("first_packet_latency") {
		text += " The first packet is an echo, there and back, of which the switch knows nothing yet."
	}
	if some("rules_memory") || some("entries_memory") {
		text += " Memory is what the kernel says of sets (ipset), of maps and programs (ebpf) and of tables of ip_tables; " +
			"of all else it is what the whole machine holds more than before:" +
			" beside other work a guess, and below 100 kbyte it says nothing."
	}
	if again {
		text += " A lab in which a program had died was built once more; that does not count among the others."
	}
	return text
}

// labFigure writes a figure, with its range where that is wanted and there is one.
func labFigure(f measure.LabFigure, ranged bool) string {
	text := number(f.Value, f.Unit)
	if ranged && f.Generations > 1 {
		least, most := number(f.Least, f.Unit), number(f.Most, f.Unit)
		if number, unit, _ := strings.Cut(least, " "); strings.HasSuffix(most, " "+unit) &&
			strings.HasSuffix(text, " "+unit) {
			least, most = number, strings.TrimSuffix(most, " "+unit) // all of one unit, which is said once
		}
		if least != most {
			text += fmt.Sprintf(" [%s, %s]", least, most)
		}
	}
	return text
}

// labName splits a lab's id into its stack and where it is measured, "same-host/1", by what its cells say. Of a lab
// without cells only the id is known.
func labName(id string, cells map[string]*measure.Cell) (name, where string) {
	c := cells[id]
	if c == nil {
		return id, ""
	}
	if c.Twin {
		id = strings.TrimSuffix(id, "#2")
	}
	return c.Stack, strings.TrimPrefix(id, c.Stack+"/")
}

// common returns where all labs are measured, "same-host/1"; "" if they differ.
func common(figures []measure.LabFigure, cells map[string]*measure.Cell) string {
	_, where := labName(figures[0].Lab, cells)
	for _, f := range figures {
		if _, other := labName(f.Lab, cells); other != where {
			return ""
		}
	}
	return where
}

const setupTime = "setup_time"

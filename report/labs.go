package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Labs returns the section about the cost of building labs and, if there are filters or filled tables, of changing
// them. It has all labs, or only those with more figures than their time to build. It returns false if there are none.
func (v *Reading) Labs(all bool) (Section, bool) {
	more := map[string]bool{}
	for _, f := range v.Analysis.Labs {
		more[f.Lab] = more[f.Lab] || f.Metric != setupTime && f.Metric != idleCPU
	}
	untold := func(f measure.LabFigure) bool { return !all && !more[f.Lab] }
	figures := slices.DeleteFunc(slices.Clone(v.Analysis.Labs), untold)
	again := slices.DeleteFunc(slices.Clone(v.Analysis.Rebuilt), untold)
	if len(figures) == 0 {
		return Section{}, false
	}
	cells := map[string]*measure.Cell{} // one of each lab
	for i := range v.Run.Cells {
		cells[v.Run.Cells[i].Lab] = &v.Run.Cells[i]
	}
	out := Section{Title: "Building and changing", Blocks: []Block{
		{Text: v.labText(figures, cells, all, len(again) > 0), Tone: Quiet}, {Table: v.labTable(figures, again, cells, all)},
	}}
	if containers := few(v.Analysis.Containers); all && len(containers) > 0 {
		text := "The same of each container, by its own cgroup."
		if len(containers) < len(v.Analysis.Containers) {
			text += fmt.Sprintf(" Labs with more than %d containers are only in CSV and JSON.", mostContainers)
		}
		out.Blocks = append(out.Blocks, Block{Text: text, Tone: Quiet}, Block{Table: v.labTable(containers, nil, cells, all)})
	}
	return out, true
}

// mostContainers is how many containers of a lab are listed; there may be hundreds.
const mostContainers = 8

// few returns the figures of containers without those of labs with more than [mostContainers].
func few(figures []measure.LabFigure) []measure.LabFigure {
	containers := map[string]map[string]bool{} // by lab
	for _, f := range figures {
		if containers[f.Lab] == nil {
			containers[f.Lab] = map[string]bool{}
		}
		containers[f.Lab][f.Container] = true
	}
	return slices.DeleteFunc(slices.Clone(figures), func(f measure.LabFigure) bool {
		return len(containers[f.Lab]) > mostContainers
	})
}

// labTable returns a table of figures, with a row for each lab or container, and such of labs that were built again.
func (v *Reading) labTable(figures, again []measure.LabFigure, cells map[string]*measure.Cell, all bool) *Table {
	every := slices.Concat(figures, again)
	where := common(every, cells)
	t := &Table{Caption: where, Columns: []Column{{"", false}}}
	var metrics []string
	for _, m := range v.known.All() {
		if slices.ContainsFunc(every, func(f measure.LabFigure) bool { return f.Metric == m.Name }) {
			metrics = append(metrics, m.Name)
			t.Columns = append(t.Columns, Column{Label(m), true})
		}
	}
	add := func(figures []measure.LabFigure, mark string) {
		rows := map[[2]string]int{} // by lab and container
		for _, f := range figures {
			i, known := rows[[2]string{f.Lab, f.Container}]
			if !known {
				i = len(t.Rows)
				rows[[2]string{f.Lab, f.Container}] = i
				row := make([]Field, 1+len(metrics))
				id, place := labName(f.Lab, cells)
				if where == "" && place != "" {
					id += "/" + place
				}
				if id = Printable(id); cells[f.Lab] != nil && cells[f.Lab].Twin {
					id += ", twin"
				}
				if f.Container != "" {
					id += ", " + Printable(f.Container)
				}
				row[0] = Field{Text: id + mark}
				t.Rows = append(t.Rows, row)
			}
			t.Rows[i][1+slices.Index(metrics, f.Metric)] = Field{Text: labFigure(f, all)}
		}
	}
	add(figures, "")
	add(again, ", rebuilt")
	return t
}

// labText returns the explanation of the figures.
func (v *Reading) labText(figures []measure.LabFigure, cells map[string]*measure.Cell, all, again bool) string {
	some := func(metric string) bool {
		return slices.ContainsFunc(figures, func(f measure.LabFigure) bool { return f.Metric == metric })
	}
	most := 0
	for _, f := range figures {
		most = max(most, f.Generations)
	}
	text := "Cost of building each lab"
	switch {
	case most > 1 && all:
		text += fmt.Sprintf(": the median over %d generations, in brackets the smallest and the largest value", most)
	case most > 1:
		text += fmt.Sprintf(": the median over %d generations", most)
	default:
		text += ", once"
	}
	text += ". Set-up includes hosts, containers, workers and verification, while other labs are built at the same time."
	// The figures are explained as the reader asks: first how long something takes, then its memory, then its CPU time.
	rank := func(m measure.Metric) int {
		switch {
		case m.Speed():
			return 0
		case m.Kind == measure.KindMemory:
			return 1
		}
		return 2
	}
	noted := slices.DeleteFunc(v.known.All(), func(m measure.Metric) bool { return m.Note == "" || !some(m.Name) })
	slices.SortStableFunc(noted, func(a, b measure.Metric) int { return cmp.Compare(rank(a), rank(b)) })
	hosts := ""
	if slices.ContainsFunc(figures, func(f measure.LabFigure) bool {
		return cells[f.Lab] != nil && cells[f.Lab].Placement == "cross-host"
	}) {
		hosts = " With several hosts, the worst value is shown."
	}
	for _, m := range noted {
		if rank(m) > 0 {
			text, hosts = text+hosts, ""
		}
		if note := Printable(m.Note); !strings.Contains(text, note) {
			text += " " + note
		}
	}
	text += hosts
	if again {
		text += " A lab in which a program died was rebuilt; the medians exclude the rebuilt labs."
	}
	return text
}

// labFigure returns a figure, with its range over generations if ranged.
func labFigure(f measure.LabFigure, ranged bool) string {
	text := Number(f.Value, f.Unit)
	if ranged && f.Generations > 1 {
		least, most := Number(f.Least, f.Unit), Number(f.Most, f.Unit)
		if number, unit, _ := strings.Cut(least, " "); strings.HasSuffix(most, " "+unit) &&
			strings.HasSuffix(text, " "+unit) {
			least, most = number, strings.TrimSuffix(most, " "+unit) // both have the same unit, which is written once
		}
		if least != most {
			text += fmt.Sprintf(" [%s, %s]", least, most)
		}
	}
	return text
}

// labName returns a lab's stack and the place where it is measured, "same-host/1", from one of its cells. A lab without
// cells has only its id.
func labName(id string, cells map[string]*measure.Cell) (name, where string) {
	if c := cells[id]; c != nil {
		return c.Stack, c.Place
	}
	return id, ""
}

// common returns the place where all labs are measured, "same-host/1"; "" if they differ.
func common(figures []measure.LabFigure, cells map[string]*measure.Cell) string {
	_, where := labName(figures[0].Lab, cells)
	for _, f := range figures {
		if _, other := labName(f.Lab, cells); other != where {
			return ""
		}
	}
	return where
}

const (
	setupTime = "setup_time"
	idleCPU   = "cpu_programs_idle"
)

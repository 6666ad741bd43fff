package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// environmentPart returns the part about the machine and the settings.
func (v *Reading) environmentPart() Part {
	p := Part{Title: "The environment", ID: "environment"}
	all := map[string]any{}
	for _, k := range v.Run.FactKeys() {
		all[k] = v.Run.Facts[k]
	}
	for _, f := range v.Analysis.Facts {
		all[f.Key] = f.Value
	}
	for k, x := range v.Run.Versions {
		all[k] = x
	}
	left, granted := Part{Title: "Left out"}, map[string]any{}
	t := &Table{Caption: "Machine and kernel", Columns: []Column{{"fact", false}, {"value", false}}}
	for _, key := range slices.SortedFunc(maps.Keys(all), func(x, y string) int {
		return cmp.Or(cmp.Compare(factRank(x), factRank(y)), cmp.Compare(x, y))
	}) {
		x := all[key]
		if strings.HasPrefix(key, "sockets of ") {
			if m, ok := plainJSON(x).(map[string]any); ok {
				maps.Copy(granted, m)
				continue
			}
		}
		if list, ok := plainJSON(x).([]any); ok && key == "left_out" {
			for _, o := range list {
				left.Lists = append(left.Lists, Item{Text: omission(o)})
			}
			continue
		}
		text := flat(x)
		if s, ok := x.(float64); ok && key == "setup_time" {
			text = measure.Format(s, measure.UnitSecond)
		}
		t.Rows = append(t.Rows, []Field{{Text: factLabel(key)}, {Text: text}})
		for _, m := range v.Run.Differing(key) {
			t.Rows = append(t.Rows, []Field{{Text: factLabel(key) + " of " + Printable(m.Machine)}, {Text: flat(m.Facts[key])}})
		}
	}
	for _, m := range v.Run.Machines {
		t.Rows = append(t.Rows, []Field{{Text: "hosts of " + Printable(m.Machine)}, {Text: flat(m.Hosts)}})
	}
	for _, of := range []struct {
		key   string
		value func(*measure.Cell) string
	}{
		{"affinity", func(c *measure.Cell) string { return c.Affinity }},
		{"idle", func(c *measure.Cell) string { return c.Idle }},
		{"address family", func(c *measure.Cell) string { return c.Family }},
		{"runtime", func(c *measure.Cell) string { return c.Part("runtime") }},
	} {
		if text := v.each(of.value); text != "" {
			t.Rows = append(t.Rows, []Field{{Text: of.key}, {Text: text}})
		}
	}
	p.Parts = append(p.Parts, Part{
		Folded: true, Title: "Stacks: what each is made of", Tables: []Block{{Table: v.stacksTable()}},
	}, Part{
		Folded: true, Title: fmt.Sprintf("Machine and kernel: %s", Count(len(t.Rows), "fact", "facts")),
		Tables: []Block{{Table: t}},
	})
	if len(granted) > 0 {
		p.Parts = append(p.Parts, Part{
			Title: "Sockets: what the kernel granted", Folded: true, Tables: []Block{{Table: v.socketTable(granted)}},
		})
	}
	if left.Lists != nil {
		p.Parts = append(p.Parts, left)
	}
	p.Blocks = []Block{{Text: cmp.Or(v.Circumstances(), "No facts about the machine were recorded.")}}
	return p
}

// stacksTable returns a table with the parts of each stack.
func (v *Reading) stacksTable() *Table {
	type of struct {
		kind  string
		value func(*measure.Cell) string
	}
	var kinds []of
	for _, kind := range v.Run.Kinds() {
		kinds = append(kinds, of{kind, func(c *measure.Cell) string { return c.Part(kind) }})
	}
	kinds = append(kinds, of{"implementation", func(c *measure.Cell) string {
		var list []string
		for _, by := range slices.Sorted(maps.Values(c.Implementation)) {
			if !slices.Contains(list, by) {
				list = append(list, by)
			}
		}
		return strings.Join(list, ", ")
	}})
	kinds = append(kinds, of{"root in containers", func(c *measure.Cell) string { return v.Analysis.Rights[c.Lab] }})
	kinds = slices.DeleteFunc(kinds, func(k of) bool {
		return !slices.ContainsFunc(v.Run.Cells, func(c measure.Cell) bool {
			return k.value(&c) != "" && k.value(&c) != "none"
		})
	})
	t := &Table{Columns: []Column{{"stack", false}}}
	for _, k := range kinds {
		t.Columns = append(t.Columns, Column{k.kind, false})
	}
	seen := map[string]bool{}
	for i := range v.Run.Cells {
		c := &v.Run.Cells[i]
		row := []Field{{Text: StackName(c)}}
		for _, k := range kinds {
			row = append(row, Field{Text: Printable(k.value(c))})
		}
		if key := fmt.Sprint(row); !seen[key] {
			seen[key] = true
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// factRank returns the place of a fact in the table: first those that people look for first.
func factRank(key string) int {
	first := []string{
		"nettoll", "kernel", "kernel_build", "arch", "cpu", "cpus", "cpus_sources", "cpus_sinks", "mtu", "underlay",
		"congestion_control",
	}
	if i := slices.Index(first, key); i >= 0 {
		return i
	}
	return len(first)
}

// factLabel returns the name of a fact for people.
func factLabel(key string) string {
	text := " " + strings.ReplaceAll(Printable(key), "_", " ") + " "
	for _, w := range []string{"cpu", "mtu", "mss", "smt", "rps", "bpf"} {
		text = strings.ReplaceAll(text, " "+w+" ", " "+strings.ToUpper(w)+" ")
	}
	text = strings.ReplaceAll(text, " cpus ", " CPUs ")
	return strings.TrimSpace(text)
}

// plainJSON returns a value as a JSON decoder returns it, whatever its Go type.
func plainJSON(x any) any {
	switch x.(type) {
	case nil, string, bool, float64:
		return x
	}
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Sprint(x)
	}
	var y any
	if json.Unmarshal(b, &y) != nil {
		return string(b)
	}
	return y
}

// flat returns any value as a line of text.
func flat(x any) string { return flatJSON(plainJSON(x)) }

func flatJSON(x any) string {
	switch x := x.(type) {
	case nil:
		return "–"
	case string:
		return Printable(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case []any:
		var list []string
		for _, y := range x {
			list = append(list, flatJSON(y))
		}
		return strings.Join(list, ", ")
	case map[string]any:
		var list []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			list = append(list, factLabel(k)+": "+flatJSON(x[k]))
		}
		return strings.Join(list, "; ")
	default:
		return Printable(fmt.Sprint(x))
	}
}

// omission returns an omitted cell with its reason.
func omission(x any) string {
	if m, ok := x.(map[string]any); ok && len(m) == 2 && m["what"] != nil && m["reason"] != nil {
		return flat(m["what"]) + ": " + flat(m["reason"])
	}
	return flat(x)
}

// socketTable returns the socket options that the kernel granted, by workload and end, and by cell only where cells of
// a workload differ. The keys of granted are a cell's id and "source" or "sink".
func (v *Reading) socketTable(granted map[string]any) *Table {
	workloads := make(map[string]string, len(v.Run.Cells))
	for i := range v.Run.Cells {
		c := &v.Run.Cells[i]
		workloads[c.ID] = load(c)
	}
	type alike struct {
		whose, facts string
		cells        []string
		of           map[string]any
	}
	var rows []*alike
	variants, columns := map[string]int{}, map[string]bool{}
	for _, who := range slices.Sorted(maps.Keys(granted)) {
		of, ok := granted[who].(map[string]any)
		if !ok {
			of = map[string]any{"granted": granted[who]}
		}
		for k := range of {
			columns[k] = true
		}
		cell, end := who, ""
		if i := strings.LastIndexByte(who, ' '); i > 0 {
			cell, end = who[:i], who[i:]
		}
		whose := cmp.Or(workloads[cell], cell) + end
		facts := flat(of)
		i := slices.IndexFunc(rows, func(r *alike) bool { return r.whose == whose && r.facts == facts })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &alike{whose: whose, facts: facts, of: of})
			variants[whose]++
		}
		rows[i].cells = append(rows[i].cells, cell)
	}
	names := slices.Sorted(maps.Keys(columns))
	t := &Table{Columns: []Column{{"sockets of", false}, {"cells", false}}}
	for _, k := range names {
		t.Columns = append(t.Columns, Column{factLabel(k), true})
	}
	for _, r := range rows {
		cells := "all " + strconv.Itoa(len(r.cells))
		if len(r.cells) == 1 {
			cells = "1"
		}
		if variants[r.whose] > 1 {
			cells = Printable(strings.Join(r.cells, ", "))
		}
		row := []Field{{Text: Printable(r.whose)}, {Text: cells}}
		for _, k := range names {
			row = append(row, Field{Text: flat(r.of[k])})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

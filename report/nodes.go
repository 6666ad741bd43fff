package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// Nodes returns the section about what nodes have counted: what their CPUs did, and which devices have counted as many
// packets as trials have carried. It returns false if nobody has read that.
func (v *Reading) Nodes() (Section, bool) {
	s := Section{Title: "Nodes"}
	if len(v.Analysis.Nodes) > 0 {
		s.Blocks = append(s.Blocks, Block{
			Text: "Means over all blocks. Busy is all CPU time but idle time and steal, whatever it was for. Nodes that " +
				"share a kernel have the same CPU time, memory and softirqs.", Tone: Quiet,
		}, Block{Table: v.nodeTable()})
	}
	if t := v.deviceTable(); t != nil {
		s.Blocks = append(s.Blocks, Block{
			Text: "Devices that have counted at least as many packets as trials have carried: out of the pods of the node, " +
				"and into them. Other traffic is counted, too, so a device with hardly more than that may carry something " +
				"else. A device that joins packets (GRO) counts fewer: one that is not listed may be on the way all the " +
				"same." +
				v.uncounted(), Tone: Quiet,
		}, Block{Table: t})
	}
	if t := v.heardTable(); t != nil {
		s.Blocks = append(s.Blocks, Block{
			Text: "What nodes have got from each other during proofs, at the device by which they reach each other. Marked " +
				"frames hold what a pod sent, and everybody between the nodes can read it there. Other frames of a node are " +
				"listed if none of its frames is marked: then packets are encrypted, or take another device.", Tone: Quiet,
		}, Block{Table: t})
	}
	return s, s.Blocks != nil
}

// heardTable returns what nodes have heard of each other; nil if nobody has listened.
func (v *Reading) heardTable() *Table {
	t := &Table{Columns: []Column{
		{"", false}, {"node", false}, {"device", false}, {"headers", false}, {"frames", true}, {"marked", true},
	}}
	cells := v.cellsOfLabs()
	for _, l := range v.Analysis.Heard {
		if c := cells[l.Lab]; c == nil || c.Twin {
			continue
		}
		name, where := labName(l.Lab, cells)
		if where != "" {
			name += "/" + where
		}
		for _, f := range telling(l.Frames) {
			t.Rows = append(t.Rows, []Field{
				{Text: Printable(name)},
				{Text: Printable(f.Machine)},
				{Text: Printable(f.Device)},
				{Text: Printable(f.Wire)},
				{Text: Number(float64(f.Frames), "")},
				{Text: Number(float64(f.Marked), "")},
			})
			name = ""
		}
	}
	if t.Rows == nil {
		return nil
	}
	return t
}

// telling returns the frames that say something of a node: the marked ones, or all if none is marked there.
func telling(list []measure.Heard) []measure.Heard {
	marked := map[string]bool{} // by node
	for _, f := range list {
		marked[f.Machine] = marked[f.Machine] || f.Marked > 0
	}
	return slices.DeleteFunc(slices.Clone(list), func(f measure.Heard) bool {
		return marked[f.Machine] && f.Marked == 0
	})
}

// cellsOfLabs returns a cell of each lab, by the id of the lab.
func (v *Reading) cellsOfLabs() map[string]*measure.Cell {
	cells := map[string]*measure.Cell{}
	for i := range v.Run.Cells {
		if c := &v.Run.Cells[i]; cells[c.Lab] == nil {
			cells[c.Lab] = c
		}
	}
	return cells
}

func (v *Reading) nodeTable() *Table {
	t := &Table{Columns: []Column{
		{"", false},
		{"busy", true},
		{"irqs and softirqs", true},
		{"steal", true},
		{"other programs", true},
		{"memory in use", true},
		{"network softirqs", true},
	}}
	for _, n := range v.Analysis.Nodes {
		busy, interrupts := n.Busy()
		t.Rows = append(t.Rows, []Field{
			{Text: v.nodeName(n.Machine)},
			{Text: Number(busy, measure.UnitCores)},
			{Text: Number(interrupts, measure.UnitCores)},
			{Text: Number(n.CPU["steal"], measure.UnitCores)},
			{Text: Number(n.Others, measure.UnitCores)},
			{Text: Number(n.Memory, measure.UnitByte)},
			{Text: Number(n.Softirqs, measure.UnitSoftirq)},
		})
	}
	return t
}

// nodeName returns the name of a machine; that of host 1 is in the facts of the run.
func (v *Reading) nodeName(machine string) string {
	if machine == "" {
		machine = fmt.Sprint(v.Run.Facts["node"])
	}
	return Printable(machine)
}

// deviceTable returns which devices have carried the packets of each lab; nil if that is not known of any.
func (v *Reading) deviceTable() *Table {
	cells := v.cellsOfLabs()
	t := &Table{Columns: []Column{
		{"", false}, {"node", false}, {"packets out", true}, {"in", true}, {"devices", false}, {"dropped", false},
	}}
	for _, l := range v.Analysis.Passed {
		c := cells[l.Lab]
		if c == nil || c.Twin {
			continue
		}
		name, where := labName(l.Lab, cells)
		if where != "" {
			name += "/" + where
		}
		for i, h := range l.Hosts {
			if i > 0 {
				name = ""
			}
			carry, dropped := devices(h)
			t.Rows = append(t.Rows, []Field{
				{Text: Printable(name)},
				{Text: Printable(h.Machine)},
				{Text: Number(float64(h.Left), "")},
				{Text: Number(float64(h.Entered), "")},
				{Text: carry},
				{Text: dropped},
			})
		}
	}
	if t.Rows == nil {
		return nil
	}
	return t
}

// mostDevices is how many devices are named; of pods there may be hundreds.
const mostDevices = 8

// devices returns the devices of a host that have carried the packets, and those that have dropped some.
func devices(h measure.Passed) (carry, dropped string) {
	var names, drops []string
	pods, carrying := 0, 0
	for _, d := range h.Devices {
		name := Printable(d.Name)
		if d.Container != "" {
			pods++
			name += " (" + Printable(d.Container) + ")"
		}
		if d.Dropped > 0 {
			drops = append(drops, fmt.Sprintf("%s: %s", name, Number(float64(d.Dropped), "")))
		}
		if !h.Carries(d) {
			continue
		}
		if names = append(names, name); d.Container != "" {
			carrying++
		}
	}
	join := func(list []string) string {
		if len(list) > mostDevices {
			list = append(slices.Clone(list[:mostDevices]), fmt.Sprintf("%d more", len(list)-mostDevices))
		}
		return strings.Join(list, ", ")
	}
	if carry = join(names); carry == "" {
		carry = "cannot be told: none has counted as many"
	}
	if carrying < pods {
		carry += fmt.Sprintf("; not those of %s", Count(pods-carrying, "pod", "pods"))
	}
	return carry, join(drops)
}

// uncounted says of how many labs it is not known which devices their packets pass; "" if of none.
func (v *Reading) uncounted() string {
	told := map[string]bool{}
	for _, l := range v.Analysis.Passed {
		told[l.Lab] = true
	}
	var labs int
	for _, c := range v.Run.Cells {
		if c.Lab != "" && !told[c.Lab] && !c.Twin {
			told[c.Lab] = true
			labs++
		}
	}
	if labs == 0 {
		return ""
	}
	return fmt.Sprintf(" It cannot be told of %s: nobody read their nodes, their workloads do not say how many packets "+
		"they take, or no trial counted.", Count(labs, "lab", "labs"))
}

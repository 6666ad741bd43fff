package measure

import (
	"slices"
	"strings"
)

// NodeUse is what a machine did during the blocks of a run, if somebody has read its counters: means over their time.
type NodeUse struct {
	Machine  string             // "" for that of host 1
	CPU      map[string]float64 // cores by mode, as in [BlockFacts]
	Others   float64            // CPU use of programs that are not part of the run, in cores
	Memory   float64            // in use, bytes
	Softirqs float64            // of the network, per second
}

// Busy returns how many cores were busy, whatever for, and how many of these with interrupts and softirqs.
func (n NodeUse) Busy() (all, interrupts float64) {
	for mode, cores := range n.CPU {
		if !slices.Contains([]string{"idle", "iowait", "steal"}, mode) {
			all += cores
		}
		if strings.HasSuffix(mode, "irq") { // there are two such modes
			interrupts += cores
		}
	}
	return all, interrupts
}

// NodeUses returns what the machines did whose counters were read, that of host 1 first.
func NodeUses(blocks []BlockFacts) (list []NodeUse) {
	seconds := map[string]float64{}
	at := map[string]int{}
	add := func(m MachineLoad, s float64) {
		if m.Memory == 0 || s <= 0 {
			return
		}
		i, known := at[m.Machine]
		if !known {
			i = len(list)
			at[m.Machine], list = i, append(list, NodeUse{Machine: m.Machine, CPU: map[string]float64{}})
		}
		for mode, cores := range m.CPU {
			list[i].CPU[mode] += cores * s
		}
		list[i].Others += m.Others * s
		list[i].Memory += m.Memory * s
		list[i].Softirqs += m.Softirqs * s
		seconds[m.Machine] += s
	}
	for _, b := range blocks {
		add(MachineLoad{CPU: b.CPU, Others: b.Others, Memory: b.Memory, Softirqs: b.Softirqs}, b.Duration)
		for _, m := range b.Machines {
			add(m, b.Duration)
		}
	}
	for i := range list {
		n, s := &list[i], seconds[list[i].Machine]
		for mode := range n.CPU {
			n.CPU[mode] /= s
		}
		n.Others, n.Memory, n.Softirqs = n.Others/s, n.Memory/s, n.Softirqs/s
	}
	return list
}

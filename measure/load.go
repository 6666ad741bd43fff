package measure

import (
	"fmt"
	"math"
	"strings"
)

// Load is what used the CPUs of a machine, besides the run, during its blocks, in cores: the mean over their time. If
// hosts are on several machines, it is that of the busiest one.
type Load struct {
	Others float64 // programs that are not part of the run
	Stolen float64 // the hypervisor, for other guests
	Idle   float64 // nothing, not even the run itself: idle, or waiting for a disk
	CPUs   float64 // all of them; 0 if the records do not have their time
}

// Busy is the least load that the reader must know, in cores: a twentieth of a CPU, well above what an idle machine's
// own services take.
const Busy = 0.05

// Cores returns what was taken in all.
func (l Load) Cores() float64 { return l.Others + l.Stolen }

// IdleText says which share of the CPU time was idle: "12 %"; "" if the records do not say it.
func (l Load) IdleText() string {
	if l.CPUs == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*l.Idle/l.CPUs)
}

const (
	// crowded is the share of the measuring CPUs from which on other programs are taken to move ratios: below it they
	// take from all cells of a block alike.
	crowded = 0.1
	// full is the largest share that is told from all.
	full = 0.999
)

// slowed returns the logarithm by which what takes 1 − share becomes longer when it takes 1.
func slowed(share float64) float64 { return -math.Log1p(-share) }

// movesRatios returns how far other programs are taken to have moved the ratio of two cells, as a natural logarithm:
// as far as if one cell had lost the share of the measuring CPUs that they used, and the other nothing. That is an
// allowance, no bound. Both cells lose CPU time, but not alike (docs/method.md, The verdict). CPUs on which nothing is
// measured are filled first. It is 0 if the share is below a tenth, or the number of CPUs is unknown.
func (l Load) movesRatios(all, measuring int) float64 {
	if measuring == 0 {
		return 0
	}
	b := (l.Others - float64(all-measuring)) / float64(measuring)
	if b < crowded {
		return 0
	}
	return slowed(min(b, full))
}

// Moved returns how far other programs are taken to have moved ratios of the run, as a natural logarithm; 0 if they
// hardly ran.
func (r Run) Moved(l Load) float64 { return l.movesRatios(r.measuringCPUs()) }

// measuringCPUs returns the number of CPUs of the machine, and of those on which threads measure: all if that is not
// known. Without the first both are 0.
func (r Run) measuringCPUs() (all, measuring int) {
	all = int(factNumber(r.Facts["cpus"]))
	used := map[float64]bool{}
	for key, value := range r.Facts {
		if !strings.HasPrefix(key, "cpus_sources") && !strings.HasPrefix(key, "cpus_sinks") {
			continue
		}
		switch list := value.(type) {
		case []int:
			for _, cpu := range list {
				used[float64(cpu)] = true
			}
		case []any: // from JSON
			for _, cpu := range list {
				used[factNumber(cpu)] = true
			}
		}
	}
	if len(used) == 0 {
		return all, all
	}
	return all, min(len(used), all)
}

// factNumber returns a fact as a number; 0 if it is none.
func factNumber(fact any) float64 {
	switch x := fact.(type) {
	case int:
		return float64(x)
	case float64:
		return x
	}
	return 0
}

// LoadOf returns the load of the busiest machine over all blocks.
func LoadOf(blocks []BlockFacts) Load {
	sums, seconds := map[string]Load{}, 0.0
	add := func(machine string, cpu map[string]float64, others, s float64) {
		l := sums[machine]
		l.Others, l.Stolen, l.Idle = l.Others+others*s, l.Stolen+cpu["steal"]*s, l.Idle+(cpu["idle"]+cpu["iowait"])*s
		for _, mode := range sortedKeys(cpu) {
			l.CPUs += cpu[mode] * s
		}
		sums[machine] = l
	}
	for _, b := range blocks {
		add("", b.CPU, b.Others, b.Duration)
		for _, m := range b.Machines {
			add(m.Machine, m.CPU, m.Others, b.Duration)
		}
		seconds += b.Duration
	}
	if seconds == 0 {
		return Load{}
	}
	most := sums[""]
	for _, name := range sortedKeys(sums) {
		if l := sums[name]; l.Cores() > most.Cores() {
			most = l
		}
	}
	return Load{most.Others / seconds, most.Stolen / seconds, most.Idle / seconds, most.CPUs / seconds}
}

// moves returns how far the load may have moved a value, on the scale on which the metric is judged. If b is the share
// of one CPU that was taken, and all of it from the thread that the value depends on, then what takes 1 − b takes 1:
// −ln(1 − b). Nothing bounds it if a whole CPU was taken. A percentile is not bounded either if as many samples lie
// beyond it as the share of the time that was taken, nor is what is compared by difference, on a busy machine.
func (l Load) moves(m Metric) float64 {
	b := l.Cores()
	switch {
	case b >= 1, b > Busy && (m.Differs() || m.Kind == KindQuantile && 1-m.Quantile <= b):
		return math.Inf(1)
	case m.Differs():
		return 0
	}
	return slowed(max(b, 0))
}

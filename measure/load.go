package measure

import "math"

// Load is what else used the CPUs of a machine during the blocks of a run, in cores: the mean over their time. If hosts
// are on several machines, it is that of the busiest one.
type Load struct {
	Others float64 // programs that are not part of the run
	Stolen float64 // the hypervisor, for other guests
}

// Busy is the least load that the reader must know, in cores: a twentieth of a CPU, well above what an idle machine's
// own services take.
const Busy = 0.05

// Cores returns what was taken in all.
func (l Load) Cores() float64 { return l.Others + l.Stolen }

// loadOf returns the load of the busiest machine over all blocks.
func loadOf(blocks []BlockFacts) Load {
	sums, seconds := map[string]Load{}, 0.0
	add := func(machine string, cpu map[string]float64, others, s float64) {
		l := sums[machine]
		sums[machine] = Load{l.Others + others*s, l.Stolen + cpu["steal"]*s}
	}
	for _, b := range blocks {
		add("", b.CPU, b.Others, b.Duration)
		for _, m := range b.Machines {
			add(m.Machine, m.CPU, m.Others, b.Duration)
		}
		seconds += b.Duration
	}
	var most Load
	for _, name := range sortedKeys(sums) {
		if l := sums[name]; seconds > 0 && l.Cores() > most.Cores()*seconds {
			most = Load{l.Others / seconds, l.Stolen / seconds}
		}
	}
	return most
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
	return -math.Log1p(-max(b, 0))
}

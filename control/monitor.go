package control

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/machine"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/measure"
)

// monitor watches the machines from block to block. What belongs to a single trial, the run time of threads, is read by
// the threads themselves.
type monitor struct {
	watch   func() (func() []deploy.Load, error)
	started int64 // ns, CLOCK_MONOTONIC: the run's beginning
	stolen  float64
	loaded  float64            // load average of this machine, times the seconds
	watched float64            // s
	others  map[string]float64 // CPU time of other programs during blocks, in s, by their names
	runs    map[int]string     // other runs of nettoll at the same time, and their command lines
	// how often the table of neighbours was full, by family: now, and at the beginning
	neighbours func() map[string]int64
	full       map[string]int64
}

func newMonitor(watch func() (func() []deploy.Load, error)) *monitor {
	neighbours := func() map[string]int64 { return machine.FullNeighbours(os.DirFS("/")) }
	return &monitor{
		watch: watch, started: clock.Now(), others: map[string]float64{}, runs: map[int]string{},
		neighbours: neighbours, full: neighbours(),
	}
}

// block starts to watch; the function it returns ends that and makes the record.
func (m *monitor) block(generation, block int) (func() measure.BlockFacts, error) {
	loads, err := m.watch()
	if err != nil {
		return nil, err
	}
	begin := clock.Now()
	return func() measure.BlockFacts {
		seconds := time.Duration(clock.Now() - begin).Seconds()
		facts := measure.BlockFacts{
			Generation: generation, Block: block, Start: float64(begin-m.started) / 1e9, Duration: seconds,
		}
		for i, l := range loads() {
			m.stolen += l.CPU["steal"] * seconds
			one := measure.MachineLoad{
				Machine: l.Machine, CPU: l.CPU, Load1: l.Load1, Memory: float64(l.Memory), Softirqs: l.Softirqs,
			}
			for _, u := range l.Programs {
				m.others[u.Name] += u.CPUs * seconds
				one.Others += u.CPUs
			}
			maps.Copy(m.runs, l.Runs)
			if i == 0 {
				facts.CPU, facts.Load1, facts.Others = one.CPU, one.Load1, one.Others
				facts.Memory, facts.Softirqs = one.Memory, one.Softirqs
				m.loaded += l.Load1 * seconds
				continue
			}
			facts.Machines = append(facts.Machines, one)
		}
		m.watched += seconds
		return facts
	}, nil
}

// busy says how many CPUs other programs used over all blocks, and names those that used most of them.
func (m *monitor) busy() (cpus float64, most []procfs.User) {
	for name, used := range m.others {
		most = append(most, procfs.User{Name: name, CPUs: used / m.watched})
		cpus += used / m.watched
	}
	slices.SortFunc(most, func(a, b procfs.User) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.Name, b.Name))
	})
	return cpus, most
}

// stealing is the share of a core that the hypervisor took away over all blocks.
func (m *monitor) stealing() float64 {
	if m.watched == 0 {
		return 0
	}
	return m.stolen / m.watched
}

// refused returns, by family, how often the table of neighbours was full since the beginning.
func (m *monitor) refused() map[string]int64 {
	since := map[string]int64{}
	for family, n := range m.neighbours() {
		if before, known := m.full[family]; known && n > before {
			since[family] = n - before
		}
	}
	return since
}

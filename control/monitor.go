package control

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/measure"
)

// monitor watches the machine from block to block. What belongs to a single trial, the run time of threads, is read by
// the threads themselves.
type monitor struct {
	started int64 // ns, CLOCK_MONOTONIC: the run's beginning
	stolen  float64
	watched float64            // s
	others  map[string]float64 // CPU time of other programs during blocks, in s, by their names
	runs    map[int]string     // other runs of nettoll at the same time, and their command lines
}

// block starts to watch; the function it returns ends that and makes the record.
func (m *monitor) block(generation, block int) (func() measure.BlockFacts, error) {
	before, err := procfs.ReadCPUTime()
	if err != nil {
		return nil, err
	}
	programs, err := procfs.ReadPrograms()
	if err != nil {
		return nil, err
	}
	m.meet(programs)
	begin := clock.Now()
	if m.others == nil {
		m.others = map[string]float64{}
	}
	return func() measure.BlockFacts {
		end := clock.Now()
		seconds := time.Duration(end - begin).Seconds()
		facts := measure.BlockFacts{
			Generation: generation, Block: block, Start: float64(begin-m.started) / 1e9, Duration: seconds,
		}
		// it could be read a moment ago: a missing column is no reason to lose the block
		if after, err := procfs.ReadCPUTime(); err == nil {
			facts.CPU = procfs.Cores(before, after, seconds)
			m.stolen += facts.CPU["steal"] * seconds
		}
		if load, err := procfs.Load1(); err == nil {
			facts.Load1 = load
		}
		if after, err := procfs.ReadPrograms(); err == nil {
			for _, u := range procfs.Users(programs, after, procfs.Family(after, os.Getpid()), seconds) {
				m.others[u.Name] += u.CPUs * seconds
				facts.Others += u.CPUs
			}
		}
		m.watched += seconds
		return facts
	}, nil
}

// meet remembers the other runs of nettoll among programs.
func (m *monitor) meet(programs map[int]procfs.Program) {
	if m.runs == nil {
		m.runs = map[int]string{}
	}
	for _, r := range procfs.Runs(programs, procfs.Family(programs, os.Getpid())) {
		m.runs[r.PID] = r.Command
	}
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

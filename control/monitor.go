package control

import (
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/measure"
)

// monitor watches the machine from block to block. What belongs to a single trial, the run time of threads, is read by the threads
// themselves.
type monitor struct {
	started int64 // ns, CLOCK_MONOTONIC: the run's beginning
	stolen  float64
	watched float64 // s
}

// block starts to watch; the function it returns ends that and makes the record.
func (m *monitor) block(generation, block int) (func() measure.BlockFacts, error) {
	before, err := procfs.ReadCPUTime()
	if err != nil {
		return nil, err
	}
	begin := clock.Now()
	return func() measure.BlockFacts {
		end := clock.Now()
		seconds := time.Duration(end - begin).Seconds()
		facts := measure.BlockFacts{Generation: generation, Block: block, Start: float64(begin-m.started) / 1e9, Duration: seconds}
		if after, err := procfs.ReadCPUTime(); err == nil { // it could be read a moment ago: a missing column is no reason to lose the block
			facts.CPU = procfs.Cores(before, after, seconds)
			m.stolen += facts.CPU["steal"] * seconds
		}
		if load, err := procfs.Load1(); err == nil {
			facts.Load1 = load
		}
		m.watched += seconds
		return facts
	}, nil
}

// stealing is the share of a core that the hypervisor took away over all blocks.
func (m *monitor) stealing() float64 {
	if m.watched == 0 {
		return 0
	}
	return m.stolen / m.watched
}

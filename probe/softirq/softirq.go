package softirq

import (
	"os"
	"slices"

	"github.com/nettoll/nettoll/internal/linux/softirq"
	kernel "github.com/nettoll/nettoll/internal/linux/softirq/probe"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/probe"
)

// Probe is the probe softirq.
type Probe struct{}

var _ probe.Probe = Probe{}

const (
	inAll     = "cpu_softirq"
	perPacket = "softirq_per_packet"
)

// Describe implements [probe.Probe].
func (Probe) Describe() probe.Description {
	return probe.Description{
		Name: "softirq", Summary: "the CPU time of softirqs", Needs: "root",
		Choice:         "tracepoints that sum up the CPU time of softirqs",
		Implementation: "ebpf", Switches: "tracepoints",
		Metrics: []measure.Metric{
			{
				Name: inAll, Unit: measure.UnitCores, Better: measure.LowerBetter, Kind: measure.KindCPU, Order: 600,
				Summary: "cores kept busy by network softirqs, whatever they interrupted; not part of cpu_busy",
			},
			{
				Name: perPacket, Unit: measure.UnitSecondsPacket, Better: measure.LowerBetter, Kind: measure.KindCPU, Order: 620,
				Summary: "time in network softirqs per packet that cpu_per_packet counts",
			},
		},
		View: view,
	}
}

// view explains the figures in a report. Whether a thread's run time includes softirqs is known only if the kernel
// reports how it was built.
func view(facts map[string]any) measure.Probe {
	apart := "It is unknown whether this kernel counts it in the run time of the interrupted thread"
	switch yes, known := facts["irq_time_accounting"].(bool); {
	case known && yes:
		apart = "This kernel does not count it in the run time of threads, except ksoftirqd's: the rest is not part of " +
			"the CPU time above"
	case known:
		apart = "This kernel counts it in the run time of the thread that was interrupted: it is part of the CPU time above"
	}
	return measure.Probe{
		Name: "softirq", Title: "Softirq time, in probed trials",
		Switches: "tracepoints switched on at the beginning and the end of each softirq",
		Meaning: "The tables show the time in network softirqs on the CPUs of sources and sinks, no matter which thread " +
			"they interrupted or whose packets they handled. " + apart,
		Metrics: []string{inAll, perPacket}, Columns: []string{"CPU softirq", "per packet"},
	}
}

// Load implements [probe.Probe].
func (Probe) Load() (probe.Loaded, error) {
	p, err := kernel.Load()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Open implements [probe.Probe].
func (Probe) Open(f *os.File, cpus []int) (func() int64, error) {
	if len(cpus) == 0 {
		return func() int64 { return 0 }, nil
	}
	times, err := softirq.Map(f, slices.Max(cpus)+1)
	if err != nil {
		return nil, err
	}
	return func() int64 { return times.Net(cpus) }, nil
}

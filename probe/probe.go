package probe

import (
	"os"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/workload"
)

// Probe is one probe.
type Probe interface {
	// Describe returns the description of the probe.
	Describe() Description
	// Load makes the probe ready on the machine of this process, switched off. A deployment calls it on the machines of
	// its hosts. If the machine lacks something, the error is a linux.UnsupportedError that says what.
	Load() (Loaded, error)
	// Open returns a function that reads, in a worker, the total that the probe has counted so far on some CPUs. The
	// file is the inherited one from [Loaded.File]. Reading allocates nothing and makes no system call.
	Open(f *os.File, cpus []int) (read func() int64, err error)
	// Put adds what was counted during a probed trial to the trial's metrics, which are otherwise complete.
	Put(metrics map[string]float64, t workload.Trial, counted int64)
}

// Loaded is a probe that is ready. Only one process holds it.
type Loaded interface {
	// On switches the probe on, and Off switches it off. A second call changes nothing.
	On() error
	Off() error
	// File returns the file with the counters, for workers. The caller closes it.
	File() (*os.File, error)
	// Close switches the probe off and removes it. It is idempotent.
	Close() error
}

// Description describes a probe in help, schema and reports.
type Description struct {
	Name string // as in experiments and at the end of cell ids
	// what it shows, for help, such as "the CPU time of softirqs"
	Summary        string
	Needs          string                                   // what it requires, such as "root"
	Choice         string                                   // what it is, in the schema
	Implementation string                                   // who does the work
	Switches       string                                   // what is switched on, in a word or two
	Metrics        []measure.Metric                         // what probed trials have in addition to the other metrics
	View           func(facts map[string]any) measure.Probe // how reports describe it, given the facts of a run
}

package probe

import (
	"os"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/workload"
)

// Probe is one probe.
type Probe interface {
	// Describe says what it is.
	Describe() Description
	// Load makes it ready on this machine, switched off. If that cannot work here the error is a typed one that says what
	// is missing (linux.UnsupportedError).
	Load() (Loaded, error)
	// Open returns what reads, in a worker, how much the probe has counted so far on some CPUs. The file is that of
	// [Loaded.File], inherited. Reading allocates nothing and makes no system call.
	Open(f *os.File, cpus []int) (read func() int64, err error)
	// Put adds to the metrics of a probed trial, which has all others already, what was counted during the trial.
	Put(metrics map[string]float64, t workload.Trial, counted int64)
}

// Loaded is a probe that is ready. Only one process has it.
type Loaded interface {
	// On switches it on, and Off off. Doing either twice changes nothing.
	On() error
	Off() error
	// File returns what it counts in, for workers. It is the caller's to close.
	File() (*os.File, error)
	// Close switches it off and removes it. It is idempotent.
	Close() error
}

// Description is what help, schema and views say of a probe.
type Description struct {
	Name string // as in experiments and at the end of cell ids
	// what it tells, for help, such as "the CPU time of softirqs"
	Summary        string
	Needs          string                                   // what it takes, such as "root"
	Choice         string                                   // what it is, for the schema
	Implementation string                                   // who does the work
	Switches       string                                   // what is switched on, in a word or two
	Metrics        []measure.Metric                         // that probed trials have besides the others
	View           func(facts map[string]any) measure.Probe // what reports say of it, given the facts of a run
}

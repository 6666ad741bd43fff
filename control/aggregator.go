package control

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
)

// Names of the files in a run directory.
const (
	RunFile     = "run.json"
	RecordsFile = "records.jsonl"
)

const (
	// syncEvery is how much a power failure may cost.
	syncEvery = time.Second

	// groupBlocks is how many blocks share a histogram record of latencies: one has 1.5 KB, and 100,000 trials are to fit
	// into 50 MB: its share of a trial is to be small beside the trial's own line of 350 to 450 bytes. A generation ends a
	// group, so that generations stay apart. Other durations have one record for each generation.
	groupBlocks = 32
)

// aggregator keeps what was found: on disk, a line at a time, and in memory for the looks.
type aggregator struct {
	run     measure.Run
	log     measure.Log
	file    *os.File
	buffer  *bufio.Writer
	writer  *measure.Writer
	synced  time.Time
	cells   []experiment.Cell
	pending map[quantity]*group   // durations since the last histogram record
	calls   calls                 // to workers on other machines
	broken  error                 // the first error of the disk: nothing is written after it
	told    bool                  // broken was returned
	warned  func(measure.Warning) // is told of each warning; may be nil
}

// quantity is what a histogram is of.
type quantity struct {
	cell int
	of   traffic.Quantity
}

type group struct {
	first, last int
	sum         *hdrhistogram.Histogram
}

// newAggregator writes run.json and opens the records of a run directory, which must be empty or new: the error wraps
// [ErrTaken] if another run was faster. With an empty dir nothing is kept on disk.
func newAggregator(dir string, run measure.Run, cells []experiment.Cell) (*aggregator, error) {
	a := &aggregator{run: run, cells: cells, pending: map[quantity]*group{}, synced: time.Now()}
	if dir == "" {
		a.writer = measure.NewWriter(io.Discard)
		return a, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("create run directory: %w%s", err, hint(err))
	}
	var text bytes.Buffer
	if err := measure.WriteRun(&text, run); err != nil {
		return nil, err
	}
	f, err := create(dir, RunFile)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("write records: %w%s", err, hint(err))
	}
	if a.file, err = create(dir, RecordsFile); err != nil {
		return nil, err
	}
	if _, err := process.Lock(a.file); err != nil { // so that nobody resumes a run that goes on
		return nil, err
	}
	a.buffer = bufio.NewWriterSize(a.file, 1<<16)
	a.writer = measure.NewWriter(a.buffer)
	a.log = measure.Log{Version: measure.Version}
	a.write(measure.Begin{Run: measure.RunSum(text.Bytes())})
	return a, a.flush(true)
}

// ErrTaken is wrapped by errors about a run directory that another run has written to.
var ErrTaken = errors.New("another run writes to it")

// create creates a file of a run directory. Of several runs that are started at once on one directory, one succeeds.
func create(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("output directory %q already holds %s: %w (name a new directory)", dir, name, ErrTaken)
	}
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w%s", err, hint(err))
	}
	return f, nil
}

// hint says what would help where the disk is full or cannot be written to.
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return " (hint: free some space, or choose another directory)"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return " (hint: choose a directory that you can write to)"
	}
	return ""
}

func (a *aggregator) write(r measure.Record) {
	if a.broken == nil {
		a.broken = a.writer.Write(r)
	}
}

func (a *aggregator) trial(t measure.Trial) {
	a.log.Trials = append(a.log.Trials, t)
	a.write(t)
}

func (a *aggregator) proof(p measure.Proof) {
	a.log.Proofs = append(a.log.Proofs, p)
	a.write(p)
}

func (a *aggregator) matrix(m measure.Matrix) {
	a.log.Matrices = append(a.log.Matrices, m)
	a.write(m)
}

func (a *aggregator) attacks(x measure.Attacks) {
	a.log.Attacks = append(a.log.Attacks, x)
	a.write(x)
}

func (a *aggregator) lab(l measure.LabRecord) {
	a.log.Labs = append(a.log.Labs, l)
	a.run.Tell([]measure.LabRecord{l})
	a.write(l)
}

func (a *aggregator) warn(w measure.Warning) {
	a.log.Warnings = append(a.log.Warnings, w)
	a.write(w)
	if a.warned != nil {
		a.warned(w)
	}
}

func (a *aggregator) fact(key string, value any) {
	f := measure.Fact{Key: key, Value: value}
	a.log.Facts = append(a.log.Facts, f)
	a.write(f)
}

// generation keeps that a generation was measured to its end.
func (a *aggregator) generation(g measure.Generation) {
	a.log.Generations = append(a.log.Generations, g)
	a.write(g)
}

// end keeps why the run ended.
func (a *aggregator) end(e measure.End) {
	a.log.End = &e
	a.write(e)
}

// block keeps the trials of one block.
func (a *aggregator) block(generation, block int, trials []trial, facts measure.BlockFacts, started int64) error {
	for _, t := range trials {
		a.calls.add(t)
		a.trial(t.record(a.cells[t.cell], generation, block, started))
		for q, h := range t.durations {
			if h == nil {
				continue
			}
			what := quantity{t.cell, traffic.Quantity(q)}
			g := a.pending[what]
			if g == nil {
				g = &group{first: block, sum: traffic.NewHistogram()}
				a.pending[what] = g
			}
			g.last = block
			g.sum.Merge(h)
		}
	}
	a.log.Blocks = append(a.log.Blocks, facts)
	a.write(facts)
	if block%groupBlocks == groupBlocks-1 {
		if err := a.endGroup(generation, false); err != nil {
			return err
		}
	}
	return a.flush(false)
}

// endGroup writes the histograms of latencies gathered since the last time, and at the end of a generation those of the
// other durations too.
func (a *aggregator) endGroup(generation int, last bool) error {
	for i := range len(a.cells) * int(traffic.Quantities) { // in the order of cells
		what := quantity{i / int(traffic.Quantities), traffic.Quantity(i % int(traffic.Quantities))}
		if what.of != traffic.Latency && !last {
			continue
		}
		g := a.pending[what]
		if g == nil {
			continue
		}
		data, err := measure.EncodeHistogram(g.sum)
		if err != nil {
			return err
		}
		h := measure.Histograms{
			Generation: generation, First: g.first, Last: g.last, Cell: a.cells[what.cell].ID,
			Samples: g.sum.TotalCount(), Data: data,
		}
		if what.of != traffic.Latency {
			h.Metric = what.of.Name()
		}
		a.log.Histograms = append(a.log.Histograms, h)
		a.write(h)
		delete(a.pending, what)
	}
	return nil
}

// flush writes a checksum and hands everything to the kernel, which keeps it when this process dies, and to the disk
// once a second or when told to.
func (a *aggregator) flush(now bool) error {
	if a.file == nil {
		return nil
	}
	if a.broken == nil {
		a.broken = a.writer.Sum()
	}
	if a.broken == nil {
		a.broken = a.buffer.Flush()
	}
	if a.broken == nil && (now || time.Since(a.synced) >= syncEvery) {
		a.broken = a.file.Sync()
		a.synced = time.Now()
	}
	if a.broken == nil || a.told {
		return nil
	}
	a.told = true
	return fmt.Errorf("write records (those written earlier are readable): %w%s", a.broken, hint(a.broken))
}

// analyze is the view of everything so far.
func (a *aggregator) analyze() measure.Analysis { return measure.Analyze(a.run, &a.log) }

// close ends the records.
func (a *aggregator) close() error {
	if a.file == nil {
		return nil
	}
	return errors.Join(a.flush(true), a.file.Close())
}

package control

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/measure"
)

// ErrNotResumable is wrapped by errors about a run that cannot be gone on with.
var ErrNotResumable = errors.New("cannot be resumed")

// A Past is a run that is to be resumed. Its records are locked until it is closed.
//
// What was measured to the end of a generation counts, with the numbers, looks and decisions that it led to. The
// generation that was not is dropped and its records are removed: it has fewer blocks than it was to have, and another
// generation takes its place, with a seed that no generation of the run has had. So generations, of which every
// interval is made, are as many and as long as in a run that was not interrupted, and when it stops depends on the same
// figures.
type Past struct {
	Run measure.Run

	dir     string
	file    *os.File
	log     *measure.Log
	after   string // why it ended
	next    int    // number of the next generation
	dropped int    // blocks
}

// OpenPast opens the run in a directory. The error wraps [ErrNotResumable] and says why, or [ErrTaken] if the run goes
// on.
func OpenPast(dir string) (_ *Past, err error) {
	text, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil {
		return nil, fmt.Errorf("run in %q %w: %w", dir, ErrNotResumable, err)
	}
	// Of another user it could be any experiment, and a link to any file.
	for _, path := range []string{dir, filepath.Join(dir, RunFile), filepath.Join(dir, RecordsFile)} {
		if own, err := owned.Mine(path); err == nil && !own {
			return nil, fmt.Errorf("run in %q %w: %q belongs to another user (resume it as that user, or give it to yourself: "+
				"chown)", dir, ErrNotResumable, path)
		}
	}
	p := &Past{dir: dir, next: firstGeneration}
	if p.Run, err = measure.ReadRun(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("run in %q %w: %w", dir, ErrNotResumable, err)
	}
	if p.file, err = os.OpenFile(filepath.Join(dir, RecordsFile), os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("run in %q %w: %w", dir, ErrNotResumable, err)
	}
	defer func() {
		if err != nil {
			_ = p.file.Close()
		}
	}()
	if free, err := process.Lock(p.file); err != nil {
		return nil, err
	} else if !free {
		return nil, fmt.Errorf("run in %q is still active: %w", dir, ErrTaken)
	}
	if p.log, _, err = measure.Read(p.file); err != nil {
		return nil, err
	}
	if reason := p.refuse(measure.RunSum(text)); reason != "" {
		return nil, fmt.Errorf("run in %q %w: %s", dir, ErrNotResumable, reason)
	}
	p.after = measure.Killed
	if p.log.End != nil {
		p.after = p.log.End.Why
	}
	trials := p.log.Trials
	for _, t := range trials {
		p.next = max(p.next, t.Generation+1)
	}
	for _, l := range p.log.Labs { // of a generation that was built and has no trial yet
		p.next = max(p.next, l.Generation+1)
	}
	for _, r := range p.log.Resumes {
		p.next = max(p.next, r.Generation)
	}
	blocks := len(p.log.Blocks)
	p.log.Back()
	p.dropped = blocks - len(p.log.Blocks)
	return p, nil
}

// refuse says why the run cannot be resumed, "" if it can.
func (p *Past) refuse(sum string) string {
	switch log := p.log; {
	case p.Run.V < 2 || log.Version == 1:
		return "its records have version 1, which has no checksums"
	case len(log.Changed) > 0:
		return "its records were changed: " + log.Changed[0]
	case log.Begin == nil:
		return "its records have no first line"
	case log.Begin.Run != sum:
		return RunFile + " was changed after the run began"
	case log.End != nil && log.End.Why != measure.EndInterrupted && log.End.Why != measure.EndFailed:
		return "it has ended, because " + log.End.Detail
	case p.Run.V < measure.Version:
		return fmt.Sprintf("its records have version %d, and this nettoll writes version %d (hint: resume it with the "+
			"nettoll that began it)", p.Run.V, measure.Version)
	}
	return ""
}

// Close gives the directory back.
func (p *Past) Close() error { return p.file.Close() }

// Experiment returns the experiment of the run.
func (p *Past) Experiment() (experiment.Experiment, error) {
	var e experiment.Experiment
	if err := json.Unmarshal(p.Run.Experiment, &e); err != nil {
		return e, fmt.Errorf("run in %q %w: its experiment cannot be read: %w", p.dir, ErrNotResumable, err)
	}
	e.Source, e.Suite = p.Run.Source, p.Run.Suite
	return e, nil
}

// Fits returns an error that wraps [ErrNotResumable] and names all that differs, unless plan, programs, machine and
// kernel are those with which the run began.
func (p *Past) Fits(ctx context.Context, o Options) error {
	cpus, err := o.Deployment.CPUs(ctx)
	if err != nil {
		return err
	}
	w, err := newWake(o.Deployment, o.Resolved.Cells)
	if err != nil {
		return err
	}
	now, err := describe(ctx, o, cpus, w)
	if err != nil {
		return err
	}
	then, err := flatten(p.Run)
	if err != nil {
		return err
	}
	here, err := flatten(now)
	if err != nil {
		return err
	}
	keys := maps.Clone(then)
	maps.Copy(keys, here)
	var list []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if then[k] == here[k] {
			continue
		}
		value := func(m map[string]string) string {
			if v, ok := m[k]; ok {
				return v
			}
			return "nothing"
		}
		list = append(list, fmt.Sprintf("%s: %s then, %s now", k, value(then), value(here)))
	}
	if len(list) == 0 {
		return nil
	}
	const most = 12
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("run in %q %w, because these differ:\n  %s", p.dir, ErrNotResumable, strings.Join(list, "\n  "))
}

// flatten returns the values of run.json by their paths, but for those that may differ between two parts of a run.
func flatten(run measure.Run) (map[string]string, error) {
	run.V, run.Started, run.Source = 0, time.Time{}, ""
	run.Facts = maps.Clone(run.Facts)
	run.Machines = slices.Clone(run.Machines)
	for i := range run.Machines {
		run.Machines[i].Facts = maps.Clone(run.Machines[i].Facts)
		delete(run.Machines[i].Facts, "cgroup")
	}
	delete(run.Facts, "cgroup") // of the session that it was started from
	text, err := json.Marshal(run)
	if err != nil {
		return nil, fmt.Errorf("encode run: %w", err)
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("decode run: %w", err)
	}
	flat := map[string]string{}
	var walk func(path string, x any)
	walk = func(path string, x any) {
		switch x := x.(type) {
		case map[string]any:
			for k, v := range x {
				walk(strings.TrimPrefix(path+"."+k, "."), v)
			}
		case []any:
			for i, v := range x {
				walk(fmt.Sprintf("%s.%d", path, i), v)
			}
		default:
			value, _ := json.Marshal(x) // it comes from JSON
			flat[path] = string(value)
		}
	}
	walk("", tree)
	return flat, nil
}

// binarySum is the checksum of this program, which does not change while it runs.
//
//nolint:gochecknoglobals // a program has one
var binarySum = sync.OnceValues(func() (string, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
})

// aggregator goes on with the records behind the last generation that was measured to its end, or where the run began
// or was resumed.
func (p *Past) aggregator(cells []experiment.Cell) (*aggregator, error) {
	at := p.log.Place
	if err := p.file.Truncate(at.Offset); err != nil {
		return nil, fmt.Errorf("drop the incomplete generation: %w", err)
	}
	if _, err := p.file.Seek(at.Offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("resume records: %w", err)
	}
	a := &aggregator{run: p.Run, cells: cells, pending: map[quantity]*group{}, synced: time.Now(), file: p.file}
	a.buffer = bufio.NewWriterSize(a.file, 1<<16)
	a.writer = measure.NewWriterAt(a.buffer, at)
	a.log = measure.Log{
		Version: measure.Version, Begin: p.log.Begin, Warnings: p.log.Warnings, Facts: p.log.Facts,
		Resumes: p.log.Resumes,
	}
	r := measure.Resume{At: time.Now().UTC(), After: p.after, Generation: p.next, Blocks: p.dropped}
	a.log.Resumes = append(a.log.Resumes, r)
	a.write(r)
	return a, a.flush(true)
}

// resume takes over what the run knew. Its generations are taken over by recall, one by one, so that each look sees
// what it saw then.
func (s *scheduler) resume(p *Past) {
	s.past, s.next = p.log, p.next
	s.monitor.started = clock.Now() - int64(time.Since(p.Run.Started))
	for _, w := range p.log.Warnings {
		if w.Lab != "" {
			s.doubted[doubtKey(w.Lab, w.Text)] = true
		}
	}
	for _, f := range p.log.Facts {
		if name, ok := f.Value.(string); ok && f.Key == "congestion_control" {
			s.configure.congestion = name
		}
	}
}

// recall takes over a generation that was measured before the run was resumed.
func (s *scheduler) recall(g measure.Generation) {
	of, to := s.past, &s.records.log
	to.Trials = append(to.Trials, only(of.Trials, func(t measure.Trial) bool { return t.Generation == g.Generation })...)
	to.Histograms = append(to.Histograms,
		only(of.Histograms, func(h measure.Histograms) bool { return h.Generation == g.Generation })...)
	to.Proofs = append(to.Proofs, only(of.Proofs, func(p measure.Proof) bool { return p.Generation == g.Generation })...)
	to.Matrices = append(to.Matrices, only(of.Matrices, func(m measure.Matrix) bool {
		return m.Generation == g.Generation
	})...)
	blocks := only(of.Blocks, func(b measure.BlockFacts) bool { return b.Generation == g.Generation })
	to.Blocks = append(to.Blocks, blocks...)
	labs := only(of.Labs, func(l measure.LabRecord) bool { return l.Generation == g.Generation })
	to.Labs = append(to.Labs, labs...)
	s.records.run.Tell(labs)
	to.Generations = append(to.Generations, g)
	for _, b := range blocks {
		s.monitor.watched += b.Duration
		for _, m := range append([]measure.MachineLoad{{CPU: b.CPU, Others: b.Others}}, b.Machines...) {
			s.monitor.stolen += m.CPU["steal"] * b.Duration
			if m.Others > 0 {
				s.monitor.others["programs before the run was resumed"] += m.Others * b.Duration
			}
		}
	}
	s.measured += time.Duration(g.Measured * float64(time.Second))
	s.blocks += g.Blocks
	for i, l := range s.options.Resolved.Labs {
		s.stood[i] = s.stood[i] || slices.ContainsFunc(labs, func(m measure.LabRecord) bool { return m.Lab == l.ID })
		s.miss(i, g.Lost[l.ID] != "")
	}
	for i, c := range s.cells {
		if reason := g.Dropped[c.ID]; reason != "" && s.gone[i] == "" {
			s.gone[i] = reason
		}
	}
}

func only[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !keep(x) })
}

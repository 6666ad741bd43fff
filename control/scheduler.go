package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
)

// Options are the inputs of a run besides its experiment.
type Options struct {
	Resolved *experiment.Resolved
	Parts    experiment.Parts  // for the controls of attacks
	Dir      string            // run directory; "" keeps nothing on disk
	Versions map[string]string // of nettoll and of the programs it starts
	Observe  func(Progress)    // is told how far the run is; may be nil
	Log      func(string)      // is told, between blocks, what happens, a line at a time; may be nil
	PCAP     bool              // keep the frames between hosts of proofs, in the directory pcap of Dir
	Past     *Past             // the run to go on with, whose directory is Dir; nil begins a new one
	// LeftOut is told, before anything is built, which labs cannot stand here; may be nil.
	LeftOut func(lab string, reason error)
	// Goals returns what a run is to answer, as it is known at a look, if cells leave when that is decided; nil: the
	// verdict on each cell.
	Goals func(run measure.Run, log *measure.Log, now measure.Analysis, look int) []measure.Goal
	// Unproven says which labs, by index into Resolved.Labs, are neither proved nor watched: those of a study that asks
	// whether proofs move figures. nil: none.
	Unproven func(lab int) bool
	// Deployment is where the labs stand. The run closes it.
	Deployment deploy.Deployment

	perform func(context.Context, *scheduler, int, int, bool) error // in the place of generation; nil but in tests
}

// Progress is how far a run is.
type Progress struct {
	Phase      string        // "build", "measure", "remove", "attack"
	Generation int           // from 1
	Block      int           // blocks done, all generations
	Measured   time.Duration // time spent in blocks
	Budget     time.Duration // of the same
	Goals      int           // comparisons that the run is to decide, or to know precisely
	Closed     int           // of these, the ones that are
	Expected   int           // of the others, those that will be before the time is up, if the noise stays as it is

	// While labs are attacked: which one of how many, its id, and with what. All else is 0.
	Lab, Labs int
	ID, What  string
}

// An Outcome is the result of a run.
type Outcome struct {
	Run         measure.Run
	Log         measure.Log // every record
	Analysis    measure.Analysis
	Interrupted bool
	Dropped     map[string]string // cells that could not be measured to the end, and why
	End         measure.End
}

// ErrNothingMeasured says that a run ended before its first block did.
var ErrNothingMeasured = errors.New("nothing was measured")

// scheduler decides what happens when.
type scheduler struct {
	options    Options
	experiment experiment.Experiment
	cells      []experiment.Cell
	configure  *configurator
	workload   *workloadControl
	monitor    *monitor
	wake       *wake
	records    *aggregator
	order      *rand.Rand // of the cells of a block; one for each generation
	// perform measures a generation: [scheduler.generation], but for tests.
	perform func(ctx context.Context, number, blocks int, must bool) error

	past   *measure.Log   // of the run that is resumed: its generations are taken from there first; nil: none
	next   int            // number of the next generation that is measured: each has another seed, also after a resumption
	lost   map[int]string // labs that were lost in this generation, and why
	died   map[string]int // agents, workers and programs in this generation, by lab
	missed map[int]int    // in how many generations one after another a lab was lost
	stood  map[int]bool   // labs that have been built

	gone     map[int]string    // cells that are not measured any more, and why: precise, decided or a failure
	open     []measure.Goal    // those that were open at the last look
	goals    int               // number of goals at the last look; 0: there was none
	closed   map[string]string // goals that are closed, by name, and why
	precise  map[string]bool   // goals that were precise at the last look
	may      map[int]bool      // members of mixes that may leave, and wait for the others
	measured time.Duration
	budget   time.Duration // what is measured at most: the time asked for, or what the least number of generations takes
	blocks   int
	standing *generation     // the last one, if it is to be attacked
	removing time.Duration   // of the labs of the generation before, in this part of the run
	doubted  map[string]bool // what labs have told already
	deaths   map[string]int  // in this generation, of workers, by lab and role, and of programs, by lab
	reached  time.Duration   // spent on matrices
	proving  time.Duration   // spent on proofs of all kinds and audits, in this process
	audits   []auditCost     // of all labs
}

// reserve is how many threads are kept ready: the runtime of a controller came to 12 before it needed one more.
const reserve = 16

// Run measures an experiment. On an interruption (ctx) it returns what was measured until then, with
// Outcome.Interrupted.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	e := o.Resolved.Experiment
	cpus, err := o.Deployment.CPUs(ctx)
	if err != nil {
		return nil, err
	}
	w, err := newWake(o.Deployment, o.Resolved.Cells)
	if err != nil {
		return nil, err
	}
	run, err := describe(ctx, o, cpus, w)
	if err != nil {
		return nil, err
	}
	var loaded deploy.LoadedProbe
	if p := o.Resolved.Probe; p != nil {
		if loaded, err = o.Deployment.LoadProbe(p); err != nil {
			return nil, err
		}
		defer loaded.Close() // what is left is removed with the process
	}
	thread.Reserve(reserve)
	s := &scheduler{
		options: o, experiment: e, cells: o.Resolved.Cells,
		workload: &workloadControl{probe: o.Resolved.Probe, cells: o.Resolved.Cells, visits: o.Resolved.Visits},
		monitor:  newMonitor(o.Deployment.Watch),
		wake:     w,
		lost:     map[int]string{},
		died:     map[string]int{},
		missed:   map[int]int{},
		stood:    map[int]bool{},
		gone:     map[int]string{},
		closed:   map[string]string{},
		precise:  map[string]bool{},
		may:      map[int]bool{},
		deaths:   map[string]int{},
		doubted:  map[string]bool{},
		next:     firstGeneration,
		budget:   max(e.Design.Time, o.Resolved.Forecast(experiment.DefaultSpread).Measuring.Round(time.Second)),
	}
	s.perform = s.generation
	if o.perform != nil {
		s.perform = func(ctx context.Context, number, blocks int, must bool) error {
			return o.perform(ctx, s, number, blocks, must)
		}
	}
	if o.Past != nil {
		run = o.Past.Run
		s.records, err = o.Past.aggregator(s.cells)
	} else {
		s.records, err = newAggregator(o.Dir, run, s.cells)
	}
	if err != nil {
		return nil, err
	}
	s.records.warned = s.sayWarning
	s.configure = &configurator{resolved: o.Resolved, deployment: o.Deployment, cpus: cpus, probe: loaded, keeps: o.PCAP}
	if o.Past != nil {
		s.resume(o.Past)
	}
	if slices.Contains(e.Factors.Affinities, "split") && len(cpus) == 1 {
		s.records.warn(measure.Warning{
			Text: "only one CPU is available, and sources and sinks share it (affinity same): use a machine with 2 CPUs or more",
		})
	}
	why, err := "", s.unbuildable(ctx)
	if err == nil {
		why, err = s.generations(ctx)
	}
	if err == nil {
		err = s.attack(ctx)
	}
	s.vacate()
	if left := o.Deployment.Close(); left != nil {
		s.records.warn(measure.Warning{Text: left.Error() + ": nettoll clean removes what runs leave"})
	}
	w.sleep()
	s.auditFacts()
	s.doubts()
	end := s.end(why, err, ctx.Err() != nil)
	s.records.end(end)
	err = errors.Join(err, s.records.close())
	out := &Outcome{
		Run: run, Log: s.records.log, Analysis: s.records.analyze(), End: end, Interrupted: ctx.Err() != nil,
		Dropped: map[string]string{},
	}
	for i, reason := range s.gone {
		if !left(reason) {
			out.Dropped[s.cells[i].ID] = reason
		}
	}
	if err != nil && (s.blocks == 0 || !out.Interrupted) {
		if s.blocks == 0 {
			err = errors.Join(err, ErrNothingMeasured)
		}
		return out, err
	}
	return out, nil
}

// end makes the record of why the run ended, which the scheduler knows unless there was an error.
func (s *scheduler) end(why string, err error, interrupted bool) measure.End {
	e := measure.End{
		Why: why, Blocks: s.blocks, Generations: len(s.records.log.Generations),
		Trials: len(s.records.log.Trials), Measured: s.measured.Seconds(), Resumed: len(s.records.log.Resumes),
	}
	if e.Resumed == 0 { // what was spent before is not known
		e.Proving = s.proving.Seconds()
	}
	switch {
	case interrupted:
		e.Why, e.Detail = measure.EndInterrupted, "it was interrupted"
	case err != nil:
		e.Why, e.Detail = measure.EndFailed, err.Error()
	case why == measure.EndPrecise:
		e.Detail = "every cell is precise enough"
	case why == measure.EndDecided:
		e.Detail = "everything is decided, or precise enough"
	case why == measure.EndTime:
		e.Detail = "the time is up"
	case why == measure.EndNothing:
		e.Detail = "no cell is left to compare"
	}
	return e
}

// active returns the cells that are still measured.
func (s *scheduler) active() []int {
	var cells []int
	for i := range s.cells {
		if s.gone[i] == "" {
			cells = append(cells, i)
		}
	}
	return cells
}

// visiting returns the visits to cells that are still measured: the members of a mix leave together.
func (s *scheduler) visiting() []int {
	var visits []int
	for v, of := range s.workload.visits {
		if s.gone[of.Cells[0]] == "" {
			visits = append(visits, v)
		}
	}
	return visits
}

// generations goes on until every cell is precise enough, the time is up, or something ends it: it returns
// measure.EndPrecise, …
func (s *scheduler) generations(ctx context.Context) (string, error) {
	plan := s.options.Resolved.LookPlan()
	for g := 0; ; g++ { // counts those measured to their end, however often the run was resumed
		must := g < s.experiment.Design.Generations
		if !must && s.measured >= s.experiment.Design.Time {
			return measure.EndTime, nil
		}
		first := s.blocks
		if s.past != nil && g < len(s.past.Generations) {
			s.recall(s.past.Generations[g])
		} else {
			s.order = rand.New(rand.NewPCG(s.experiment.Design.Seed, 1<<63|uint64(s.next)))
			clear(s.lost)
			clear(s.died)
			clear(s.deaths)
			s.next++
			if err := s.perform(ctx, s.next-1, plan.Blocks, must); err != nil {
				return "", err
			}
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if reason := s.baselines(); reason != nil {
			return "", reason
		}
		if plan.Done(s.blocks - first) {
			now, before := s.records.analyze(), s.blockTime()
			s.settle(s.lookAt(now, plan.Looks))
			s.sayLook(g+1, now)
			s.choose(&plan, now, s.blockTime().Seconds()/before.Seconds())
		}
		if s.done() {
			switch whys := slices.Collect(maps.Values(s.gone)); {
			case slices.Contains(whys, decided):
				return measure.EndDecided, nil
			case slices.Contains(whys, precise):
				return measure.EndPrecise, nil
			}
			return measure.EndNothing, nil
		}
	}
}

// baselines says whether something is left to compare with. A baseline that was lost too often ends the run only if it
// was the last one.
func (s *scheduler) baselines() error {
	var lost error
	left := false
	for i, c := range s.cells {
		switch {
		case c.Baseline != "":
		case !s.failed(c.ID):
			left = true
		case s.missed[c.Lab] < maxMissed:
			return fmt.Errorf("baseline %s: %s", c.ID, s.gone[i])
		case lost == nil:
			lost = fmt.Errorf("baseline %s: %s", c.ID, s.gone[i])
		}
	}
	if left {
		return nil
	}
	return lost
}

// orphan takes cells out of the experiment whose baseline was lost.
func (s *scheduler) orphan() {
	for i, c := range s.cells {
		if c.Baseline != "" && s.gone[i] == "" && s.failed(c.Baseline) {
			s.gone[i] = "its baseline is lost"
			s.records.warn(measure.Warning{
				Cell: c.ID, Text: "not measured any more: its baseline is lost: see why " + c.Baseline + " is not measured",
			})
		}
	}
}

// drop takes a lab's cells out of the experiment.
func (s *scheduler) drop(lab int, reason error) {
	for i, c := range s.cells {
		if c.Lab == lab && s.gone[i] == "" {
			s.gone[i] = reason.Error()
			s.records.warn(measure.Warning{
				Cell: c.ID, Text: fmt.Sprintf("not measured any more (%s): %v", lookFor(s.options.Deployment), reason),
			})
		}
	}
}

// generation builds the labs, measures the blocks and removes the labs. If the experiment makes attacks, the labs stay
// until [scheduler.vacate].
func (s *scheduler) generation(ctx context.Context, number, blocks int, must bool) (err error) {
	s.vacate()
	s.tell("build", number)
	began, measured, first, removing := clock.Now(), s.measured, s.blocks, s.removing
	s.removing = 0
	g, failed, err := s.configure.build(ctx, number, s.active())
	if err != nil {
		return errors.Join(err, joined(failed))
	}
	defer func() {
		if err == nil && ctx.Err() == nil && len(s.experiment.Proof.Attacks) > 0 {
			s.standing = g // until it is known whether it is the last one
			return
		}
		s.remove(g)
	}()
	for _, lab := range slices.Sorted(maps.Keys(failed)) {
		if s.stood[lab] {
			s.lose(g, lab, failed[lab])
		} else {
			s.drop(lab, failed[lab])
		}
	}
	for i, l := range g.labs {
		s.stood[i] = s.stood[i] || l != nil
	}
	s.sayBuilt(g, time.Duration(clock.Now()-began))
	if len(s.records.log.Generations) == 0 {
		if err := s.baselines(); err != nil {
			return err
		}
		if err := s.granted(ctx, g); err != nil {
			return err
		}
		s.records.fact("setup_time", time.Duration(clock.Now()-began).Seconds())
		if err := s.idle(ctx, g); err != nil {
			return err
		}
	}
	s.recordReports(g)
	_ = s.proves(func() error { s.watch(ctx, g); return nil })
	if err := s.proves(func() error { return s.prove(ctx, g, beforeBlocks) }); err != nil {
		return err
	}
	s.beforeTrials(ctx, g)
	// The first generations must be, with a block each; more blocks of theirs than that are left out where they take
	// longer than was expected.
	share, least := s.experiment.Design.Time, 0
	if must {
		share, least = share*time.Duration(len(s.records.log.Generations)+1)/time.Duration(s.experiment.Design.Generations), 1
	}
	for n := range blocks {
		if ctx.Err() != nil || n >= least && s.measured >= share || len(s.visitable(g)) == 0 {
			break
		}
		if err := s.block(ctx, g); err != nil {
			return err
		}
		s.tell("measure", number)
	}
	if err := s.records.endGroup(number, true); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.Join(s.logs(ctx, g), s.records.flush(true))
	}
	s.afterTrials(ctx, g)
	s.recordPassed(g)
	if err := s.proves(func() error { return s.watched(ctx, g) }); err != nil {
		return err
	}
	if err := s.proves(func() error { return s.prove(ctx, g, afterBlocks) }); err != nil {
		return err
	}
	if err := s.logs(ctx, g); err != nil {
		return err
	}
	took := s.measured - measured
	return s.finish(number, s.blocks-first, took, removing+time.Duration(clock.Now()-began)-took)
}

// visitable returns the visits of a block: those to labs that stand, together with that of their baseline.
func (s *scheduler) visitable(g *generation) []int {
	stands := map[string]bool{}
	for _, c := range s.cells {
		stands[c.ID] = g.labs[c.Lab] != nil
	}
	return slices.DeleteFunc(s.visiting(), func(visit int) bool {
		c := s.cells[s.workload.visits[visit].Cells[0]]
		return !stands[c.ID] || c.Baseline != "" && !stands[c.Baseline]
	})
}

func joined(failed map[int]error) error {
	var all []error
	for _, i := range slices.Sorted(maps.Keys(failed)) {
		all = append(all, failed[i])
	}
	return errors.Join(all...)
}

// granted puts what sockets were granted into the records.
func (s *scheduler) granted(ctx context.Context, g *generation) error {
	s.records.fact("congestion_control", s.configure.congestion)
	s.say("congestion control of all cells: %s", s.configure.congestion)
	for _, l := range g.labs {
		if l == nil {
			continue
		}
		facts, err := l.granted(ctx, s.cells)
		if err != nil {
			return err
		}
		s.records.fact("sockets of "+l.ID, facts)
	}
	return nil
}

// block measures one block and keeps it.
func (s *scheduler) block(ctx context.Context, g *generation) error {
	order := s.neighbours(s.visitable(g))
	end, err := s.monitor.block(g.number, s.blocks)
	if err != nil {
		return err
	}
	var trials []trial
	for _, some := range s.stretches(order) {
		var measured []trial
		measured, err = s.visit(ctx, g, some)
		trials = append(trials, measured...)
		if err != nil || ctx.Err() != nil {
			break
		}
	}
	facts := end()
	broken := s.broken(ctx, g, trials)
	for _, t := range trials {
		if l := g.labs[s.cells[t.cell].Lab]; l != nil && t.failure == "" {
			l.carry(s.cells[t.cell], t.samples)
			l.pass(s.cells[t.cell], t)
		}
	}
	for _, visit := range order {
		cell := s.cells[s.workload.visits[visit].Cells[0]]
		if l := g.labs[cell.Lab]; l != nil {
			l.tried += cell.Trial
			l.shortest = min(cmp.Or(l.shortest, cell.Trial), cell.Trial)
		}
	}
	s.measured += time.Duration(facts.Duration * float64(time.Second))
	if len(trials) == 0 && ctx.Err() != nil {
		return nil // interrupted in its first trial: it is no block
	}
	if kept := s.records.block(g.number, s.blocks, trials, facts, s.monitor.started); kept != nil {
		return kept
	}
	s.blocks++
	var f *fault
	if ctx.Err() == nil {
		if err := s.proves(func() error { return s.audit(ctx, g, broken, false) }); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &f):
		f.workers = slices.DeleteFunc(f.workers, func(w *labWorker) bool { // their lab is built once more below
			_, gone := broken[slices.Index(g.labs, w.lab)]
			return gone
		})
		err = s.mend(ctx, g, f)
	}
	if err != nil {
		return err
	}
	if err := s.rebuild(ctx, g, broken); err != nil {
		return err
	}
	s.watchAgain(ctx, g)
	return nil
}

func (s *scheduler) tell(phase string, generation int) {
	if s.options.Observe == nil {
		return
	}
	p := Progress{Phase: phase, Generation: generation, Block: s.blocks, Measured: s.measured, Budget: s.budget}
	p.Goals, p.Closed = s.goals, len(s.closed)
	if s.goals == 0 {
		for _, c := range s.cells {
			if c.Governs() {
				p.Goals++
			}
		}
	}
	for _, g := range s.open {
		if after, known := s.closes(g); known && s.measured+after <= s.budget {
			p.Expected++
		}
	}
	s.options.Observe(p)
}

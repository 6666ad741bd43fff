package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/stack"
)

// The budget of a turn (design, "Turns").
const (
	turnBase  = 200e-6 // s
	turnPair  = 20e-6  // s for each pair
	turnShare = 0.05   // of the trial
)

// turns reads the cost of turns from the records of an ordinary run.
func (b *bench) turns(ctx context.Context) (err error) {
	e := experiment.Base(b.parts.Parts())
	joined, err := b.parts.Kinds.Choose("network", networkName, nil)
	if err != nil {
		return err
	}
	e.Name, e.Baseline.Parts, e.Factors.Pairs = "turns", stack.Stack{joined}, []int{1, 10, 20}
	e.Factors.Placements = []experiment.Placement{experiment.SameHost}
	e.Design.Precision = 1e-4 // this precision is never reached: the run goes on to its end
	e.Tune = experiment.Tune{Congestion: congestion, MTU: mtu}
	for _, w := range []string{"udp-rr(payload=64,mode=wait)", "tcp-stream"} {
		load, err := experiment.ParseLoad(w)
		if err != nil {
			return err
		}
		e.Workloads = append(e.Workloads, load)
	}
	cpus, err := thread.CPUs()
	if err != nil {
		return err
	}
	resolved, err := experiment.Resolve(e, b.parts.Parts(), len(cpus))
	if err != nil {
		return err
	}
	// Each of its generations has at least one block. It has more only if the trials are short.
	var block time.Duration
	for _, c := range resolved.Cells {
		block += c.Trial
	}
	resolved.Experiment.Design.Time = time.Duration(b.blocks) * block * 11 / 10
	dir, err := os.MkdirTemp("", "nettoll-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b.say("turns: %d cells, a block takes %v", len(resolved.Cells), block)
	out, err := control.Run(ctx, control.Options{
		Resolved: resolved, Dir: dir, Deployment: &local.Deployment{},
	})
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(dir, control.RecordsFile))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	log, problems, err := measure.Read(f)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("read records: %v", problems)
	}
	b.turnRows(out.Run, log)
	return nil
}

// A turn is the cost of the trials of one workload with one number of pairs.
type turn struct {
	workload    string
	pairs       int
	trial       float64 // s
	dead, drain []float64
	failed      int
}

// turnRows adds a row for each workload and number of pairs. Baseline and twin count together.
func (b *bench) turnRows(run measure.Run, log *measure.Log) {
	var turns []*turn
	byCell := map[string]*turn{}
	for _, c := range run.Cells {
		i := slices.IndexFunc(turns, func(t *turn) bool { return t.workload == c.Workload && t.pairs == c.Pairs })
		if i < 0 {
			i = len(turns)
			turns = append(turns, &turn{workload: c.Workload, pairs: c.Pairs, trial: run.Design.TrialSeconds[c.ID]})
		}
		byCell[c.ID] = turns[i]
	}
	for _, t := range log.Trials {
		if t.Failed != "" {
			byCell[t.Cell].failed++
			continue
		}
		byCell[t.Cell].dead = append(byCell[t.Cell].dead, t.Metrics["dead_time"])
		byCell[t.Cell].drain = append(byCell[t.Cell].drain, t.Metrics["drain_time"])
	}
	for _, t := range turns {
		slices.Sort(t.dead)
		dead := measure.Median(t.dead)
		limit := min(turnBase+turnPair*float64(t.pairs), turnShare*t.trial)
		b.table.add(row{
			what: fmt.Sprintf("dead time between trials: %s, pairs: %d", t.workload, t.pairs),
			ours: fmt.Sprintf("%s (90 %%: %s), %.2f %% of a trial of %s; drain %s", duration(dead),
				duration(quantile(t.dead, 0.9)), 100*dead/t.trial, duration(t.trial), duration(measure.Median(t.drain))),
			goal: fmt.Sprintf("median %s, 5 %% of a trial", duration(turnBase+turnPair*float64(t.pairs))),
			met:  within(dead, limit),
		})
		if t.failed > 0 {
			b.table.note("turns: %d trials of %s with %d pairs failed", t.failed, t.workload, t.pairs)
		}
	}
}

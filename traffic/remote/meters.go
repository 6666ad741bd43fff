package remote

import (
	"context"
	"slices"
	"time"

	"github.com/nettoll/nettoll/traffic"
)

// meterLimit is how long a meter may take. One that takes longer, or fails, is not read again in the same block: trials
// do not wait for it.
const meterLimit = time.Second

// A meter reads a machine.
type meter struct {
	machine string
	read    traffic.Meter
	lost    bool // in this block
}

// Meter has the turn read a machine before and after each trial, see [traffic.Timing.Metered]. Another meter with the
// same name takes the place of the first one. It must not be called while a block runs.
func (t *Turns) Meter(machine string, read traffic.Meter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.meters {
		if m.machine == machine {
			m.read, m.lost = read, false
			return
		}
	}
	t.meters = append(t.meters, &meter{machine: machine, read: read})
}

// At implements [traffic.Metering].
func (t *Turns) At(number int, machine string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.workers[number]; w != nil {
		w.machine = machine
	}
}

// metersOf returns the meters of the machines on which workers are; all, if that is known of none.
func (t *Turns) metersOf(workers []*worker) (list []*meter) {
	for _, m := range t.meters {
		if slices.ContainsFunc(workers, func(w *worker) bool { return w.machine == m.machine }) {
			list = append(list, m)
		}
	}
	if !slices.ContainsFunc(workers, func(w *worker) bool { return w.machine != "" }) {
		return t.meters
	}
	return list
}

// readAll begins to read all meters at the same time. The function that it returns waits for the readings; one is nil
// if its meter did not answer.
func readAll(ctx context.Context, meters []*meter) func() []*traffic.Reading {
	list := make([]*traffic.Reading, len(meters))
	if len(meters) == 0 {
		return func() []*traffic.Reading { return list }
	}
	type answer struct {
		i       int
		reading traffic.Reading
		err     error
	}
	ctx, cancel := context.WithTimeout(ctx, meterLimit)
	answers, asked := make(chan answer, len(meters)), 0
	for i, m := range meters {
		if m.lost {
			continue
		}
		asked++
		go func() {
			r, err := m.read(ctx)
			answers <- answer{i, r, err}
		}()
	}
	return func() []*traffic.Reading {
		defer cancel()
		for range asked {
			a := <-answers // calls end with their context
			if a.err != nil {
				meters[a.i].lost = true
				continue
			}
			list[a.i] = &a.reading
		}
		return list
	}
}

// since returns what was counted between two readings of meters.
func since(meters []*meter, before, after []*traffic.Reading) (list []traffic.Metered) {
	for i, m := range meters {
		if before[i] != nil && after[i] != nil && before[i].Clock == after[i].Clock {
			list = append(list, traffic.Metered{Machine: m.machine, Reading: after[i].Since(*before[i])})
		}
	}
	return list
}

package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// A Report is what the steps of a host report while they are applied and measured.
type Report struct {
	// Implementations name who does the work, by kind of part, if that was only known after the step was applied:
	// {"network": "ovs (userspace datapath)"}.
	Implementations map[string]string `json:"implementations,omitempty"`
	// Metrics are the costs of building and changing, in base units, by the names of package measure:
	// {"rules_load_time": 0.12}.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// Doubts are reasons to mistrust a figure.
	Doubts []string `json:"doubts,omitempty"`
	// Facts describe the links of the host and of its first container, see [Stack.Facts]. Only [Host.MeasureCost]
	// returns them.
	Facts map[string]string `json:"facts,omitempty"`
	// Programs are the running programs.
	Programs []ProgramState `json:"programs,omitempty"`
	// Joined are processes of the machine that belong to the host, see [Kernel.Joined].
	Joined []int `json:"joined,omitempty"`
}

// A CostMeter is a step that measures the cost of changing it, after everything is applied and before traffic flows. It
// undoes its changes and reports the cost with [Kernel.Metric].
type CostMeter interface {
	Step
	MeasureCost(ctx context.Context, k *Kernel) error
}

// A RuleUpdate is one update of a rule of a filter, see [Host.UpdateRule].
type RuleUpdate struct {
	// Began is the time of its beginning, in ns of CLOCK_MONOTONIC, which is common to all hosts of one kernel, but not
	// to others.
	Began int64 `json:"began"`
	// Took is the time until the change had returned.
	Took time.Duration `json:"took"`
}

// A RuleUpdater makes a step allow one kind of packet that it otherwise refuses, or refuse it again. It returns known
// == false for a kind of step that it cannot update.
type RuleUpdater func(k *Kernel, s Step, allow bool) (known bool, err error)

// Metric reports a cost. It overwrites an earlier value of the same name.
func (k *Kernel) Metric(name string, value float64) {
	k.note(name, func(float64) float64 { return value })
}

// note changes a value, which is 0 at first.
func (k *Kernel) note(name string, change func(before float64) float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.report.Metrics == nil {
		k.report.Metrics = map[string]float64{}
	}
	k.report.Metrics[name] = change(k.report.Metrics[name])
}

// Implementation reports who does the work of the part of that kind.
func (k *Kernel) Implementation(kind, who string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.report.Implementations == nil {
		k.report.Implementations = map[string]string{}
	}
	k.report.Implementations[kind] = who
}

// Doubt reports a reason to mistrust a figure.
func (k *Kernel) Doubt(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report.Doubts = append(k.report.Doubts, fmt.Sprintf(format, args...))
}

// Report returns what was reported, and the running programs.
func (k *Kernel) Report() Report {
	programs := k.Programs()
	k.mu.Lock()
	defer k.mu.Unlock()
	return Report{
		Implementations: maps.Clone(k.report.Implementations), Metrics: maps.Clone(k.report.Metrics),
		Doubts: append([]string(nil), k.report.Doubts...), Programs: programs, Joined: slices.Clone(k.report.Joined),
	}
}

// Load calls f, which loads rules or entries into the kernel. It reports how long that took (s) and by how much kernel
// memory grew (bytes), as PREFIX_load_time and PREFIX_memory; later calls with the same prefix add to both. Memory is
// machine-wide: slab, vmalloc and per-CPU areas (/proc/meminfo). A growth below 100 kB is not significant.
func (k *Kernel) Load(prefix string, f func() error) error {
	before, known := procfs.KernelMemory()
	began := time.Now()
	if err := f(); err != nil {
		return err
	}
	add := func(name string, value float64) {
		k.note(prefix+name, func(before float64) float64 { return before + value })
	}
	add("_load_time", time.Since(began).Seconds())
	if after, still := procfs.KernelMemory(); known && still {
		add("_memory", float64(max(0, after-before)))
	}
	return nil
}

// MeasureCost calls MeasureCost of every step that is a [CostMeter], in order.
func (s *Stack) MeasureCost(ctx context.Context, k *Kernel) error {
	for _, a := range s.applied {
		m, ok := a.Step.(CostMeter)
		if !ok {
			continue
		}
		if err := m.MeasureCost(ctx, k); err != nil {
			return fmt.Errorf("measure the cost of step %d (%s): %w", a.Number, a.Step, err)
		}
	}
	return nil
}

// UpdateRule calls by for every step. It is an error if by knows none of them.
func (s *Stack) UpdateRule(k *Kernel, allow bool, by RuleUpdater) (RuleUpdate, error) {
	began, some := clock.Now(), false
	for _, a := range s.applied {
		known, err := by(k, a.Step, allow)
		if err != nil {
			return RuleUpdate{}, fmt.Errorf("update rule of step %d (%s): %w", a.Number, a.Step, err)
		}
		some = some || known
	}
	if !some {
		return RuleUpdate{}, errors.New("update rule: no step has rules that can be updated")
	}
	return RuleUpdate{Began: began, Took: time.Duration(clock.Now() - began)}, nil
}

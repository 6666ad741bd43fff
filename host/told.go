package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// Told is what the steps of a host have to tell once they stand.
type Told struct {
	// Implementations say who does the work, by kind of part, where that was found out when it was applied: {"network":
	// "ovs (userspace datapath)"}.
	Implementations map[string]string `json:"implementations,omitempty"`
	// Metrics are what building and changing cost, in base units, by the names of package measure: {"rules_load_time":
	// 0.12}.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// Doubts are what a reader should know.
	Doubts []string `json:"doubts,omitempty"`
	// Facts are what the links of the host and of its first container are, see [Stack.Facts]. They are told with what was
	// measured.
	Facts map[string]string `json:"facts,omitempty"`
	// Programs are those that run.
	Programs []ProgramState `json:"programs,omitempty"`
}

// A CostMeter is a step that, once everything stands and before traffic flows, measures what changing it costs. What it
// changes it puts back. It notes what it finds by [Kernel.Metric].
type CostMeter interface {
	Step
	MeasureCost(ctx context.Context, k *Kernel) error
}

// A RuleUpdate is one update of a rule of a filter, see [Host.UpdateRule].
type RuleUpdate struct {
	// Began is when it began, ns of CLOCK_MONOTONIC: all hosts of one kernel have the same, and no others.
	Began int64 `json:"began"`
	// Took is how long it was until the change had returned.
	Took time.Duration `json:"took"`
}

// A RuleUpdater lets a step that it knows pass what it refuses otherwise, or refuse it again, and says whether it knows
// the step.
type RuleUpdater func(k *Kernel, s Step, allow bool) (known bool, err error)

// Metric notes what something cost. Of the same name the later counts.
func (k *Kernel) Metric(name string, value float64) {
	k.note(name, func(float64) float64 { return value })
}

// note changes a figure, which is 0 before.
func (k *Kernel) note(name string, change func(before float64) float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.told.Metrics == nil {
		k.told.Metrics = map[string]float64{}
	}
	k.told.Metrics[name] = change(k.told.Metrics[name])
}

// Implementation notes who does the work of the part of a kind.
func (k *Kernel) Implementation(kind, who string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.told.Implementations == nil {
		k.told.Implementations = map[string]string{}
	}
	k.told.Implementations[kind] = who
}

// Doubt notes what a reader should know.
func (k *Kernel) Doubt(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told.Doubts = append(k.told.Doubts, fmt.Sprintf(format, args...))
}

// Told returns what was noted, and the programs that run.
func (k *Kernel) Told() Told {
	programs := k.Programs()
	k.mu.Lock()
	defer k.mu.Unlock()
	return Told{
		Implementations: maps.Clone(k.told.Implementations), Metrics: maps.Clone(k.told.Metrics),
		Doubts: append([]string(nil), k.told.Doubts...), Programs: programs,
	}
}

// Load calls f, which puts rules or entries into the kernel, and notes how long that took (s) and how much more memory
// the kernel has in use after it (bytes), as PREFIX_load_time and PREFIX_memory. Later calls with the same prefix add
// to both. Memory is that of the whole machine: slab, vmalloc and per-CPU areas (/proc/meminfo). A change below a
// hundred kilobytes says nothing.
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

// MeasureCost asks every step that can for what changing it costs, in order.
func (s *Stack) MeasureCost(ctx context.Context, k *Kernel) error {
	for _, a := range s.applied {
		m, ok := a.Step.(CostMeter)
		if !ok {
			continue
		}
		if err := m.MeasureCost(ctx, k); err != nil {
			return fmt.Errorf("measure step %d (%s): %w", a.Number, a.Step, err)
		}
	}
	return nil
}

// UpdateRule has those of the steps changed that by knows. It is an error where there are none.
func (s *Stack) UpdateRule(k *Kernel, allow bool, by RuleUpdater) (RuleUpdate, error) {
	began, some := clock.Now(), false
	for _, a := range s.applied {
		known, err := by(k, a.Step, allow)
		if err != nil {
			return RuleUpdate{}, fmt.Errorf("change step %d (%s): %w", a.Number, a.Step, err)
		}
		some = some || known
	}
	if !some {
		return RuleUpdate{}, errors.New("change what stands: no step can be changed so")
	}
	return RuleUpdate{Began: began, Took: time.Duration(clock.Now() - began)}, nil
}

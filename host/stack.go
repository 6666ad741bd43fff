package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
)

// A Stack holds the steps that were applied to a kernel, so that they can be verified and undone. The zero value is an
// empty stack. It is not safe for use by several goroutines. Undo it before its [Kernel] is closed.
//
// As JSON it holds everything that another process needs to undo it: see [Stack.MarshalJSON] and [Decoder.Stack].
type Stack struct {
	applied []*applied
	times   []*StepTime // of every step that was applied, also of those that are gone
}

// applied is a step that was applied.
type applied struct {
	Number int // in its plan, from 1
	Step   Step
	Kept   json.RawMessage // what it has kept; nil if nothing
	Note   string          // its ID in the journal; "" if it ends with its namespaces
	held   []io.Closer     // what this process has open for it

	withdrawn bool // temporarily removed, see [Stack.Withdraw]
	took      StepTime
}

// A StepTime says when a step was applied and removed the last time; zero if it was not.
type StepTime struct {
	Apply  Span `json:"apply,omitzero"`
	Remove Span `json:"remove,omitzero"`
}

// A Span is a time that something took.
type Span struct {
	// Began is the time of its beginning, in ns of CLOCK_MONOTONIC.
	Began int64         `json:"began"`
	Took  time.Duration `json:"took"`
}

// since is the span from its beginning until now.
func since(began int64) Span { return Span{began, time.Duration(clock.Now() - began)} }

// A FirstUndone is a step whose undoing ends containers. A [Stack] undoes such steps together, before all others: the
// kernel then removes the links of many containers at once, instead of 20 ms for each.
type FirstUndone interface {
	Step
	UndoneFirst()
}

// view returns the kernel for a step that is applied or removed.
func (k *Kernel) view(a *applied) *Kernel { return &Kernel{opened: k.opened, at: a} }

// Apply applies all steps of p in order; neighbours of one kind may be applied at the same time, see [Concurrent]. If a
// step fails, the steps of this call are undone, and the error has the number and the text of the step.
func (s *Stack) Apply(ctx context.Context, k *Kernel, p Plan) error {
	all := make([]*applied, len(p.Steps))
	for i, step := range p.Steps {
		all[i] = &applied{Number: i + 1, Step: step}
	}
	var now Stack
	for left := all; len(left) > 0; {
		group := left[:together(left)]
		left = left[len(group):]
		var failed error
		for i, err := range atOnce(group, false, func(a *applied) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return a.apply(ctx, k)
		}) {
			switch {
			case err == nil:
				now.applied = append(now.applied, group[i])
			case failed == nil:
				failed = fmt.Errorf("apply step %d of %d (%s): %w", group[i].Number, len(all), group[i].Step, err)
			}
		}
		if failed == nil {
			continue
		}
		if err := now.Undo(context.WithoutCancel(ctx), k); err != nil {
			failed = errors.Join(failed, err)
			s.applied = append(s.applied, now.applied...) // for another attempt
		}
		return failed
	}
	s.applied = append(s.applied, now.applied...)
	for _, a := range now.applied {
		s.times = append(s.times, &a.took)
	}
	return nil
}

// Times returns when the steps that were applied until now were applied and removed, in order. Those that were removed
// since are among them.
func (s *Stack) Times() []StepTime {
	times := make([]StepTime, len(s.times))
	for i, t := range s.times {
		times[i] = *t
	}
	return times
}

// apply applies a step. It first notes the step in the journal if it outlives namespaces. A step that fails has left
// nothing.
func (a *applied) apply(ctx context.Context, k *Kernel) error {
	if outlives(a.Step) > WithNamespaces {
		step, err := encode(a.Step)
		if err != nil {
			return err
		}
		id := rand.Text()
		if err := k.write(Note{ID: id, Step: step}); err != nil {
			return err
		}
		a.Note = id
	}
	began := clock.Now()
	err := a.Step.Apply(ctx, k.view(a))
	a.took.Apply = since(began)
	if err != nil && a.Note != "" {
		// The step's own cleanup may have failed: the journal forgets the step only when nothing is left.
		return errors.Join(err, a.remove(context.WithoutCancel(ctx), k))
	}
	if err != nil {
		return errors.Join(err, a.release())
	}
	return nil
}

// remove undoes a step, closes what is open for it, and notes that nothing of it is left.
func (a *applied) remove(ctx context.Context, k *Kernel) error {
	began := clock.Now()
	if err := a.Step.Remove(ctx, k.view(a)); err != nil {
		return err
	}
	a.took.Remove = since(began)
	return errors.Join(a.release(), a.strike(k))
}

// release closes what this process has open for the step.
func (a *applied) release() error {
	var errs []error
	for _, c := range a.held {
		errs = append(errs, c.Close())
	}
	a.held = nil
	return errors.Join(errs...)
}

// strike notes in the journal that nothing is left of the step.
func (a *applied) strike(k *Kernel) error {
	if a.Note == "" {
		return nil
	}
	return k.write(Note{ID: a.Note, Removed: true})
}

// maxErrors limits the number of errors in a list: if a bridge is gone, so are its hundreds of ports.
const maxErrors = 10

// Verify checks that the kernel still has everything that was applied. The error lists up to ten steps that differ,
// each as a [DriftError].
func (s *Stack) Verify(ctx context.Context, k *Kernel) error {
	var errs []error
	more := 0
	last := map[Sysctl]int{} // the last step for a variable: a filter may switch on what its network has switched off
	for i, a := range s.applied {
		if v, ok := a.Step.(Sysctl); ok {
			last[Sysctl{NS: v.NS, Key: v.Key}] = i
		}
	}
	for i, a := range s.applied {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		if v, ok := a.Step.(Sysctl); ok && last[Sysctl{NS: v.NS, Key: v.Key}] != i {
			continue
		}
		if err := a.Step.Verify(k.view(a)); err == nil {
			continue
		} else if len(errs) < maxErrors {
			errs = append(errs, fmt.Errorf("verify step %d: %w", a.Number, err))
		} else {
			more++
		}
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d more steps", more))
	}
	return errors.Join(errs...)
}

// Undo removes everything that was applied: first steps that end containers ([FirstUndone]), then the others, last
// applied first. It succeeds for steps whose effects are gone. Steps that could not be undone stay on the stack.
func (s *Stack) Undo(ctx context.Context, k *Kernel) error {
	var errs []error
	failed := map[*applied]bool{}
	for _, first := range []bool{true, false} {
		var left []*applied
		for _, a := range slices.Backward(s.applied) {
			if _, is := a.Step.(FirstUndone); is == first && !a.withdrawn {
				left = append(left, a)
			}
		}
		for len(left) > 0 {
			group := left[:together(left)]
			left = left[len(group):]
			for i, err := range atOnce(group, true, func(a *applied) error { return a.remove(ctx, k) }) {
				if err != nil {
					failed[group[i]] = true
					errs = append(errs, fmt.Errorf("undo step %d (%s): %w", group[i].Number, group[i].Step, err))
				}
			}
		}
	}
	s.applied = slices.DeleteFunc(s.applied, func(a *applied) bool { return !failed[a] })
	return errors.Join(errs...)
}

// Release closes what this process has open for the steps, and empties the stack. It removes nothing: a process that
// has the stack as JSON can do that.
func (s *Stack) Release() error {
	var errs []error
	for _, a := range s.applied {
		errs = append(errs, a.release())
	}
	s.applied, s.times = nil, nil
	return errors.Join(errs...)
}

// Len returns the number of applied steps.
func (s *Stack) Len() int { return len(s.applied) }

// wire is an applied step in JSON.
type wire struct {
	Number int             `json:"number"`
	Step   json.RawMessage `json:"step"`
	Kept   json.RawMessage `json:"kept,omitempty"`
	Note   string          `json:"note,omitempty"`
}

// MarshalJSON writes the list of applied steps, in order, each with what it has kept.
func (s Stack) MarshalJSON() ([]byte, error) {
	list := make([]wire, len(s.applied))
	for i, a := range s.applied {
		step, err := encode(a.Step)
		if err != nil {
			return nil, fmt.Errorf("encode applied steps: step %d (%s): %w", a.Number, a.Step.Kind(), err)
		}
		list[i] = wire{Number: a.Number, Step: step, Kept: a.Kept, Note: a.Note}
	}
	return json.Marshal(list)
}

// Stack reads what [Stack.MarshalJSON] wrote: the steps of another process, to be undone in this one. Unknown kinds and
// unknown fields are errors.
func (d Decoder) Stack(data []byte) (*Stack, error) {
	var list []wire
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("decode applied steps: %w", err)
	}
	s := &Stack{}
	for i, w := range list {
		step, err := d.Step(w.Step)
		if err != nil {
			return nil, fmt.Errorf("decode applied steps: step %d of %d: %w", i+1, len(list), err)
		}
		s.applied = append(s.applied, &applied{Number: w.Number, Step: step, Kept: w.Kept, Note: w.Note})
	}
	return s, nil
}

// Restore returns a stack with one step from the journal of a dead host. note is its last state: the step, and what it
// has kept.
func (d Decoder) Restore(note Note) (*Stack, error) {
	step, err := d.Step(note.Step)
	if err != nil {
		return nil, fmt.Errorf("decode a step of a journal: %w", err)
	}
	return &Stack{applied: []*applied{{Number: 1, Step: step, Kept: note.Kept, Note: note.ID}}}, nil
}

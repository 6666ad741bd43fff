package host

import (
	"context"
	"errors"
	"fmt"
)

// A Stack is what has been applied to a kernel, so that it can be verified and undone. The zero value is an empty
// stack. It is not safe for use by several goroutines. Undo it before its [Kernel] is closed.
type Stack struct{ applied []applied }

type applied struct {
	number int // in its plan, from 1
	step   Step
	undo   func() error
}

// A FirstUndone is a step whose undoing ends containers with all they hold. A [Stack] undoes such steps before all others,
// together: the kernel then removes the links of many containers in one go, where one by one each would cost 20 ms.
type FirstUndone interface {
	Step
	UndoneFirst()
}

// Apply applies all steps of p in order. On an error what this call had applied is undone again, and the error names the
// number and the text of the step.
func (s *Stack) Apply(ctx context.Context, k *Kernel, p Plan) error {
	var now Stack
	for i, step := range p.Steps {
		err := ctx.Err()
		if err == nil {
			var undo func() error
			if undo, err = step.Apply(k); err == nil {
				now.applied = append(now.applied, applied{number: i + 1, step: step, undo: undo})
				continue
			}
		}
		err = fmt.Errorf("apply step %d of %d (%s): %w", i+1, len(p.Steps), step, err)
		if uerr := now.Undo(); uerr != nil {
			err = errors.Join(err, uerr)
			s.applied = append(s.applied, now.applied...) // for another try
		}
		return err
	}
	s.applied = append(s.applied, now.applied...)
	return nil
}

// maxErrors bounds what one error lists: when a bridge is gone, so are its hundreds of ports.
const maxErrors = 10

// Verify asks the kernel whether everything that was applied still stands. The error lists up to ten steps with
// which it does not agree, each a [DriftError].
func (s *Stack) Verify(ctx context.Context, k *Kernel) error {
	var errs []error
	more := 0
	last := map[Sysctl]int{} // step that has the say of a variable: a filter may turn on what its network has turned off
	for i, a := range s.applied {
		if v, ok := a.step.(Sysctl); ok {
			last[Sysctl{NS: v.NS, Key: v.Key}] = i
		}
	}
	for i, a := range s.applied {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		if v, ok := a.step.(Sysctl); ok && last[Sysctl{NS: v.NS, Key: v.Key}] != i {
			continue
		}
		if err := a.step.Verify(k); err == nil {
			continue
		} else if len(errs) < maxErrors {
			errs = append(errs, fmt.Errorf("verify step %d: %w", a.number, err))
		} else {
			more++
		}
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d steps more", more))
	}
	return errors.Join(errs...)
}

// Undo removes everything that was applied: what ends containers first ([FirstUndone]), then the rest, each from the top.
// Undoing what is gone succeeds. What could not be undone stays on the stack, for another try.
func (s *Stack) Undo() error {
	var errs []error
	failed := make([]bool, len(s.applied))
	for _, first := range []bool{true, false} {
		for i := len(s.applied) - 1; i >= 0; i-- {
			a := s.applied[i]
			if _, is := a.step.(FirstUndone); is != first {
				continue
			}
			if err := a.undo(); err != nil {
				failed[i] = true
				errs = append(errs, fmt.Errorf("undo step %d (%s): %w", a.number, a.step, err))
			}
		}
	}
	var left []applied
	for i, a := range s.applied {
		if failed[i] {
			left = append(left, a)
		}
	}
	s.applied = left
	return errors.Join(errs...)
}

// Len is the number of steps that are applied.
func (s *Stack) Len() int { return len(s.applied) }

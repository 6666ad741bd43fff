package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Keep saves, as JSON, what the step has found out and its Remove needs. A later call overwrites an earlier one. A step
// that makes something that outlives namespaces ([Outliving]) calls Keep before it changes anything that it could not
// restore otherwise. Keep then also writes to the journal. It works only in a [Stack].
func (k *Kernel) Keep(found any) error {
	if k.at == nil {
		return errors.New("save the state of a step: it was not applied by a stack")
	}
	kept, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("save the state of a step: %w", err)
	}
	if k.at.Note != "" {
		if err := k.write(Note{ID: k.at.Note, Kept: kept}); err != nil {
			return err
		}
	}
	k.at.Kept = kept
	return nil
}

// Kept reads what Keep saved for the step, and reports whether it saved anything.
func (k *Kernel) Kept(found any) (bool, error) {
	if k.at == nil || len(k.at.Kept) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(k.at.Kept, found); err != nil {
		return false, fmt.Errorf("read the saved state of the step: %w", err)
	}
	return true, nil
}

// Hold gives the stack something that this process has open for the step, such as file descriptors of programs. The
// stack closes it after the step is removed, or in [Stack.Release]. Other processes do not have it, so Remove must not
// rely on it.
func (k *Kernel) Hold(c io.Closer) error {
	if k.at == nil {
		return errors.New("hold the resources of a step: it was not applied by a stack")
	}
	k.at.held = append(k.at.held, c)
	return nil
}

// A Lifetime is the lifetime of what a step has made, if it is not removed.
type Lifetime int

// The lifetimes.
const (
	// WithNamespaces ends with the namespaces of its host.
	WithNamespaces Lifetime = iota
	// UntilBoot stays until somebody removes it, or the machine boots: a cgroup, a mount, a NIC that was moved.
	UntilBoot
	// UntilRemoved stays on disk.
	UntilRemoved
)

// An Outliving step can make something that outlives the namespaces of its host. The run's [Journal] records the step
// before it is applied, and what the step saves before it changes anything. So `nettoll clean` can remove it after the
// run has ended.
type Outliving interface {
	Step
	Outlives() Lifetime
}

// Outlives reports whether a step of the plan makes something that outlives namespaces.
func (p Plan) Outlives() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return outlives(s) > WithNamespaces })
}

// A Grouping is a step that makes cgroups. Its host has those of the machine.
type Grouping interface {
	Step
	Groups()
}

// Groups reports whether a step of the plan makes cgroups.
func (p Plan) Groups() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		_, is := s.(Grouping)
		return is
	})
}

// outlives returns the lifetime of what a step makes.
func outlives(s Step) Lifetime {
	if o, ok := s.(Outliving); ok {
		return o.Outlives()
	}
	return WithNamespaces
}

// A Journal records what outlives namespaces before it is made. Its methods may be called from several goroutines.
type Journal interface {
	// Write writes the note to the file before it returns: the process can be killed at any moment.
	Write(n Note) error
}

// A Note is a line of a journal about a step: that it is about to be applied, what it has kept, or that it is
// removed.
type Note struct {
	// ID identifies a step within a journal.
	ID string `json:"id"`
	// Step is the step, as in plans; it is about to be applied.
	Step json.RawMessage `json:"step,omitempty"`
	// Kept is what the step has kept; it is about to change something.
	Kept json.RawMessage `json:"kept,omitempty"`
	// Removed is true if nothing of the step is left.
	Removed bool `json:"removed,omitempty"`
}

// write writes to the journal.
func (k *Kernel) write(n Note) error {
	if k.journal == nil {
		return errors.New("what it creates outlives its host, and no journal was given")
	}
	if err := k.journal.Write(n); err != nil {
		return fmt.Errorf("write it to the journal of the run: %w", err)
	}
	return nil
}

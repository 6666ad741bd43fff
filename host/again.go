package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

// A Rekeyer is a step whose keys can be renewed while packets pass.
type Rekeyer interface {
	Step
	// Rekey renews the keys of packets, and returns when the new keys are in use. Of two hosts, one begins; the step
	// knows which. Rekey is called on all hosts of a lab at the same time with stage 0, then with stage 1 and so on, as
	// long as a host returns more. So two ends without other coordination can renew keys step by step. The error is a
	// [linux.UnsupportedError] if no keys can be renewed. It is another error if the keys are not new.
	Rekey(ctx context.Context, k *Kernel, stage int) (more bool, err error)
}

// Rekey calls Rekey of every step that is a [Rekeyer]. The error is a [linux.UnsupportedError] if none is.
func (s *Stack) Rekey(ctx context.Context, k *Kernel, stage int) (more bool, err error) {
	some := false
	for _, a := range s.applied {
		r, ok := a.Step.(Rekeyer)
		if !ok || a.withdrawn {
			continue
		}
		some = true
		again, err := r.Rekey(ctx, k.view(a), stage)
		if err != nil {
			return false, fmt.Errorf("renew the keys of step %d (%s): %w", a.Number, a.Step, err)
		}
		more = more || again
	}
	if !some {
		return false, &linux.UnsupportedError{What: "renew keys", Missing: "a step that has keys"}
	}
	return more, nil
}

// Withdraw removes the steps of a plan, last first, and leaves all other steps. [Stack.Restore] applies them again, in
// their places. It is an error if a step of the plan was not applied. If a step cannot be removed, the steps before it
// stay.
func (s *Stack) Withdraw(ctx context.Context, k *Kernel, p Plan) error {
	var chosen []*applied
	for _, step := range p.Steps {
		i := slices.IndexFunc(s.applied, func(a *applied) bool {
			return !a.withdrawn && !slices.Contains(chosen, a) && reflect.DeepEqual(a.Step, step)
		})
		if i < 0 {
			return fmt.Errorf("withdraw %q: it is not applied", step)
		}
		chosen = append(chosen, s.applied[i])
	}
	for _, a := range slices.Backward(s.applied) {
		if !slices.Contains(chosen, a) {
			continue
		}
		if err := a.remove(ctx, k); err != nil {
			return fmt.Errorf("withdraw step %d (%s): %w", a.Number, a.Step, err)
		}
		a.withdrawn, a.Kept, a.Note = true, nil, ""
	}
	return nil
}

// Restore applies the withdrawn steps again. If a step fails, it and the steps after it stay withdrawn.
func (s *Stack) Restore(ctx context.Context, k *Kernel) error {
	for _, a := range s.applied {
		if !a.withdrawn {
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = a.apply(ctx, k)
		}
		if err != nil {
			return fmt.Errorf("restore step %d (%s): %w", a.Number, a.Step, err)
		}
		a.withdrawn = false
	}
	return nil
}

// Kill kills all programs that were started and not stopped, as if each had crashed, and waits until they are gone.
func (k *Kernel) Kill() error {
	k.mu.Lock()
	programs := slices.Clone(k.programs)
	k.mu.Unlock()
	for _, r := range programs {
		if r.isStopped() {
			continue
		}
		if err := r.cmd.Process.Signal(syscall.SIGKILL); err != nil && r.Died() == nil {
			return fmt.Errorf("kill %s: %w", r.program.Name, err)
		}
		select {
		case <-r.done:
		case <-time.After(killing):
			return errors.New("kill " + r.program.Name + ": it does not end")
		}
	}
	return nil
}

// killing is how long a killed program may take to end on a busy CPU.
const killing = 10 * time.Second

// A ProgramUse holds the resources that a started program has used so far.
type ProgramUse struct {
	Name string `json:"name"`
	// CPU is the run time of all of its threads.
	CPU time.Duration `json:"cpu"`
	// Memory is the program's share of memory in bytes; pages that several processes share count in parts (PSS in
	// /proc/PID/smaps_rollup). It is 0 if that cannot be read.
	Memory int64 `json:"memory,omitempty"`
}

// Use returns what the running programs have used. With memory, the kernel walks their page tables.
func (k *Kernel) Use(memory bool) []ProgramUse {
	list := []ProgramUse{}
	for _, p := range k.Programs() {
		if p.Died != "" {
			continue
		}
		u := ProgramUse{Name: p.Name, CPU: process.RunTime(p.PID)}
		if memory {
			u.Memory, _ = procfs.Proportional(p.PID) // 0 means unknown
		}
		list = append(list, u)
	}
	return list
}

package netns

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
)

// Group makes control groups for the workers of a host, one for each, in the first level of each hierarchy, where runc
// has those of its containers. Otherwise workers are in the group of nettoll. Two things depend on that
// (kernel/sched/fair.c): what a thread that sleeps and wakes up costs, because the scheduler goes through all groups
// above it (for_each_sched_entity), and what a thread gets of a CPU that others use, too, because the threads of a
// group, or of a session without one (sched(7), autogroup), share its weight.
type Group struct{}

// made is what the step keeps. The groups outlive the host.
type made struct {
	Cgroups []string `json:"cgroups"`
}

// Kind returns "worker-group".
func (Group) Kind() string { return "worker-group" }

// String describes the step in plain words.
func (Group) String() string { return "control groups of workers" }

// Groups makes Group a [host.Grouping].
func (Group) Groups() {}

// Outlives returns UntilBoot: cgroups belong to the machine.
func (Group) Outlives() host.Lifetime { return host.UntilBoot }

// UndoneFirst makes Group a [host.FirstUndone]: workers end with it.
func (Group) UndoneFirst() {}

// Apply makes the groups, and puts workers into them that start from now on: the sources' and the sinks'.
func (Group) Apply(_ context.Context, k *host.Kernel) error {
	name := "nettoll-" + strings.ToLower(rand.Text()) // which nobody else has
	m := made{[]string{name + "-1", name + "-2"}}
	if err := k.Keep(m); err != nil {
		return err
	}
	for _, name := range m.Cgroups {
		if err := cgroup.MakeLeaf(name); err != nil {
			return errors.Join(err, m.remove())
		}
	}
	k.GroupWorkers(m.Cgroups)
	return nil
}

// remove ends what is left in the groups, and removes them.
func (m made) remove() error {
	var errs []error
	for _, name := range m.Cgroups {
		errs = append(errs, cgroup.Remove(name))
	}
	return errors.Join(errs...)
}

// Remove ends the workers that are left in the groups, and removes them.
func (Group) Remove(_ context.Context, k *host.Kernel) error {
	var m made
	if kept, err := k.Kept(&m); err != nil || !kept {
		return err
	}
	k.GroupWorkers(nil)
	return m.remove()
}

// Verify wants the groups to be there.
func (g Group) Verify(k *host.Kernel) error {
	var m made
	if _, err := k.Kept(&m); err != nil {
		return err
	}
	for _, name := range m.Cgroups {
		there, err := cgroup.Exists(name)
		if err != nil {
			return err
		}
		if !there {
			d := &host.DriftError{Step: g.String()}
			d.Add("cgroup "+name, "present", "absent")
			return d
		}
	}
	return nil
}

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nettoll/nettoll/internal/linux"
)

// Makeable returns a [linux.UnsupportedError] if [Make] cannot make control groups here, which something needs.
func Makeable(what string) error {
	if err := Usable(what); err != nil {
		return err
	}
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(hierarchies, func(h Hierarchy) bool { return !h.V2 }) {
		// There, a group that has controllers has no processes (cgroups(7)): those of a node would have to be moved to a
		// group below it, and the controllers be enabled from the root on.
		return &linux.UnsupportedError{
			What: what, Missing: "cgroups of v1", Hint: "boot with systemd.unified_cgroup_hierarchy=0",
		}
	}
	return nil
}

// Make makes a control group in every hierarchy of v1, with all CPUs and memory nodes of its parent, and in that of v2
// beside them. The name is from the roots. It fails if the group exists. With v2 alone the error is a
// [linux.UnsupportedError].
func Make(name string) error {
	if err := Makeable("make cgroup " + name); err != nil {
		return err
	}
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		dir := filepath.Join(h.Dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make cgroup %s: %w", name, err)
		}
		if !slices.Contains(h.Controllers, "cpuset") {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // a group without them takes no process
			value, err := os.ReadFile(filepath.Join(h.Dir, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), value, 0o600)
			}
			if err != nil {
				return fmt.Errorf("make cgroup %s: %w", name, err)
			}
		}
	}
	return nil
}

// Join moves this process into a control group of [Make]. It works in a PID namespace of its own, too.
func Join(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		// 0 is the process that writes (cgroups(7)).
		if err := os.WriteFile(filepath.Join(h.Dir, name, "cgroup.procs"), []byte("0"), 0o600); err != nil {
			return fmt.Errorf("join cgroup %s: %w", name, err)
		}
	}
	return nil
}

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

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
		if err := h.make(name); err != nil {
			return err
		}
	}
	return nil
}

// MakeLeaf makes a control group for processes, as runtimes do for a container: in every hierarchy of v1 or, if there
// is none, in that of v2, where it has all controllers. The name is from the roots. It fails if the group exists.
func MakeLeaf(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, h := range ofContainers(hierarchies) {
		if err := h.passOn(); err != nil {
			return fmt.Errorf("make cgroup %s: %w", name, err)
		}
		if err := h.make(name); err != nil {
			return err
		}
	}
	return nil
}

// ofContainers are the hierarchies in which containers have groups: those of v1 hide one of v2, as on a host with
// cgroups.
func ofContainers(list []Hierarchy) []Hierarchy {
	if v1 := slices.DeleteFunc(slices.Clone(list), func(h Hierarchy) bool { return h.V2 }); len(v1) > 0 {
		return v1
	}
	return list
}

// passOn gives groups at the root of a hierarchy of v2 all controllers that it has. Those of v1 have them already.
func (h Hierarchy) passOn() error {
	if !h.V2 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(h.Dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(text)) {
		err := os.WriteFile(filepath.Join(h.Dir, "cgroup.subtree_control"), []byte("+"+controller), 0o600)
		if err != nil {
			return fmt.Errorf("enable controller %q: %w", controller, err)
		}
	}
	return nil
}

// make makes a group, with the CPUs and memory nodes of its parent: one of v1 without them takes no process.
func (h Hierarchy) make(name string) error {
	err := os.Mkdir(filepath.Join(h.Dir, name), 0o755)
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if err != nil || !slices.Contains(h.Controllers, "cpuset") {
			break
		}
		var value []byte
		if value, err = os.ReadFile(filepath.Join(h.Dir, file)); err == nil {
			err = os.WriteFile(filepath.Join(h.Dir, name, file), value, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("make cgroup %s: %w", name, err)
	}
	return nil
}

// Join moves this process into a control group of [Make]. It works in a PID namespace of its own, too.
func Join(name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	return move(hierarchies, 0, name) // 0 is the process that writes (cgroups(7))
}

// Move moves a process into a control group of [MakeLeaf].
func Move(pid int, name string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	return move(ofContainers(hierarchies), pid, name)
}

func move(hierarchies []Hierarchy, pid int, name string) error {
	for _, h := range hierarchies {
		if err := os.WriteFile(filepath.Join(h.Dir, name, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
			return fmt.Errorf("join cgroup %s: %w", name, err)
		}
	}
	return nil
}

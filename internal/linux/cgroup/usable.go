package cgroup

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/userns"
)

// Usable returns a [linux.UnsupportedError] if control groups cannot be made here, which something needs.
func Usable(what string) error {
	if userns.Inside() {
		return &linux.UnsupportedError{
			What: what, Missing: "the right to make cgroups, which nobody in a user namespace has", Hint: "run as root",
		}
	}
	list, err := Hierarchies()
	if err != nil || len(list) == 0 {
		return &linux.UnsupportedError{
			What: what, Missing: "cgroups below " + Dir, Hint: "mount them, as cgroups(7) says", Err: err,
		}
	}
	for _, h := range ofContainers(list) {
		if h.ReadOnly {
			return &linux.UnsupportedError{
				What: what, Missing: "cgroups that can be made below " + h.Dir + ", which is mounted read-only",
				Hint: fmt.Sprintf("in a container, start it with --privileged; otherwise: mount -o remount,bind,rw %s", h.Dir),
			}
		}
	}
	return inhabited(what, list)
}

// inhabited returns a [linux.UnsupportedError] if the only hierarchy is one of v2 with a root that has processes and is
// not the root of the machine, as in a container of Docker. Groups below it then cannot have controllers such as
// "memory". To enable the others would make the groups invalid for processes (cgroups(7), "threaded").
func inhabited(what string, list []Hierarchy) error {
	if len(list) != 1 || !list[0].V2 {
		return nil
	}
	dir := list[0].Dir
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil { // the root of the machine has no such file
		return nil
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err == nil && len(text) == 0 {
		return nil
	}
	return &linux.UnsupportedError{
		What: what, Missing: "a control group without processes at " + dir, Err: err,
		Hint: fmt.Sprintf("move them into a group below it: mkdir %s/init; xargs -n1 <%[1]s/cgroup.procs "+
			">%[1]s/init/cgroup.procs", dir),
	}
}

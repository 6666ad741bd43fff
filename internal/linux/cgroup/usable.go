package cgroup

import (
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
	if list, err := Hierarchies(); err != nil || len(list) == 0 {
		return &linux.UnsupportedError{
			What: what, Missing: "cgroups below " + Dir, Hint: "mount them, as cgroups(7) says", Err: err,
		}
	}
	return nil
}

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Dir is where hierarchies are mounted by custom.
const Dir = "/sys/fs/cgroup"

// A Hierarchy is a mounted hierarchy of control groups.
type Hierarchy struct {
	Dir string // where its root is mounted
	V2  bool
	// Controllers are those of cgroup v1: "cpu", "memory", "name=systemd"; nil for v2.
	Controllers []string
	// ReadOnly says that no groups can be made, as in a container that sees those of its host.
	ReadOnly bool
}

// Hierarchies lists those that are mounted below [Dir] in this mount namespace, each once.
func Hierarchies() ([]Hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	defer f.Close()
	return read(f)
}

// read reads mountinfo (proc_pid_mountinfo(5)): fields, of which the sixth has options, a dash, and then the type, the
// source and options of the superblock.
func read(r io.Reader) (list []Hierarchy, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		at, of := strings.Fields(before), strings.Fields(after)
		if !ok || len(at) < 6 || len(of) < 3 || at[4] != Dir && !strings.HasPrefix(at[4], Dir+"/") {
			continue
		}
		h := Hierarchy{
			Dir: at[4], V2: of[0] == "cgroup2", ReadOnly: slices.Contains(strings.Split(at[5]+","+of[2], ","), "ro"),
		}
		if of[0] == "cgroup" {
			for option := range strings.SplitSeq(of[2], ",") {
				if option != "rw" && option != "ro" {
					h.Controllers = append(h.Controllers, option)
				}
			}
		} else if !h.V2 {
			continue
		}
		list = slices.DeleteFunc(list, func(below Hierarchy) bool { return below.Dir == h.Dir }) // it is mounted over
		list = append(list, h)
	}
	return list, lines.Err()
}

// Bases lists, besides the roots of the hierarchies, in which control groups the first process of this PID namespace
// is. Programs such as LXC make theirs below these.
func Bases() ([]string, error) {
	text, err := os.ReadFile("/proc/1/cgroup")
	if err != nil {
		return nil, fmt.Errorf("list cgroups of the first process: %w", err)
	}
	return bases(string(text)), nil
}

// bases reads /proc/PID/cgroup: a number, controllers, and a path (cgroups(7)).
func bases(text string) (list []string) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && fields[2] != "/" && !slices.Contains(list, fields[2]) {
			list = append(list, fields[2])
		}
	}
	return list
}

// patience is how long killed processes may take to end, as long as those of a host (host/again.go). Whoever does not
// need it does not wait.
const patience = 10 * time.Second

// Remove kills what is left in a control group, which is named from the roots of all hierarchies or from these bases,
// and removes it with those below it. It waits for processes to end, for ten seconds in all. What does not exist is
// removed already. A runtime that is killed while it has frozen a group leaves it so: with v1 the processes then end
// only when they are thawed.
func Remove(name string, bases ...string) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	var dirs []string
	for _, h := range hierarchies {
		for _, base := range append([]string{"/"}, bases...) {
			dirs = append(dirs, filepath.Join(h.Dir, base, name))
		}
	}
	return removeAll(dirs)
}

// removeAll removes directories of control groups, and thaws all of them first: one of them may have frozen the
// processes that are in the others.
func removeAll(dirs []string) error {
	for _, dir := range dirs {
		thaw(dir)
	}
	end := time.Now().Add(patience)
	var errs []error
	for _, dir := range dirs {
		if err := remove(dir, end); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// thaw has the processes of a frozen control group, and of those below it, go on, as far as it is one of the freezer of
// v1 (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst). In v2 a frozen process ends when it is killed.
func thaw(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			if f, err := os.OpenFile(filepath.Join(path, "freezer.state"), os.O_WRONLY, 0); err == nil {
				_, _ = f.WriteString("THAWED") // it may be gone
				_ = f.Close()
			}
		}
		return nil // groups come and go
	})
}

// RemoveAt is like [Remove], for control groups that are named from the roots of all hierarchies, which are mounted
// below another directory than [Dir].
func RemoveAt(at, name string) error {
	dirs, err := filepath.Glob(filepath.Join(at, "*", name))
	if err != nil {
		return err
	}
	return removeAll(append(dirs, filepath.Join(at, name)))
}

// Exists reports whether there is a control group, which is named as in [Remove], in any hierarchy.
func Exists(name string, bases ...string) (bool, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return false, err
	}
	for _, h := range hierarchies {
		for _, base := range append([]string{"/"}, bases...) {
			if _, err := os.Stat(filepath.Join(h.Dir, base, name)); err == nil {
				return true, nil
			}
		}
	}
	return false, nil
}

// remove removes a directory of control groups, those below it first. A program that ends may make others meanwhile.
func remove(dir string, end time.Time) error {
	for {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				if err := remove(filepath.Join(dir, e.Name()), end); err != nil {
					return err
				}
			}
		}
		kill(dir)
		err = syscall.Rmdir(dir)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return nil
		case !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) || time.Now().After(end):
			return err
		}
		time.Sleep(time.Millisecond) // a process takes a moment to end
	}
}

// kill kills the processes of a control group. Those of other PID namespaces are listed as 0.
func kill(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return // it is gone
	}
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may be gone
			}
		}
	}
}

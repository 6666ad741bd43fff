package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Group is the control group of a process, in each hierarchy that is mounted.
type Group struct {
	v1 map[string]string // directories, by controller
	v2 string            // "" without a hierarchy of v2
}

// Of returns the group of a process, which proc, a directory such as /proc, lists.
func Of(proc string, pid int) (Group, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return Group{}, err
	}
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return Group{}, fmt.Errorf("find the cgroup of process %d: %w", pid, err)
	}
	return group(hierarchies, string(text)), nil
}

// pathsOf reads /proc/PID/cgroup (cgroups(7)), lines of a number, controllers and a path: the path of each controller,
// "" for v2.
func pathsOf(text string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			paths[controller] = fields[2]
		}
	}
	return paths
}

// group finds the directories of a process by its /proc/PID/cgroup.
func group(hierarchies []Hierarchy, text string) Group {
	paths := pathsOf(text)
	g := Group{v1: map[string]string{}}
	for _, h := range hierarchies {
		if path, ok := paths[""]; ok && h.V2 {
			g.v2 = filepath.Join(h.Dir, path)
		}
		for _, controller := range h.Controllers {
			if path, ok := paths[controller]; ok {
				g.v1[controller] = filepath.Join(h.Dir, path)
			}
		}
	}
	return g
}

// Scheduled returns the path of the control group by which the scheduler shares CPUs between this process and others:
// that of the controller "cpu". It is from the root of this cgroup namespace.
func Scheduled() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find the cgroup of this process: %w", err)
	}
	return scheduled(string(text)), nil
}

// Level returns how many control groups are between that of a path and the root: 0 for the root itself.
func Level(path string) int { return strings.Count(strings.TrimSuffix(path, "/"), "/") }

func scheduled(text string) string {
	of := pathsOf(text)
	if path, v1 := of["cpu"]; v1 {
		return path
	}
	return of[""]
}

// Use is what the processes of a group have used.
type Use struct {
	// CPU is their CPU time so far.
	CPU time.Duration
	// Memory is what they use now, and Peak the most that they have used, in bytes; pages of files and memory of the
	// kernel count. 0: not known.
	Memory, Peak int64
	// Periods are those periods of the CPU limit in which they ran, and Throttled those in which the limit stopped them.
	Periods, Throttled int64
}

// Use reads it. What the kernel does not say is 0.
func (g Group) Use() (u Use, err error) {
	var errs []error
	number := func(controller, v1, v2, key string) int64 {
		n, err := g.read(controller, v1, v2, key)
		errs = append(errs, err)
		return n
	}
	if dir := g.v1["cpuacct"]; dir != "" {
		u.CPU = time.Duration(number("cpuacct", "cpuacct.usage", "", ""))
	} else {
		u.CPU = time.Duration(number("", "", "cpu.stat", "usage_usec")) * time.Microsecond
	}
	u.Periods = number("cpu", "cpu.stat", "cpu.stat", "nr_periods")
	u.Throttled = number("cpu", "cpu.stat", "cpu.stat", "nr_throttled")
	u.Memory = number("memory", "memory.usage_in_bytes", "memory.current", "")
	u.Peak = number("memory", "memory.max_usage_in_bytes", "memory.peak", "") // of v2 since Linux 5.19
	return u, errors.Join(errs...)
}

// OutOfMemory reports whether the kernel has killed a process of the group because the memory of the group, or of the
// machine, ran out.
func (g Group) OutOfMemory() bool {
	n, err := g.read("memory", "memory.oom_control", "memory.events", "oom_kill")
	return err == nil && n > 0
}

// read reads a number of a file of a controller: the only one of the file, or that behind a key. It is 0 if there is
// no such file or key.
func (g Group) read(controller, v1, v2, key string) (int64, error) {
	path := filepath.Join(g.v2, v2)
	if dir := g.v1[controller]; dir != "" {
		path = filepath.Join(dir, v1)
	} else if g.v2 == "" {
		return 0, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) { // ENODEV: it went while its file was open
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := number(string(text), key)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return n, nil
}

// number finds a number in the text of a file: the only one, or that behind a key at the beginning of a line. It is 0
// if the key is not there.
func number(text, key string) (int64, error) {
	if key == "" {
		return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	}
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == key {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, nil
}

// ToRoots moves a process to the roots of all hierarchies, where it is not there yet.
func ToRoots(pid int) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return fmt.Errorf("find the cgroup of process %d: %w", pid, err)
	}
	at := group(hierarchies, string(text))
	for _, h := range hierarchies {
		if h.V2 && at.v2 == h.Dir || !h.V2 && at.v1[h.Controllers[0]] == h.Dir {
			continue
		}
		procs := filepath.Join(h.Dir, "cgroup.procs")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0o600); err != nil {
			return fmt.Errorf("move process %d to the root of its cgroups: %w", pid, err)
		}
	}
	return nil
}

// MemoryEvents is the file of a group that [Killed] reads, by the hierarchy with controller "memory".
func (h Hierarchy) MemoryEvents(name string) string {
	if h.V2 {
		return filepath.Join(h.Dir, name, "memory.events")
	}
	return filepath.Join(h.Dir, name, "memory.oom_control")
}

// Killed reports whether the text of such a file says that the kernel has killed a process because memory ran out.
func Killed(text string) bool {
	n, err := number(text, "oom_kill")
	return err == nil && n > 0
}

// KilledBelow reports whether the kernel has killed a process in a group or in those below it because memory ran out.
// The name is from the roots. A group of v2 counts that, also after the groups below it have gone (memory.events in
// Documentation/admin-guide/cgroup-v2.rst). With v1, and for a group that does not exist, KilledBelow is false.
func KilledBelow(name string) bool {
	list, err := Hierarchies()
	return err == nil && killedBelow(list, name)
}

func killedBelow(list []Hierarchy, name string) bool {
	h, err := controlled(list, "find out what the kernel has killed", "memory")
	if err != nil || !h.V2 {
		return false
	}
	text, err := os.ReadFile(h.MemoryEvents(name))
	return err == nil && Killed(string(text))
}

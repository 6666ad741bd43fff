package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux"
)

// Controlled returns a [linux.UnsupportedError] unless groups that are made at the roots of the hierarchies have a
// controller: "cpu", "cpuset" or "memory". It returns the hierarchy that has it. Hierarchies of v1 hide one of v2, as
// on a host with cgroups.
func Controlled(what, controller string) (Hierarchy, error) {
	list, err := Hierarchies()
	if err != nil {
		return Hierarchy{}, err
	}
	return controlled(list, what, controller)
}

// Delegated returns a [linux.UnsupportedError] if groups of v2 alone lack one of these controllers, which something
// cannot do without. It says nothing of groups of v1.
func Delegated(what string, controllers ...string) error {
	list, err := Hierarchies()
	if err != nil {
		return err
	}
	return delegated(list, what, controllers)
}

// V2Alone reports whether containers have cgroups of v2: hierarchies of v1 hide one of v2.
func V2Alone() (bool, error) {
	list, err := Hierarchies()
	return v2Alone(list), err
}

func v2Alone(list []Hierarchy) bool {
	return !slices.ContainsFunc(list, func(h Hierarchy) bool { return !h.V2 })
}

func delegated(list []Hierarchy, what string, controllers []string) error {
	if !v2Alone(list) {
		return nil
	}
	for _, name := range controllers {
		if _, err := controlled(list, what, name); err != nil {
			return err
		}
	}
	return nil
}

func controlled(list []Hierarchy, what, controller string) (Hierarchy, error) {
	missing := &linux.UnsupportedError{
		What: what, Missing: fmt.Sprintf("controller %q of cgroups", controller),
		Hint: fmt.Sprintf("mount it: mkdir %s/%[2]s && mount -t cgroup -o %[2]s cgroup %[1]s/%[2]s", Dir, controller),
	}
	if !slices.ContainsFunc(list, func(h Hierarchy) bool { return !h.V2 }) {
		missing.Hint = fmt.Sprintf("boot a kernel that has it, with cgroup_enable=%s; in a container, have it delegated to "+
			"the container", controller)
		for _, h := range list {
			text, err := os.ReadFile(filepath.Join(h.Dir, "cgroup.controllers"))
			if err != nil {
				missing.Err = err
			} else if slices.Contains(strings.Fields(string(text)), controller) {
				return h, nil
			}
		}
		return Hierarchy{}, missing
	}
	for _, h := range list {
		if slices.Contains(h.Controllers, controller) {
			return h, nil
		}
	}
	return Hierarchy{}, missing
}

// CPUs returns the CPUs that groups at the root of a hierarchy with controller "cpuset" may use, ascending.
func (h Hierarchy) CPUs() ([]int, error) {
	name := "cpuset.cpus"
	if h.V2 {
		name = "cpuset.cpus.effective"
	}
	text, err := os.ReadFile(filepath.Join(h.Dir, name))
	if err != nil {
		return nil, err
	}
	return ParseCPUs(strings.TrimSpace(string(text)))
}

// Swaps reports whether groups of a hierarchy with controller "memory" can be kept from swapping.
func (h Hierarchy) Swaps() bool {
	file := filepath.Join(h.Dir, "memory.memsw.limit_in_bytes")
	if h.V2 {
		file = "/proc/swaps" // a kernel that can swap can limit that, but has no such file at the root
	}
	_, err := os.Stat(file)
	return err == nil
}

// most is the largest number of a CPU for which kernels are built (CONFIG_NR_CPUS).
const most = 8191

// ParseCPUs reads a list of CPUs as the kernel writes it, such as "0-3,8". It returns each once, ascending.
func ParseCPUs(list string) (cpus []int, err error) {
	for item := range strings.SplitSeq(list, ",") {
		first, last, between := strings.Cut(item, "-")
		if !between {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if errors.Join(err1, err2) != nil || from > to || to > most {
			return nil, fmt.Errorf("invalid CPUs %q (valid: numbers and ranges such as 0, 0-1 or 0,2-3)", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// FormatCPUs writes an ascending list of CPUs as the kernel does: "0-3,8".
func FormatCPUs(cpus []int) string {
	var items []string
	for i := 0; i < len(cpus); i++ {
		from := cpus[i]
		for i+1 < len(cpus) && cpus[i+1] == cpus[i]+1 {
			i++
		}
		if items = append(items, strconv.Itoa(from)); cpus[i] > from {
			items[len(items)-1] += "-" + strconv.Itoa(cpus[i])
		}
	}
	return strings.Join(items, ",")
}

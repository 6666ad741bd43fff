package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// CPUSet is the name of a parameter of [LimitParams].
const CPUSet = "cpuset"

// Names of the others, and the value that sets no limit.
const (
	cpus      = "cpus"
	memory    = "memory"
	unlimited = "unlimited"
)

// Limits are what each container of a host may use. The zero value sets no limit.
type Limits struct {
	// CPUs is CPU time per time: with 0.5, the container may run for 50 ms in each 100 ms.
	CPUs float64 `json:"cpus,omitempty"`
	// CPUSet are the CPUs that it may use, ascending.
	CPUSet []int `json:"cpuset,omitempty"`
	// Memory is in bytes. It holds with swap, where the kernel can limit that.
	Memory int64 `json:"memory,omitempty"`
}

// LimitParams returns the parameters of runtimes whose containers can have limits.
func LimitParams() part.List {
	return part.List{
		{
			Name: cpus, Default: unlimited, Quiet: true, Check: limit(parseCPUTime, number),
			Summary: "CPU time of a container, in CPUs: 0.5 is 50 ms in each 100 ms; 0.01 to 1024",
		},
		{
			Name: CPUSet, Default: unlimited, Quiet: true, Check: limit(cgroup.ParseCPUs, cgroup.FormatCPUs),
			Summary: "CPUs that a container may use, such as 0-1; those that its worker is pinned to are among them",
		},
		{
			Name: memory, Default: unlimited, Quiet: true, Check: limit(parseMemory, formatMemory),
			Summary: "memory of a container, such as 64MiB; 6MiB to 1024GiB",
		},
	}
}

// limit returns a [part.Param] check for a limit.
func limit[T any](parse func(string) (T, error), format func(T) string) func(string) (string, error) {
	return func(s string) (string, error) {
		if s == unlimited {
			return s, nil
		}
		x, err := parse(s)
		if err != nil {
			return "", fmt.Errorf("%w, or %s", err, unlimited)
		}
		return format(x), nil
	}
}

// LimitsOf returns the limits that parameters set, already checked; none for runtimes without [LimitParams].
func LimitsOf(p part.Params) (l Limits) {
	l.CPUs, _ = parseCPUTime(p[cpus]) // 0 for unlimited, as those below
	l.CPUSet, _ = cgroup.ParseCPUs(p[CPUSet])
	l.Memory, _ = parseMemory(p[memory])
	return l
}

// LimitsIn returns those of the containers of a stack.
func LimitsIn(s stack.Stack) Limits {
	_, params, _ := stack.PartOf[Runtime](s)
	return LimitsOf(params)
}

// Period is that of a limit of CPU time, in µs.
const Period = 100_000

// Quota is how long a container may run in each [Period], in µs; 0: no limit.
func (l Limits) Quota() int64 { return int64(math.Round(l.CPUs * Period)) }

// List is the CPUs that a container may use as the kernel writes them: "0-1"; "" for all.
func (l Limits) List() string { return cgroup.FormatCPUs(l.CPUSet) }

// String lists the limits: "0.5 CPUs, on CPUs 0-1, 64 MiB of memory"; "" without any.
func (l Limits) String() string {
	var list []string
	if l.CPUs > 0 {
		list = append(list, number(l.CPUs)+" CPUs")
	}
	if l.CPUSet != nil {
		list = append(list, "on CPUs "+l.List())
	}
	if l.Memory > 0 {
		list = append(list, part.SizeText(l.Memory)+" of memory")
	}
	return strings.Join(list, ", ")
}

// Described is what the description of a container says of its limits.
func (l Limits) Described() string {
	if text := l.String(); text != "" {
		return ", limited to " + text
	}
	return ""
}

// Hierarchy returns that of the cgroups of this machine that set the limits, or one of several of v1: that of memory,
// if there is such a limit. It is the zero value without limits. The error is a [linux.UnsupportedError] if a
// controller is missing.
func (l Limits) Hierarchy() (h cgroup.Hierarchy, err error) {
	for _, c := range []struct {
		set              bool
		name, controller string
	}{{l.CPUs > 0, cpus, "cpu"}, {l.CPUSet != nil, CPUSet, "cpuset"}, {l.Memory > 0, memory, "memory"}} {
		if !c.set {
			continue
		}
		if h, err = cgroup.Controlled(limiting(c.name), c.controller); err != nil {
			return cgroup.Hierarchy{}, err
		}
	}
	return h, nil
}

// SetCPUs makes the control group of a container, limited to the CPUs, for a runtime that cannot do so itself. The
// program that makes the container finds the group and adds what it lacks, so nothing ever runs there on other CPUs.
func (l Limits) SetCPUs(group string) error {
	if l.CPUSet == nil {
		return nil
	}
	h, err := cgroup.Controlled(limiting(CPUSet), "cpuset")
	if err != nil {
		return err
	}
	return set(h, "cpuset", group, "cpuset.cpus", l.List())
}

// setSwap makes the control group of a container, or the one above it, and keeps it from swapping if its memory is
// limited. It does so in cgroup v2 alone, for runtimes that may not: ctr has no such flag, and dockerd leaves the flag
// out if its own group has no memory.swap.max, as the root has none (moby, pkg/sysinfo/cgroup2_linux.go). In v1 a limit
// of swap is one of memory, too, which runtimes set first.
func (l Limits) setSwap(group string) error {
	if l.Memory == 0 {
		return nil
	}
	h, err := cgroup.Controlled(limiting(memory), "memory")
	if err != nil || !h.V2 || !h.Swaps() {
		return err
	}
	err = set(h, "memory", group, "memory.swap.max", "0")
	if errors.Is(err, fs.ErrNotExist) { // the kernel was booted with swapaccount=0
		return nil
	}
	return err
}

// set makes a control group, unless it is there, and sets a limit of a controller.
func set(h cgroup.Hierarchy, controller, group, file, value string) error {
	if h.V2 { // groups there have the controllers that their parent passes on
		if err := os.WriteFile(filepath.Join(h.Dir, "cgroup.subtree_control"), []byte("+"+controller), 0o600); err != nil {
			return err
		}
	}
	dir := filepath.Join(h.Dir, group)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600)
}

// Limitable returns a [linux.UnsupportedError] unless containers can have all kinds of limits on this machine.
func Limitable() error {
	if err := cgroup.Usable("limit containers"); err != nil {
		return err
	}
	_, err := Limits{CPUs: 1, CPUSet: []int{0}, Memory: leastMemory}.Hierarchy()
	return err
}

func limiting(name string) string { return "limit containers (parameter " + name + ")" }

// Check returns a [linux.UnsupportedError] if the cgroups of this machine cannot set the limits.
func (l Limits) Check() error {
	if _, err := l.Hierarchy(); err != nil || l.CPUSet == nil {
		return err
	}
	h, err := cgroup.Controlled(limiting(CPUSet), "cpuset")
	if err != nil {
		return err
	}
	known, err := h.CPUs()
	if err != nil {
		return err
	}
	if lacking := without(l.CPUSet, known); len(lacking) > 0 {
		return &linux.UnsupportedError{
			What: limiting(CPUSet), Missing: "CPU " + cgroup.FormatCPUs(lacking),
			Hint: "choose among CPUs " + cgroup.FormatCPUs(known),
		}
	}
	return nil
}

// without returns the CPUs of a list that are not in another one.
func without(list, other []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(cpu int) bool { return slices.Contains(other, cpu) })
}

// Flags are the limits as 'docker run' and 'podman run' take them.
func (l Limits) Flags() (flags []string) {
	if l.CPUs > 0 {
		flags = append(flags, "--cpu-period", strconv.Itoa(Period), "--cpu-quota", strconv.FormatInt(l.Quota(), 10))
	}
	if l.CPUSet != nil {
		flags = append(flags, "--cpuset-cpus", l.List())
	}
	if l.Memory > 0 { // a container that swaps would measure the disk
		bytes := strconv.FormatInt(l.Memory, 10)
		flags = append(flags, "--memory", bytes, "--memory-swap", bytes)
	}
	return flags
}

// endLimit is how long a program may take to say how a container has ended. On a busy machine commands take seconds.
const endLimit = 5 * time.Second

// OutOfMemory asks a client with the commands of Docker, which removes the cgroup of a container that has ended,
// whether memory ran out. The state of the container may have been written before Docker knew, so its events are asked,
// too.
func (c Client) OutOfMemory(ctx context.Context, k *host.Kernel, container string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	said := func(args ...string) string {
		cmd, err := c(ctx, k, args...)
		if err != nil {
			return ""
		}
		out, _ := cmd.Output()
		return strings.TrimSpace(string(out))
	}
	if ended := said("wait", container); ended != killedCode {
		return false
	}
	if said("inspect", "--format", "{{.State.OOMKilled}}", container) == "true" {
		return true
	}
	until := time.Now().Add(late)
	return said("events", "--since", "1m", "--until", fmt.Sprintf("%d.%09d", until.Unix(), until.Nanosecond()),
		"--filter", "container="+container, "--filter", "event=oom", "--format", "{{.Status}}") != ""
}

// late is how much later than the end of a container its events may come.
const late = 300 * time.Millisecond

// killedCode is the exit status of a container that SIGKILL has ended, as the kernel does when memory runs out.
const killedCode = "137"

// exceeded says that a container has ended because its memory ran out.
func (l Limits) exceeded() string {
	if l.Memory == 0 {
		return "the memory of the machine ran out, and the kernel has ended its container"
	}
	return fmt.Sprintf("its container ran out of memory, and the kernel has ended it (%s=%s; a larger limit helps)",
		memory, formatMemory(l.Memory))
}

// parseCPUTime reads CPU time per time. The kernel grants at least 1 ms in a period.
func parseCPUTime(s string) (float64, error) {
	const least, most = 0.01, 1024
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= least && x <= most) {
		return 0, fmt.Errorf("invalid number of CPUs %q (valid: %g to %d, such as 0.5)", s, least, most)
	}
	return math.Round(x*Period) / Period, nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// Units of memory. Docker refuses less than 6 MiB, too: nothing starts in it.
const (
	mebibyte    = 1 << 20
	gibibyte    = 1 << 30
	leastMemory = 6 * mebibyte
	mostMemory  = 1024 * gibibyte
)

// parseMemory reads a number of bytes, which may be larger than that of a [part.ParseSize].
func parseMemory(s string) (int64, error) {
	n, err := part.ParseSize(s)
	bytes := int64(n)
	if whole, ok := strings.CutSuffix(s, "GiB"); ok {
		var gib uint64
		gib, err = strconv.ParseUint(whole, 10, 16)
		bytes = int64(gib) * gibibyte
	}
	if err != nil || bytes < leastMemory || bytes > mostMemory {
		return 0, fmt.Errorf("invalid memory %q (valid: 6MiB to 1024GiB, such as 64MiB)", s)
	}
	return bytes, nil
}

// formatMemory writes a number of bytes in the largest unit that gives a whole number.
func formatMemory(n int64) string {
	switch {
	case n%gibibyte == 0:
		return strconv.FormatInt(n/gibibyte, 10) + "GiB"
	case n%mebibyte == 0:
		return strconv.FormatInt(n/mebibyte, 10) + "MiB"
	case n%1024 == 0:
		return strconv.FormatInt(n/1024, 10) + "KiB"
	}
	return strconv.FormatInt(n, 10)
}

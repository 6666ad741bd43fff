package procfs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Limits are limits that all network namespaces of a machine share; 0 means unknown.
type Limits struct {
	Neighbours int   // non-permanent entries of the IPv4 neighbour table
	Conntrack  int   // tracked connections
	Memory     int64 // bytes available without swapping
}

// ReadLimits reads the limits. A limit that cannot be read is unknown.
func ReadLimits() Limits {
	l := Limits{
		Neighbours: number("/proc/sys/net/ipv4/neigh/default/gc_thresh3"),
		Conntrack:  number("/proc/sys/net/netfilter/nf_conntrack_max"),
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		l.Memory, _ = amount(b, "MemAvailable")
	}
	return l
}

// UsedMemory returns how many bytes of the machine's memory are in use: all but what is available without swapping
// (MemTotal less MemAvailable, proc_meminfo(5)). The bool is false if the kernel does not report it.
func UsedMemory() (int64, bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	return usedMemory(b)
}

func usedMemory(meminfo []byte) (int64, bool) {
	total, known := amount(meminfo, "MemTotal")
	available, told := amount(meminfo, "MemAvailable")
	return total - available, known && told
}

// amount returns a line of /proc/meminfo in bytes; 0 and false if there is none.
func amount(meminfo []byte, name string) (int64, bool) {
	for line := range bytes.Lines(meminfo) {
		if rest, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// Memory returns how many bytes of memory this process may use at most: the machine's memory, or the limit of a control
// group if that is lower (cgroup-v2.rst, memory.max). 0 means unknown.
func Memory() int64 {
	most := int64(0)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		most, _ = amount(b, "MemTotal")
	}
	own, _ := os.ReadFile("/proc/self/cgroup") // "0::/path" in the unified hierarchy
	for line := range strings.Lines(string(own)) {
		group, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ; unified && strings.HasPrefix(group, "/"); group = group[:strings.LastIndexByte(group, '/')] {
			b, _ := os.ReadFile("/sys/fs/cgroup" + group + "/memory.max") // "max", or a number; the root group has no such file
			if limit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
				most = min(most, limit)
			}
		}
	}
	return most
}

// KernelMemory returns how many bytes the kernel holds in unreclaimable slabs, in vmalloc and in per-CPU areas
// (proc_meminfo(5)), which contain rules, sets and maps. It is machine-wide. The bool is false if the kernel does not
// report it.
func KernelMemory() (int64, bool) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	var sum int64
	found := 0
	for line := range bytes.Lines(b) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "SUnreclaim", "VmallocUsed", "Percpu":
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 10, 64)
			if err != nil {
				return 0, false
			}
			sum += kib << 10
			found++
		}
	}
	return sum, found == 3
}

func number(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return n
}

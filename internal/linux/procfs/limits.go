package procfs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Limits are what all network namespaces of a machine share; 0 is not known.
type Limits struct {
	Neighbours int   // entries of the IPv4 neighbour table that are not permanent
	Conntrack  int   // connections tracked
	Processes  int   // that there can be
	Memory     int64 // bytes that could be had without swapping
}

// ReadLimits reads them. What cannot be read is not known.
func ReadLimits() Limits {
	l := Limits{
		Neighbours: number("/proc/sys/net/ipv4/neigh/default/gc_thresh3"),
		Conntrack:  number("/proc/sys/net/netfilter/nf_conntrack_max"),
		Processes:  number("/proc/sys/kernel/pid_max"),
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range bytes.Lines(b) {
			if rest, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 10, 64)
				l.Memory = kib << 10
			}
		}
	}
	return l
}

// KernelMemory returns how many bytes the kernel holds in slabs that it cannot give back at will, in vmalloc and in per-CPU areas (proc_meminfo(5)): what rules, sets and maps are made of. It is
// the whole machine's. It says false where that is not told.
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

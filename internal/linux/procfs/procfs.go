package procfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// tick is the unit of /proc/stat in seconds: USER_HZ is 100 on every architecture Go runs on (proc_stat(5)).
const tick = 0.01

// Modes are the columns of a cpu line of /proc/stat that add up to the time passed (guest time is part of user).
func Modes() []string {
	return []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"}
}

// CPUTime is the time in seconds that all CPUs together have spent in each mode since boot.
type CPUTime map[string]float64

// ReadCPUTime reads the first line of /proc/stat.
func ReadCPUTime() (CPUTime, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	return parseCPUTime(b)
}

func parseCPUTime(b []byte) (CPUTime, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := strings.Fields(string(line))
	modes := Modes()
	if len(fields) < len(modes)+1 || fields[0] != "cpu" {
		return nil, fmt.Errorf("read CPU times: unexpected first line %q of /proc/stat", line)
	}
	t := CPUTime{}
	for i, mode := range modes {
		n, err := strconv.ParseUint(fields[i+1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read CPU times: %s: %w", mode, err)
		}
		t[mode] = float64(n) * tick
	}
	return t, nil
}

// Cores returns how many cores were in each mode between two readings, which are seconds apart.
func Cores(before, after CPUTime, seconds float64) map[string]float64 {
	cores := map[string]float64{}
	for mode, t := range after {
		cores[mode] = (t - before[mode]) / seconds
	}
	return cores
}

// Load1 returns the load average over one minute.
func Load1() (float64, error) {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("read load average: %w", err)
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("read load average: %w", err)
	}
	return load, nil
}

// Machine returns facts about kernel, CPU and network defaults for every record. It leaves out what it cannot read.
func Machine() map[string]any {
	facts := map[string]any{"arch": runtime.GOARCH, "cpus": runtime.NumCPU()}
	if release, build := uname(); release != "" {
		facts["kernel"], facts["kernel_build"] = release, build
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				facts["cpu"] = strings.TrimSpace(value)
				break
			}
		}
	}
	for key, path := range map[string]string{
		"clocksource":            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		"governor":               "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		"smt":                    "/sys/devices/system/cpu/smt/control",
		"default_congestion":     "/proc/sys/net/ipv4/tcp_congestion_control",
		"available_congestion":   "/proc/sys/net/ipv4/tcp_available_congestion_control",
		"default_qdisc":          "/proc/sys/net/core/default_qdisc",
		"rmem_max":               "/proc/sys/net/core/rmem_max",
		"wmem_max":               "/proc/sys/net/core/wmem_max",
		"neighbour_gc_thresh3":   "/proc/sys/net/ipv4/neigh/default/gc_thresh3",
		"conntrack_max":          "/proc/sys/net/netfilter/nf_conntrack_max",
		"rps_sock_flow_entries":  "/proc/sys/net/core/rps_sock_flow_entries",
		"bpf_jit":                "/proc/sys/net/core/bpf_jit_enable",
		"max_network_namespaces": "/proc/sys/user/max_net_namespaces",
		"transparent_hugepages":  "/sys/kernel/mm/transparent_hugepage/enabled",
		"scheduler_autogroup":    "/proc/sys/kernel/sched_autogroup_enabled",
	} {
		if b, err := os.ReadFile(path); err == nil {
			facts[key] = strings.TrimSpace(string(b))
		}
	}
	if b, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		facts["cgroup"] = strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && key == "Seccomp" {
				facts["seccomp"] = strings.TrimSpace(value)
			}
		}
	}
	if mitigations, err := readMitigations("/sys/devices/system/cpu/vulnerabilities"); err == nil {
		facts["mitigations"] = mitigations
	}
	return facts
}

func readMitigations(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) || err != nil {
			continue
		}
		if text := strings.TrimSpace(string(b)); text != "Not affected" {
			m[e.Name()] = text
		}
	}
	return m, nil
}

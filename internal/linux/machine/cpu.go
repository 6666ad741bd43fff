package machine

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// readCPUInfo reads from /proc/cpuinfo the name of the CPU and whether a hypervisor runs it. x86 has both (the flag
// "hypervisor", arch/x86/include/asm/cpufeatures.h), other architectures mostly neither.
func (m *machine) readCPUInfo() {
	for line := range strings.Lines(m.read("proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key = strings.TrimSpace(key); {
		case (key == "model name" || key == "cpu model") && m.name == "":
			m.name = value
		case key == "flags" && m.virtual == unknown:
			m.virtual = no
			if slices.Contains(strings.Fields(value), "hypervisor") {
				m.virtual = yes
			}
		}
	}
	if m.read("sys/hypervisor/type") != "" {
		m.virtual = yes
	}
}

// readTopology lists the CPUs that are online.
func (m *machine) readTopology() {
	online, _ := parseList(m.read(cpuDir + "online"))
	for _, n := range online {
		dir := fmt.Sprintf("%scpu%d/topology/", cpuDir, n)
		c := cpu{number: n, socket: -1}
		if socket, ok := m.number(dir + "physical_package_id"); ok {
			c.socket = socket // -1 if the firmware does not report it
		}
		for _, file := range []string{"core_cpus_list", "thread_siblings_list"} { // the second is the name before Linux 5.3
			if threads, ok := parseList(m.read(dir + file)); ok {
				c.threads, c.core = threads, writeList(threads)
				break
			}
		}
		m.cpus = append(m.cpus, c)
	}
}

func (m *machine) model() Finding {
	if m.name == "" {
		return Finding{Name: "cpu", Value: "not known: /proc/cpuinfo does not name it"}
	}
	return found("cpu", m.name)
}

func (m *machine) hypervisor() Finding {
	const name = "virtual_machine"
	switch m.virtual {
	case no:
		return found(name, "no")
	case unknown:
		return m.hidden(name)
	}
	// The hypervisor writes its own name into the firmware's description of the board.
	of := strings.TrimSpace(m.read("sys/class/dmi/id/sys_vendor") + " " + m.read("sys/class/dmi/id/product_name"))
	if kind := m.read("sys/hypervisor/type"); of == "" && kind != "" {
		of = kind
	}
	if of == "" {
		return found(name, "yes")
	}
	return found(name, "yes ("+of+")")
}

// cores returns the CPUs by core, in the order of their first threads; nil if the kernel does not report them.
func (m *machine) cores() [][]int {
	var cores [][]int
	seen := map[string]bool{}
	for _, c := range m.cpus {
		if c.core == "" {
			return nil
		}
		if !seen[c.core] {
			seen[c.core] = true
			cores = append(cores, c.threads)
		}
	}
	return cores
}

func (m *machine) topology() Finding {
	const name = "topology"
	cores := m.cores()
	if len(cores) == 0 {
		return m.hidden(name)
	}
	sockets := map[int]bool{}
	for _, c := range m.cpus {
		sockets[c.socket] = true
	}
	text := plural(len(sockets), "socket") + ", "
	if sockets[-1] {
		text = ""
	}
	text += fmt.Sprintf("%s, %s", plural(len(cores), "core"), plural(len(m.cpus), "CPU"))
	if nodes, ok := parseList(m.read("sys/devices/system/node/online")); ok && len(nodes) > 1 {
		text += fmt.Sprintf(", %d memory nodes", len(nodes))
	}
	return found(name, text)
}

func (m *machine) smt() Finding {
	const name = "smt"
	cores := m.cores()
	if len(cores) == 0 {
		return m.hidden(name)
	}
	most := 0
	for _, threads := range cores {
		most = max(most, len(threads))
	}
	if most == 1 {
		if m.virtual == yes {
			return Finding{
				Name:  name,
				Value: "not known: the virtual machine shows 1 thread per core, and hides whether two of them share a real one",
			}
		}
		if m.virtual == unknown {
			return found(name, "off, as far as the kernel knows")
		}
		return found(name, "off: 1 thread per core")
	}
	f := found(name, fmt.Sprintf("on: %d threads per core", most))
	shared := m.shared()
	if len(shared) == 0 {
		return f
	}
	f.Advice = fmt.Sprintf("CPUs %s are threads of one core and slow each other down", writeList(shared))
	if one := m.onePerCore(); len(one) > 1 {
		f.Advice += "; use one thread of each core, taskset --cpu-list " + writeList(one) + " nettoll run"
	}
	f.Advice += ", or switch it off, echo off > /sys/devices/system/cpu/smt/control"
	return f
}

// shared returns the used CPUs of the first core that has several of them.
func (m *machine) shared() []int {
	for _, threads := range m.cores() {
		var here []int
		for _, n := range m.both() {
			if slices.Contains(threads, n) {
				here = append(here, n)
			}
		}
		if len(here) > 1 {
			return here
		}
	}
	return nil
}

// onePerCore returns the first used CPU of each core.
func (m *machine) onePerCore() []int {
	var first []int
	for _, threads := range m.cores() {
		for _, n := range m.both() {
			if slices.Contains(threads, n) {
				first = append(first, n)
				break
			}
		}
	}
	return first
}

// both returns the used CPUs, in ascending order.
func (m *machine) both() []int {
	all := slices.Concat(m.Sources, m.Sinks)
	slices.Sort(all)
	return slices.Compact(all)
}

func (m *machine) used() Finding {
	const name = "cpus_used"
	if len(m.Sources) == 0 || len(m.Sinks) == 0 {
		return Finding{Name: name, Value: "not known: the affinity of this process cannot be read"}
	}
	f := found(name, fmt.Sprintf("sources %s, sinks %s", writeList(m.Sources), writeList(m.Sinks)))
	if len(m.both()) == 1 {
		f.Advice = "sources and sinks share the only CPU: give nettoll at least two"
	}
	return f
}

// each returns the contents of a file of each used CPU, or of every CPU if the used ones are unknown.
func (m *machine) each(file string) []string {
	which := m.both()
	if len(which) == 0 {
		for _, c := range m.cpus {
			which = append(which, c.number)
		}
	}
	values := map[string]bool{}
	for _, n := range which {
		if v := m.read(fmt.Sprintf("%scpu%d/%s", cpuDir, n, file)); v != "" {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values))
}

func (m *machine) governor() Finding {
	const name = "governor"
	governors := m.each("cpufreq/scaling_governor")
	if len(governors) == 0 {
		return m.hidden(name)
	}
	f := found(name, strings.Join(governors, ", "))
	if drivers := m.each("cpufreq/scaling_driver"); len(drivers) > 0 {
		f.Value += " (driver " + strings.Join(drivers, ", ") + ")"
	}
	if !slices.Equal(governors, []string{"performance"}) {
		f.Advice = "the clock follows the load: cpupower frequency-set -g performance"
	}
	return f
}

func (m *machine) turbo() Finding {
	const name = "turbo"
	for _, s := range []struct{ file, on, off string }{
		{"intel_pstate/no_turbo", "0", "1"}, // Documentation/admin-guide/pm/intel_pstate.rst
		{"cpufreq/boost", "1", "0"},         // Documentation/admin-guide/pm/cpufreq.rst
	} {
		switch m.read(cpuDir + s.file) {
		case s.off:
			return found(name, "off")
		case s.on:
			f := found(name, "on")
			f.Advice = fmt.Sprintf("the clock follows heat and neighbours: echo %s > /%s%s", s.off, cpuDir, s.file)
			return f
		}
	}
	return m.hidden(name)
}

// deepSleep is the exit latency from which waking up shows in a round trip, in µs.
const deepSleep = 20

func (m *machine) idleStates() Finding {
	const name = "idle_states"
	first := 0
	if used := m.both(); len(used) > 0 {
		first = used[0]
	}
	var names []string
	deepest := 0
	for i := 0; ; i++ {
		dir := fmt.Sprintf("%scpu%d/cpuidle/state%d/", cpuDir, first, i)
		state := m.read(dir + "name")
		if state == "" {
			break
		}
		if m.read(dir+"disable") == "1" {
			continue
		}
		latency, _ := m.number(dir + "latency") // exit latency in µs
		deepest = max(deepest, latency)
		names = append(names, fmt.Sprintf("%s %d µs", state, latency))
	}
	if len(names) == 0 && m.Asleep == "" {
		if entries, err := fs.ReadDir(m.root,
			strings.TrimSuffix(fmt.Sprintf("%scpu%d/cpuidle", cpuDir, first), "/")); err == nil && len(entries) > 0 {
			return found(name, "none")
		}
		return m.hidden(name)
	}
	f := found(name, cmp.Or(strings.Join(names, ", "), "none"))
	switch {
	case m.Awake:
		f.Value += "; nettoll keeps CPUs awake during trials"
	case m.Asleep != "":
		f.Advice = "threads that wait have to wake their CPU up: " + m.Asleep
	case deepest >= deepSleep:
		f.Advice = fmt.Sprintf("waking up takes up to %d µs: cpupower idle-set --disable-by-latency %d", deepest, deepSleep)
	}
	return f
}

func (m *machine) clocksource() Finding {
	const name, dir = "clocksource", "sys/devices/system/clocksource/clocksource0/"
	now := m.read(dir + "current_clocksource")
	if now == "" {
		return m.hidden(name)
	}
	f := found(name, now)
	// Clock sources that user space can read only by a system call to a slow device (arch/x86/kernel/hpet.c,
	// drivers/clocksource/acpi_pm.c).
	if slices.Contains([]string{"hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen"}, now) {
		f.Advice = "reading the time is slow"
		if available := strings.Fields(m.read(dir + "available_clocksource")); slices.Contains(available, "tsc") {
			f.Advice += ": echo tsc > /" + dir + "current_clocksource"
		} else {
			f.Advice += ": boot with tsc=reliable if the CPU's counter is"
		}
	}
	return f
}

const (
	// stealLimit is the share of a core that a hypervisor may take before results suffer; control warns from the same
	// value on.
	stealLimit = 0.02
	// busyLimit is how many cores other programs may keep busy. Above it, they share a CPU with sources and sinks more
	// often than not.
	busyLimit = 0.25
)

func (m *machine) steal() Finding {
	const name = "steal"
	stolen, ok := m.Modes["steal"]
	if !ok {
		return m.hidden(name)
	}
	f := found(name, fmt.Sprintf("%.0f %% of a core just now", 100*stolen))
	if stolen > stealLimit {
		f.Advice = "the hypervisor takes CPU time away: a quieter time, or a machine with CPUs of its own"
	}
	return f
}

func (m *machine) load() Finding {
	const name = "load"
	one, _, _ := strings.Cut(m.read("proc/loadavg"), " ")
	load, err := strconv.ParseFloat(one, 64)
	if err != nil {
		return m.hidden(name)
	}
	f := found(name, fmt.Sprintf("%.2f over the last minute", load))
	if m.Modes == nil {
		return f
	}
	busy := 0.0
	for mode, cores := range m.Modes {
		if mode != "idle" && mode != "iowait" && mode != "steal" {
			busy += cores
		}
	}
	f.Value += fmt.Sprintf(", %.1f cores busy just now", busy)
	if busy > busyLimit {
		f.Advice = "other programs use the CPUs: stop those that are not needed"
	}
	return f
}

func (m *machine) mitigations() Finding {
	const name, dir = "mitigations", cpuDir + "vulnerabilities"
	entries, err := fs.ReadDir(m.root, dir)
	if err != nil || len(entries) == 0 {
		return m.hidden(name)
	}
	var active, open []string
	none := 0
	for _, e := range entries {
		switch text := m.read(dir + "/" + e.Name()); {
		case strings.HasPrefix(text, "Not affected"):
			none++
		case strings.Contains(text, "Mitigation"):
			active = append(active, e.Name())
		default: // "Vulnerable…", "Unknown: …"
			open = append(open, e.Name())
		}
	}
	list := func(what string, names []string) string {
		if len(names) == 0 {
			return ""
		}
		return fmt.Sprintf("%d %s (%s), ", len(names), what, strings.Join(names, ", "))
	}
	return found(name, list("in place", active)+list("open or unknown", open)+fmt.Sprintf("%d not needed", none))
}

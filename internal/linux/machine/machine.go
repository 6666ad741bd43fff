package machine

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// A Finding is a fact about the machine.
type Finding struct {
	Name   string // stable: "idle_states"
	Value  string // for people; if it is unknown, the reason
	Known  bool
	Advice string // what would make results steadier or runs larger; "" if nothing would
}

// Options hold what is known about the machine in addition to its files.
type Options struct {
	// Sources and Sinks are the CPUs that an experiment would use by default.
	Sources, Sinks []int
	// Modes is how many cores were in each mode of /proc/stat just now; nil if unknown.
	Modes map[string]float64
	// Awake says that nettoll can keep CPUs awake during trials, and Asleep why it cannot; "" if unknown.
	Awake  bool
	Asleep string
	// Unlimited is what limits of containers lack, and LimitHelp what would help; "" if nothing is missing.
	Unlimited, LimitHelp string
	// Docker is the machine's own daemon of Docker, as "20.10.24 at /run/docker.sock". NoDocker is what is missing to use
	// one, and DockerHelp what would help. All are "" if nobody has asked.
	Docker, NoDocker, DockerHelp string
	// Plugins has what brings each plugin of CNI that networks can call, by its name, and PluginFolders the folders in
	// which those look for plugins.
	Plugins       map[string]string
	PluginFolders []string
}

// Look reads the files of a machine below its root directory.
func Look(root fs.FS, o Options) []Finding {
	m := &machine{root: root, Options: o}
	m.readCPUInfo()
	m.readTopology()
	return slices.Concat(
		[]Finding{m.model(), m.hypervisor(), m.topology(), m.smt(), m.used()},
		[]Finding{m.governor(), m.turbo(), m.idleStates(), m.clocksource()},
		[]Finding{m.steal(), m.load(), m.mitigations(), m.kernel(), m.congestion(), m.tracking()},
		m.limits(), m.cni(),
	)
}

// machine holds the facts that several findings need.
type machine struct {
	Options
	root    fs.FS
	name    string // of the CPU; "" if unknown
	virtual answer
	cpus    []cpu // online CPUs, in ascending order
}

// answer is yes, no, or unknown.
type answer int

const (
	unknown answer = iota
	yes
	no
)

// cpu is one CPU of the kernel: a thread of a core.
type cpu struct {
	number  int
	core    string // the same for all threads of a core: the list of their numbers; "" if unknown
	threads []int  // of that core
	socket  int    // -1 if unknown
}

const cpuDir = "sys/devices/system/cpu/"

// read returns the contents of a file, without surrounding space; "" if it cannot be read.
func (m *machine) read(path string) string {
	b, err := fs.ReadFile(m.root, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the number in a file.
func (m *machine) number(path string) (int, bool) {
	n, err := strconv.Atoi(m.read(path))
	return n, err == nil
}

// hidden returns a finding that says why a fact is unknown.
func (m *machine) hidden(name string) Finding {
	if m.virtual == yes {
		return Finding{Name: name, Value: "not known: the virtual machine hides it"}
	}
	return Finding{Name: name, Value: "not known: the kernel does not show it"}
}

func found(name, value string) Finding { return Finding{Name: name, Value: value, Known: true} }

// parseList reads a list of numbers in the kernel's format: "0-3,8" (cpulist,
// Documentation/admin-guide/cputopology.rst).
func parseList(s string) ([]int, bool) {
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(first)
		if err != nil || a < 0 {
			return nil, false
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(last); err != nil || b < a || b-a > maxCPUs {
				return nil, false
			}
		}
		for n := a; n <= b; n++ {
			list = append(list, n)
		}
	}
	return list, true
}

// maxCPUs is more than any kernel supports (NR_CPUS, arch/x86/Kconfig).
const maxCPUs = 8192

// writeList is the inverse of parseList.
func writeList(list []int) string {
	var b strings.Builder
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(list[i]))
		if j > i {
			fmt.Fprintf(&b, "-%d", list[j])
		}
		i = j + 1
	}
	return b.String()
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

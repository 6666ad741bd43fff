package machine

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/internal/linux/userns"
)

const sysctlDir = "proc/sys/"

func (m *machine) kernel() Finding {
	release := m.read(sysctlDir + "kernel/osrelease")
	if release == "" {
		return m.hidden("kernel")
	}
	return found("kernel", "Linux "+release)
}

// Tracked reports whether every network namespace of the machine tracks connections. Before Linux 6.12 the module
// openvswitch makes all of them do that (nf_conncount_init, net/netfilter/nf_conncount.c).
func Tracked(root fs.FS) bool { return (&machine{root: root}).tracked() == yes }

// FullNeighbours returns, by family, how often since its start the kernel had no room in its table of neighbours. All
// network namespaces share that table, and packets for a neighbour that does not fit in are dropped (neigh_alloc,
// net/core/neighbour.c). A family whose count cannot be read is left out.
func FullNeighbours(root fs.FS) map[string]int64 {
	full := map[string]int64{}
	for family, table := range map[string]string{"ipv4": "arp_cache", "ipv6": "ndisc_cache"} {
		for _, of := range []string{"1", "self"} { // only the first namespace of the machine has the file
			b, err := fs.ReadFile(root, "proc/"+of+"/net/stat/"+table)
			if err != nil {
				continue
			}
			if n, ok := column(string(b), "table_fulls"); ok {
				full[family] = n
				break
			}
		}
	}
	return full
}

// column adds up a column of hexadecimal numbers, one line for each CPU, below a line of names.
func column(text, name string) (sum int64, ok bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	at := slices.Index(strings.Fields(lines[0]), name)
	if at < 0 {
		return 0, false
	}
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if at >= len(fields) {
			return 0, false
		}
		n, err := strconv.ParseInt(fields[at], 16, 64)
		if err != nil {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

func (m *machine) tracked() answer {
	var major, minor int
	if _, err := fmt.Sscanf(m.read(sysctlDir+"kernel/osrelease"), "%d.%d", &major, &minor); err != nil {
		return unknown
	}
	if _, err := fs.Stat(m.root, "sys/module/openvswitch"); err == nil && (major < 6 || major == 6 && minor < 12) {
		return yes
	}
	return no
}

func (m *machine) tracking() Finding {
	const name = "connection_tracking"
	switch m.tracked() {
	case yes:
		f := found(name, "in every network namespace, because the module openvswitch is loaded")
		f.Advice = "all stacks pay for it: rmmod openvswitch, or Linux 6.12"
		return f
	case no:
		return found(name, "in network namespaces with something that asks for it")
	}
	return m.hidden(name)
}

func (m *machine) congestion() Finding {
	const name, dir = "congestion_control", sysctlDir + "net/ipv4/tcp_"
	now := m.read(dir + "congestion_control")
	if now == "" {
		return m.hidden(name)
	}
	return found(name, fmt.Sprintf("%s by default; available %s; allowed to everyone %s", now,
		orNone(m.read(dir+"available_congestion_control")), orNone(m.read(dir+"allowed_congestion_control"))))
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return strings.Join(strings.Fields(list), ", ")
}

// The needs of a large experiment: 500 pairs have two containers each, and each container has a thread and at least one
// socket.
const (
	wantNeighbours = 1024
	wantTracked    = 16384
	wantThreads    = 2048
	wantFiles      = 4096
	wantNamespaces = 1024
)

// limits returns the limits that many containers would reach.
func (m *machine) limits() []Finding {
	list := []Finding{
		m.limit("neighbours", "net.ipv4.neigh.default.gc_thresh3", wantNeighbours, 8192,
			"many containers on one link forget each other"),
		m.limit("tracked_connections", "net.netfilter.nf_conntrack_max", wantTracked, 262144,
			"connections above it are dropped"),
		m.threads(),
		m.files(),
		m.limit("network_namespaces", "user.max_net_namespaces", wantNamespaces, 10000,
			"each host and each container takes one"),
		m.userNamespaces(),
		m.containerLimits(),
	}
	const docker = "machine_docker"
	switch {
	case m.Docker != "":
		list = append(list, found(docker, m.Docker+", for --runtime 'docker(use=machine)'"))
	case m.NoDocker != "":
		list = append(list, found(docker, "not for docker(use=machine): missing "+m.NoDocker+hint(m.DockerHelp)))
	}
	return list
}

// hint is what stands behind a value that something would help; "" if nothing would.
func hint(help string) string {
	if help == "" {
		return ""
	}
	return " (hint: " + help + ")"
}

// containerLimits reports whether containers can have limits.
func (m *machine) containerLimits() Finding {
	const name = "container_limits"
	if m.Unlimited == "" {
		return found(name, "of CPU time, CPUs and memory")
	}
	f := found(name, "not all: missing "+m.Unlimited)
	f.Advice = "the parameters cpus, cpuset and memory of runtimes need it: " + m.LimitHelp
	return f
}

// userNamespaces reports whether unprivileged users can run experiments.
func (m *machine) userNamespaces() Finding {
	const name = "user_namespaces"
	if obstacles := userns.Obstacles(m.root); len(obstacles) > 0 {
		f := found(name, "not for ordinary users: "+obstacles[0].String())
		f.Advice = "only root can run experiments: " + obstacles[0].Help()
		return f
	}
	n, ok := m.number(sysctlDir + "user/max_user_namespaces")
	if !ok {
		return m.hidden(name)
	}
	return found(name, fmt.Sprintf("at most %d per user", n))
}

// limit returns a finding about a sysctl whose number must not be too small.
func (m *machine) limit(name, key string, least, better int, why string) Finding {
	n, ok := m.number(sysctlDir + strings.ReplaceAll(key, ".", "/"))
	if !ok {
		return Finding{
			Name: name,
			Value: fmt.Sprintf("not known: no sysctl %s (module not loaded, or not in this kernel or namespace)",
				key),
		}
	}
	f := found(name, fmt.Sprintf("at most %d", n))
	if n < least {
		f.Advice = fmt.Sprintf("%s: sysctl -w %s=%d", why, key, better)
	}
	return f
}

// limitRow returns a row of /proc/self/limits, "unlimited" as -1.
func (m *machine) limitRow(name string) (soft, hard int, ok bool) {
	for line := range strings.Lines(m.read("proc/self/limits")) {
		rest, is := strings.CutPrefix(line, name)
		fields := strings.Fields(rest)
		if !is || len(fields) < 2 {
			continue
		}
		parse := func(s string) int {
			n, err := strconv.Atoi(s)
			if err != nil {
				return -1
			}
			return n
		}
		return parse(fields[0]), parse(fields[1]), true
	}
	return 0, 0, false
}

// threads returns the smallest of the limits on processes and threads.
func (m *machine) threads() Finding {
	const name = "threads"
	least, which, help := -1, "", ""
	take := func(n int, from, more string) {
		if n >= 0 && (least < 0 || n < least) {
			least, which, help = n, from, more
		}
	}
	for _, key := range []string{"kernel.pid_max", "kernel.threads-max"} {
		if n, ok := m.number(sysctlDir + strings.ReplaceAll(key, ".", "/")); ok {
			take(n, "sysctl "+key, fmt.Sprintf("sysctl -w %s=%d", key, 16*wantThreads))
		}
	}
	if soft, _, ok := m.limitRow("Max processes"); ok {
		take(soft, "ulimit -u", fmt.Sprintf("ulimit -u %d", 16*wantThreads))
	}
	for line := range strings.Lines(m.read("proc/self/cgroup")) {
		where, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		for ; ok; where = path.Dir(where) { // version 2, cgroups(7): every group above also has a limit
			dir := path.Join("sys/fs/cgroup", where)
			if n, limited := m.number(dir + "/pids.max"); limited {
				take(n, "cgroup /"+where, fmt.Sprintf("a larger pids.max in /%s", dir))
			}
			if where == "." || where == "" {
				break
			}
		}
	}
	if least < 0 {
		return m.hidden(name)
	}
	f := found(name, fmt.Sprintf("at most %d (%s)", least, which))
	if least < wantThreads {
		f.Advice = "many pairs take many threads: " + help
	}
	return f
}

func (m *machine) files() Finding {
	const name = "open_files"
	_, hard, ok := m.limitRow("Max open files")
	if !ok {
		return m.hidden(name)
	}
	if hard < 0 {
		return found(name, "unlimited")
	}
	f := found(name, fmt.Sprintf("at most %d per process", hard))
	if hard < wantFiles {
		f.Advice = fmt.Sprintf("one process holds the sockets of all pairs: ulimit -Hn %d", 16*wantFiles)
	}
	return f
}

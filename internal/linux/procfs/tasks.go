package procfs

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Ceiling is a limit on the number of processes and threads; each thread of a process counts.
type Ceiling struct {
	Limit string // "ulimit -u (RLIMIT_NPROC)"
	Most  int
	Used  int    // of the visible ones: in a PID namespace, fewer than there are
	Whose string // which ones are counted: "of this user"
	Help  string // "raise it with ulimit -u"
	// Refused is how many processes and threads the limit has refused until now, as far as the kernel counts that: for
	// control groups.
	Refused int
}

// Left returns how many more can be started.
func (c Ceiling) Left() int { return max(0, c.Most-c.Used) }

// String describes the limit, and how much of it is used.
func (c Ceiling) String() string {
	said := fmt.Sprintf("%s is %d, and %d processes and threads %s run", c.Limit, c.Most, c.Used, c.Whose)
	if c.Refused > 0 {
		said += fmt.Sprintf("; it has refused %d", c.Refused)
	}
	return said
}

// Near reports whether this limit is the probable reason that a process or thread could not be started. Some of those
// counted may have ended since.
func (c Ceiling) Near() bool { return c.Left() <= 32 || 2*c.Used > c.Most || c.Refused > 0 }

// Capabilities that exempt a process from RLIMIT_NPROC, only in the first user namespace (kernel/fork.c, copy_process;
// include/uapi/linux/capability.h).
const (
	capSysAdmin    = 21
	capSysResource = 24
)

// Ceilings returns the limits that apply to this process, the one with the least room first: RLIMIT_NPROC
// (setrlimit(2)) unless the process is exempt, pids.max of its control groups (Documentation/admin-guide/cgroup-v2.rst;
// cgroup-v1/pids.rst), kernel.threads-max and kernel.pid_max. Root is the root of the file system. It leaves out limits
// that it cannot read.
func Ceilings(root fs.FS) []Ceiling {
	var all []Ceiling
	if c, ok := perUser(root); ok {
		all = append(all, c)
	}
	all = append(all, controlled(root)...)
	// "0.20 0.18 0.12 1/80 11206": the fourth field is how many run, and how many exist (proc_loadavg(5)).
	if fields := strings.Fields(content(root, "proc/loadavg")); len(fields) > 3 {
		_, there, _ := strings.Cut(fields[3], "/")
		used, _ := strconv.Atoi(there)
		for _, name := range []string{"threads-max", "pid_max"} {
			if most, err := strconv.Atoi(strings.TrimSpace(content(root, "proc/sys/kernel/"+name))); err == nil {
				all = append(all, Ceiling{
					Limit: "kernel." + name, Most: most, Used: used, Whose: "of this machine", Help: "raise the sysctl kernel." + name,
				})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Ceiling) int { return a.Left() - b.Left() })
	return all
}

// Narrow reports whether a limit allows fewer processes and threads than most. Unlike [Ceilings], it reads no
// processes, so that every start of a program can call it.
func Narrow(root fs.FS, most int) bool {
	if n, limited := Rlimit(root, "Max processes"); limited && n < int64(most) {
		return true
	}
	return slices.ContainsFunc(controlled(root), func(c Ceiling) bool { return c.Most < most })
}

// perUser returns RLIMIT_NPROC; false if the process is exempt or has no limit.
func perUser(root fs.FS) (Ceiling, bool) {
	most, limited := Rlimit(root, "Max processes")
	own := status(root, "self")
	uid := own["Uid"]
	if !limited || uid == "" || exempt(root, uid, own["CapEff"]) {
		return Ceiling{}, false
	}
	c := Ceiling{
		Limit: "ulimit -u (RLIMIT_NPROC)", Most: int(most), Whose: "of this user",
		Help: "raise it with ulimit -u",
	}
	entries, _ := fs.ReadDir(root, "proc") // without them, nothing seems used
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if s := status(root, e.Name()); s["Uid"] == uid {
			threads, _ := strconv.Atoi(s["Threads"])
			c.Used += threads
		}
	}
	return c, true
}

// exempt reports whether the limit does not apply to a user. It never applies to root of the first user namespace.
func exempt(root fs.FS, uid, capabilities string) bool {
	own, _ := strconv.Atoi(uid)
	for line := range strings.Lines(content(root, "proc/self/uid_map")) {
		var n [3]int // the first ID inside, the first ID outside, the count (user_namespaces(7))
		fields := strings.Fields(line)
		for i := range min(len(fields), len(n)) {
			n[i], _ = strconv.Atoi(fields[i])
		}
		if own < n[0] || own >= n[0]+n[2] {
			continue
		}
		if n[1]+own-n[0] == 0 {
			return true
		}
		effective, _ := strconv.ParseUint(capabilities, 16, 64)
		return n[2] == 1<<32-1 && effective&(1<<capSysAdmin|1<<capSysResource) != 0
	}
	return false
}

// status returns the first word of each line of /proc/PID/status.
func status(root fs.FS, pid string) map[string]string {
	words := map[string]string{}
	for line := range strings.Lines(content(root, "proc/"+pid+"/status")) {
		name, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			words[name] = fields[0]
		}
	}
	return words
}

// controlled returns the limits of the control groups, in either hierarchy.
func controlled(root fs.FS) []Ceiling {
	var all []Ceiling
	for line := range strings.Lines(content(root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path (cgroups(7))
		if len(parts) != 3 || parts[1] != "" && !slices.Contains(strings.Split(parts[1], ","), "pids") {
			continue
		}
		mounts := []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		if parts[1] != "" {
			mounts = []string{"sys/fs/cgroup/pids", "sys/fs/cgroup/" + parts[1]}
		}
		for group := path.Clean(parts[2]); ; group = path.Dir(group) {
			for _, mount := range mounts {
				dir := path.Join(mount, strings.TrimPrefix(group, "/"))
				// "max", or a number; the root group has no such file
				most, err := strconv.Atoi(strings.TrimSpace(content(root, dir+"/pids.max")))
				used, uerr := strconv.Atoi(strings.TrimSpace(content(root, dir+"/pids.current")))
				if err == nil && uerr == nil {
					all = append(all, Ceiling{
						Limit: fmt.Sprintf("pids.max of the control group %q", group), Most: most, Used: used, Whose: "in it",
						Help:    "raise it: in a container, docker run --pids-limit; of a systemd unit, TasksMax",
						Refused: refusals(root, dir),
					})
					break
				}
			}
			if group == "/" || group == "." {
				break
			}
		}
	}
	return all
}

// refusals returns how many processes and threads pids.max of a control group has refused: "max 2" in its pids.events.
func refusals(root fs.FS, dir string) int {
	for line := range strings.Lines(content(root, dir+"/pids.events")) {
		if count, is := strings.CutPrefix(line, "max "); is {
			n, _ := strconv.Atoi(strings.TrimSpace(count))
			return n
		}
	}
	return 0
}

// Rlimit returns the soft limit of a resource, with its name in /proc/self/limits ("Max address space"); false if it is
// unlimited or unknown.
func Rlimit(root fs.FS, name string) (int64, bool) { return rlimit(root, name, 0) }

// HardRlimit is like [Rlimit], for the hard limit.
func HardRlimit(root fs.FS, name string) (int64, bool) { return rlimit(root, name, 1) }

func rlimit(root fs.FS, name string, field int) (int64, bool) {
	for line := range strings.Lines(content(root, "proc/self/limits")) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if fields := strings.Fields(rest); len(fields) > field {
				n, err := strconv.ParseInt(fields[field], 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}

// content returns the text of a file; "" if it cannot be read.
func content(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(b)
}

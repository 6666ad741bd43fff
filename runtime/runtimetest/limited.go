package runtimetest

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/runtime"
)

// The limits of the containers of [Want.limited].
const (
	limitedCPUs   = 0.2
	limitedMemory = 32 << 20
)

// limits are the parameters that set them, as far as a runtime has them. All CPUs but one are left out, if there are
// more.
func limits(t *testing.T, r runtime.Runtime) map[string]string {
	t.Helper()
	all := map[string]string{"cpus": "0.2", "cpuset": firstCPU(t), "memory": "32MiB"}
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(r.Describe().Params.Names(), name) })
	return all
}

// firstCPU is a CPU that processes may use.
func firstCPU(t *testing.T) string {
	t.Helper()
	cpus, err := cgroup.ParseCPUs(status(t, os.Getpid())["Cpus_allowed_list"])
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(cpus[0])
}

// limited wants limits to be in the files of cgroups, to be felt by processes there, and to be told where a container
// ends by them.
func (w Want) limited(t *testing.T, l deploy.Lab, own map[string]int) {
	t.Helper()
	cpus := firstCPU(t)
	for name, pid := range own {
		if got := begun(t, pid); got != fmt.Sprintf(began, 1) {
			t.Errorf("the worker of %s %q, want 1", name, got)
		}
		of := groupsOf(t, pid)
		for file, want := range map[string]string{
			"cpu.cfs_quota_us": "20000", "cpu.cfs_period_us": "100000", "cpu.max": "20000 100000",
			"cpuset.cpus":           cpus,
			"memory.limit_in_bytes": strconv.Itoa(limitedMemory), "memory.max": strconv.Itoa(limitedMemory),
			"memory.memsw.limit_in_bytes": strconv.Itoa(limitedMemory), "memory.swap.max": "0",
		} {
			got, there := of.read(t, file)
			if file == "memory.swap.max" {
				got, there = of.swap(t)
			}
			if there && got != want && !(file == "memory.memsw.limit_in_bytes" && w.Swaps) {
				t.Errorf("%s of %s is %q, want %q", file, name, got, want)
			}
		}
		for _, either := range [][]string{
			{"cpu.cfs_quota_us", "cpu.max"}, {"cpuset.cpus"}, {"memory.limit_in_bytes", "memory.max"},
		} {
			if !slices.ContainsFunc(either, func(file string) bool { _, there := of.read(t, file); return there }) {
				t.Errorf("%s has no file %q", name, either)
			}
		}
	}
	groupsOf(t, own["src0"]).rest(t)
	burns(t, l, own, cpus)
	apart(t, l, own)
	runsOut(t, l, own["src0"])
}

// begun waits until a worker has begun, which takes a while with so little CPU time, and returns its name.
func begun(t *testing.T, pid int) (name string) {
	t.Helper()
	for end := time.Now().Add(patience()); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			t.Fatal(err)
		}
		name = strings.TrimSpace(string(text))
		if strings.HasPrefix(name, strings.TrimSuffix(began, "%d CPU")) || time.Now().After(end) {
			return name
		}
	}
}

// groups are the directories of the cgroups of a process with the controllers of limits, by hierarchy.
type groups []string

// groupsOf finds them, as somebody outside.
func groupsOf(t *testing.T, pid int) (g groups) {
	t.Helper()
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, h := range hierarchies {
			if h.V2 && fields[1] == "" || !h.V2 && fields[1] == strings.Join(h.Controllers, ",") {
				g = append(g, filepath.Join(h.Dir, fields[2]))
			}
		}
	}
	return g
}

// rest waits until the processes of a group have started: until they use hardly any CPU time in a period of the limit.
func (g groups) rest(t *testing.T) {
	t.Helper()
	const little = 2 * time.Millisecond
	for end := time.Now().Add(patience()); ; {
		before := g.used(t)
		time.Sleep(runtime.Period * time.Microsecond)
		if g.used(t)-before < little {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the processes of %q go on to work", []string(g))
		}
	}
}

// read reads a file of the group that has it.
func (g groups) read(t *testing.T, file string) (text string, there bool) {
	t.Helper()
	for _, dir := range g {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			return strings.TrimSpace(string(text)), true
		}
	}
	return "", false
}

// swap reads the limit of swap of the group of v2, or of one above it, where it holds for the group, too.
func (g groups) swap(t *testing.T) (limit string, there bool) {
	t.Helper()
	for _, dir := range g {
		for ; ; dir = filepath.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(dir, "memory.swap.max"))
			if err != nil {
				break // the root has none, nor has v1
			}
			there = true
			if limit = strings.TrimSpace(string(text)); limit != "max" {
				return limit, true
			}
		}
	}
	return limit, there
}

// number reads a number behind a key of a file, or 0.
func (g groups) number(t *testing.T, file, key string) (n int64) {
	t.Helper()
	text, _ := g.read(t, file)
	for line := range strings.Lines(text) {
		if _, err := fmt.Sscanf(line, key+" %d", &n); err == nil {
			return n
		}
	}
	return 0
}

// lift removes the limit of CPU time, with which it would take a guest minutes to use up memory.
func (g groups) lift(t *testing.T) {
	t.Helper()
	for file, none := range map[string]string{"cpu.cfs_quota_us": "-1", "cpu.max": "max"} {
		for _, dir := range g {
			path := filepath.Join(dir, file)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			if err := os.WriteFile(path, []byte(none), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
}

// used is the CPU time of the group.
func (g groups) used(t *testing.T) time.Duration {
	t.Helper()
	if text, there := g.read(t, "cpuacct.usage"); there {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(n)
	}
	return time.Duration(g.number(t, "cpu.stat", "usage_usec")) * time.Microsecond
}

// join starts a shell in the groups, which runs a script when begin is called. Line waits for a line of its output.
func (g groups) join(t *testing.T, script string) (cmd *exec.Cmd, begin, line func()) {
	t.Helper()
	cmd = exec.Command("sh", "-c", "echo; read x; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said := bufio.NewReader(out)
	line = func() {
		t.Helper()
		if _, err := said.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	line() // what it took to start is not of the group
	for _, dir := range g {
		pid := []byte(strconv.Itoa(cmd.Process.Pid))
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cmd, func() {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
	}, line
}

// burns wants a process to get the CPU time of the limit and no more, on the CPUs of the container, and the lab to tell
// what was used as the kernel tells the process's parent (getrusage(2)). It burns until the container has used three
// times what the other one has.
func burns(t *testing.T, l deploy.Lab, own map[string]int, cpus string) {
	t.Helper()
	g, other := groupsOf(t, own["src0"]), groupsOf(t, own["snk0"])
	before, throttled := use(t, l), g.number(t, "cpu.stat", "nr_throttled")
	cmd, begin, _ := g.join(t, "while :; do :; done")
	if got := status(t, cmd.Process.Pid)["Cpus_allowed_list"]; got != cpus {
		t.Errorf("a process in the container may use CPUs %s, want %s", got, cpus)
	}
	const (
		least = 400 * time.Millisecond
		quota = 20 * time.Millisecond
		tick  = 4 * time.Millisecond
	)
	// A busy machine may give it less than the limit for a while. An emulated one has taken seconds for the other.
	longest := 20*time.Second + time.Duration(3*float64(other.used(t))/limitedCPUs)
	outside := ran(t, cmd.Process.Pid)
	began := time.Now()
	begin()
	for time.Since(began) < least || g.number(t, "cpu.stat", "nr_throttled") < throttled+2 ||
		g.used(t) < 3*other.used(t) {
		if time.Since(began) > longest {
			t.Fatalf("a process that never rests was not stopped within %v", longest)
		}
		time.Sleep(tick)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	took, after := time.Since(began), use(t, l)
	burnt := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() - outside
	if most := time.Duration(limitedCPUs*float64(took)) + 2*quota; burnt > most || burnt < quota {
		t.Errorf("a process that never rests used %v of CPU time in %v, want %v to %v", burnt, took, quota, most)
	}
	// What the worker does meanwhile is less than a period grants.
	if told := after.CPU - before.CPU; told < burnt-quota || told > burnt+quota {
		t.Errorf("the cgroup has used %v, and the process in it %v", told, burnt)
	}
	if told, read := after.CPU, g.used(t); told > read || told < read-quota {
		t.Errorf("the lab says that the container has used %v, its cgroup says %v", told, read)
	}
	if n := after.Throttled - before.Throttled; n < 2 || n > after.Periods-before.Periods {
		t.Errorf("%d of %d periods throttled", n, after.Periods-before.Periods)
	}
}

// ran is how long a process has run so far, as the scheduler says: before it burns, it had to start.
func ran(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	if _, err := fmt.Sscan(string(text), &n); err != nil {
		t.Fatal(err)
	}
	return time.Duration(n)
}

// use asks a lab what the container of the first source has used.
func use(t *testing.T, l deploy.Lab) deploy.ContainerUse {
	t.Helper()
	list, err := l.(deploy.Contained).ContainerUse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(u deploy.ContainerUse) bool { return u.Host == "host1" && u.Name == "src0" })
	if i < 0 {
		t.Fatalf("containers %v, want src0 of host1", list)
	}
	if m := list[i].Memory; m <= 0 || m > limitedMemory {
		t.Errorf("the container uses %d bytes, want 1 to %d", m, limitedMemory)
	}
	return list[i]
}

// held is the memory of [holds]. A shell takes a few times as much for a moment.
const held = 4 << 20

// holds has a process in the first source's container hold memory, until release is called. Others in the container may
// give some back meanwhile, and the kernel charges a group in advance for each CPU: how much the process itself holds
// says its status.
func holds(t *testing.T, own map[string]int) (release func()) {
	t.Helper()
	const more = held / 8 // the kernel may count some pages of a process late, for each CPU
	script := fmt.Sprintf(`x=$(head -c %d /dev/zero | tr '\0' x); echo; read y`, held+more)
	cmd, begin, line := groupsOf(t, own["src0"]).join(t, script)
	begin()
	line() // what it took for a moment it has given back
	var kb int64
	if _, err := fmt.Sscanf(status(t, cmd.Process.Pid)["RssAnon"], "%d kB", &kb); err != nil || kb<<10 < held {
		t.Fatalf("a process holds %d kB (%v), want %d bytes or more", kb, err, held)
	}
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	}
}

// memory is what the group uses now.
func (g groups) memory(t *testing.T) int64 {
	t.Helper()
	text, there := g.read(t, "memory.usage_in_bytes")
	if !there {
		text, there = g.read(t, "memory.current")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !there {
		t.Fatalf("groups %q have no memory: %v", []string(g), err)
	}
	return n
}

// apart wants a lab to report for each container what its own cgroup says to somebody outside. One of them has burnt
// CPU time by then, which never gets less, and begins to hold memory.
func apart(t *testing.T, l deploy.Lab, own map[string]int) {
	t.Helper()
	least := map[string]time.Duration{}
	for name, pid := range own {
		least[name] = groupsOf(t, pid).used(t)
	}
	before := uses(t, l, own)
	release := holds(t, own)
	defer release()
	const changes = held / 4 // of memory, while nobody works there
	more := map[string]int64{}
	for name, u := range uses(t, l, own) {
		g := groupsOf(t, own[name])
		if most := g.used(t); u.CPU < least[name] || u.CPU > most {
			t.Errorf("the lab says that %s has used %v, its cgroup says %v to %v", name, u.CPU, least[name], most)
		}
		if has := g.memory(t); u.Memory < has-changes || u.Memory > has+changes {
			t.Errorf("the lab says that %s uses %d bytes of memory, its cgroup says %d", name, u.Memory, has)
		}
		more[name] = u.Memory - before[name].Memory
		t.Logf("%s has used %v of CPU time, %d of its %d periods were stopped, and it uses %d bytes of memory", name, u.CPU,
			u.Throttled, u.Periods, u.Memory)
	}
	if least["src0"] < 2*least["snk0"] {
		t.Errorf("src0 has used %v and snk0 %v: nothing shows that they are told apart", least["src0"], least["snk0"])
	}
	if more["src0"] < held-changes || more["snk0"] > changes {
		t.Errorf("a process in src0 holds %d bytes, and the lab says that src0 uses %d more and snk0 %d more", held,
			more["src0"], more["snk0"])
	}
}

// uses asks a lab what each container has used.
func uses(t *testing.T, l deploy.Lab, own map[string]int) map[string]deploy.ContainerUse {
	t.Helper()
	list, err := l.(deploy.Contained).ContainerUse(t.Context())
	if err != nil || len(list) != len(own) {
		t.Fatalf("containers %v (%v), want %d", list, err, len(own))
	}
	by := map[string]deploy.ContainerUse{}
	for _, u := range list {
		by[u.Name] = u
	}
	return by
}

// runsOut wants the kernel to end what needs more memory than the limit, and whoever waits for the worker to learn why.
func runsOut(t *testing.T, l deploy.Lab, pid int) {
	t.Helper()
	w := start(t, l)
	// The kernel begins with this one.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := groupsOf(t, pid)
	cmd, begin, _ := g.join(t, "exec tail /dev/zero") // the last line has no end
	defer func() {
		if !t.Failed() {
			return
		}
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		events, _ := g.read(t, "memory.events")
		procs, _ := g.read(t, "cgroup.procs")
		t.Logf("the worker, %d: %v; memory of %q: %s; its processes, with %d: %s", pid, err, []string(g), events,
			cmd.Process.Pid, procs)
	}()
	g.lift(t)
	begin()
	ended(t, w)
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "its container ran out of memory") ||
		!strings.Contains(err.Error(), "memory=32MiB") {
		t.Errorf("the container ran out of memory: %v", err)
	}
	_ = cmd.Wait()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("a process that needs more and more memory ended with %v", cmd.ProcessState)
	}
}

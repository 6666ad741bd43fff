package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/linux/rights"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
)

// A Want is what differs between runtimes in whose containers workers run.
type Want struct {
	// Capabilities are the effective ones of a worker, as in /proc/PID/status.
	Capabilities uint64
	// Unknown are those that the runtime may leave out because it is older than they are.
	Unknown uint64
	// Root lists the root directory of a container.
	Root []string
	// Swaps says that the limit of memory of containers does not hold for swap with cgroups of v1.
	Swaps bool
	// NewPrivileges says that programs can give a process privileges (PR_SET_NO_NEW_PRIVS, prctl(2)).
	NewPrivileges bool
	// Filtered says that its system calls are filtered (seccomp(2)).
	Filtered bool
	// Writable says that a process can write to its root.
	Writable bool
	// Users says that it has a user namespace, to which its network namespace belongs.
	Users bool
}

// Usual are the capabilities that Docker leaves to root in a container, as capsh --decode has them.
const Usual = 0xa80425fb

// Own returns the capabilities of this process.
func Own(t *testing.T) uint64 {
	t.Helper()
	set, err := strconv.ParseUint(status(t, os.Getpid())["CapPrm"], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// status reads /proc/PID/status.
func status(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		all[key] = strings.TrimSpace(value)
	}
	return all
}

// Inhabited checks a runtime in whose containers workers run, with given parameters: their namespaces, rights and
// cgroups, their streams, their end, and that nothing is left of them. The package's TestMain runs the roles of hosts.
func Inhabited(t *testing.T, r runtime.Runtime, given map[string]string, want Want) {
	inhabit(t, r, given, []inhabitedCheck{
		{name: "namespaces", hosts: 2, check: want.separate},
		{name: "rights", hosts: 1, check: want.rights},
		{name: "cgroups", hosts: 1, nested: true, check: counted},
		{name: "limits", hosts: 1, nested: true, more: limits(t, r), check: want.limited},
		{name: "calls", hosts: 2, check: func(t *testing.T, l deploy.Lab, _ map[string]int) { calls(t, l) }},
		{name: "affinity", hosts: 1, check: pinned},
		{name: "death", hosts: 1, check: dies},
		{name: "kill", hosts: 1, check: killed},
		{name: "alone", hosts: 1, check: func(t *testing.T, l deploy.Lab, _ map[string]int) {
			alone(t, l, r, chosen(t, r, given, nil))
		}},
	})
}

// Confined checks that a runtime gives the rights that parameters of [runtime.RightsParams] choose. Want is what holds
// with the defaults of those.
func Confined(t *testing.T, r runtime.Runtime, given map[string]string, want Want) {
	profile := map[bool]string{false: "none", true: "usual"}
	for _, c := range []struct {
		name                    string
		capabilities            string
		filtered, newPrivileges bool
	}{{"few rights", "none", true, false}, {"other defaults", "usual", !want.Filtered, !want.NewPrivileges}} {
		t.Run(c.name, func(t *testing.T) {
			p, w := maps.Clone(given), want
			if p == nil {
				p = map[string]string{}
			}
			p[runtime.Capabilities], p[runtime.Seccomp] = c.capabilities, profile[c.filtered]
			p[runtime.NoNewPrivileges] = strconv.FormatBool(!c.newPrivileges)
			w.Filtered, w.NewPrivileges = c.filtered, c.newPrivileges
			if c.capabilities == "none" {
				w.Capabilities, w.Unknown = 0, 0
			}
			inhabit(t, r, p, []inhabitedCheck{{name: "rights", hosts: 1, check: w.rights}})
		})
	}
}

// An inhabitedCheck is a check of a lab with containers on some hosts, given the numbers of their workers.
type inhabitedCheck struct {
	name   string
	hosts  int
	nested bool              // hosts are in a control group that [nested] makes
	more   map[string]string // parameters
	check  func(t *testing.T, l deploy.Lab, own map[string]int)
}

func inhabit(t *testing.T, r runtime.Runtime, given map[string]string, checks []inhabitedCheck) {
	t.Helper()
	testnet.Root(t)
	for _, one := range checks {
		t.Run(one.name, func(t *testing.T) {
			s := chosen(t, r, given, one.more)
			testnet.Skip(t, s.Check())
			testnet.Skip(t, s.CheckOutside(t.Context()))
			if one.nested {
				nested(t)
			}
			d := &local.Deployment{Journals: journal.Place{Dir: t.TempDir(), Steps: runtime.Kind{r}.Steps()}}
			g, err := d.Begin(traffic.Layout{Workers: 2, Pairs: 1, Cells: 1})
			if err != nil {
				t.Fatal(err)
			}
			l, err := g.Build(t.Context(), labtest.Lab(s, one.hosts))
			if err != nil {
				t.Fatal(errors.Join(err, g.Close(), d.Close()))
			}
			var groups []string
			defer func() { // also after a check that gave up: the next one would find these workers
				l.Close()
				if err := errors.Join(g.Close(), d.Close()); err != nil {
					t.Error(err)
				}
				nothingLeft(t, groups)
			}()
			own := workers(t)
			// A runtime may return before its program is a worker: until then it is one of the runtime's own.
			for end := time.Now().Add(patience()); len(own) < 2 && time.Now().Before(end); own = workers(t) {
				time.Sleep(time.Millisecond)
			}
			groups = cgroups(t, own)
			if names := slices.Sorted(maps.Keys(own)); !slices.Equal(names, []string{"snk0", "src0"}) {
				t.Errorf("workers of containers %q, want snk0 and src0", names)
			} else {
				one.check(t, l, own)
			}
		})
	}
}

// nothingLeft wants the workers and the control groups of a lab that has ended to be gone.
func nothingLeft(t *testing.T, groups []string) {
	t.Helper()
	if left := workers(t); len(left) > 0 {
		t.Errorf("after the end workers are left: %v", left)
	}
	noGroups(t, groups)
	if left := covered(t, groups); left != "" {
		t.Errorf("after the end there is, below a mount:\n%s", left)
	}
}

// noGroups wants the control groups of containers to be gone, and those that a runtime has beside them for itself, with
// names that begin as theirs do.
func noGroups(t *testing.T, groups []string) {
	t.Helper()
	for _, dir := range groups {
		left, err := filepath.Glob(dir + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range left {
			t.Errorf("after the end there is cgroup %s", dir)
		}
	}
}

// patience is how long something that has to happen may take: longer in a guest, whose processors are emulated.
func patience() time.Duration {
	const usual = 10 * time.Second
	if testnet.Guest() {
		return 6 * usual
	}
	return usual
}

// chosen is a stack of a bridge and a runtime, with parameters.
func chosen(t *testing.T, r runtime.Runtime, given, more map[string]string) (s stack.Stack) {
	t.Helper()
	params := map[string]string{}
	maps.Copy(params, given)
	maps.Copy(params, more)
	kinds := stack.Kinds{network.Kind{bridge.Network{}}, runtime.Kind{r}}
	for i, name := range []string{"bridge", r.Describe().Name} {
		c, err := kinds.Choose(kinds[i].Describe().Name, name, []map[string]string{nil, params}[i])
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, c)
	}
	return s
}

// workers finds the workers of containers among the descendants of this process, by container.
func workers(t *testing.T) map[string]int {
	t.Helper()
	return programs(t, func(args []string) string {
		if i := slices.Index(args, "--container"); i >= 0 && args[1] == "worker" {
			return args[i+1]
		}
		return ""
	})
}

// programs finds processes among the descendants of this one by their arguments, of which named makes a name; "" if it
// is another one.
func programs(t *testing.T, named func(args []string) string) map[string]int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]int{}
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(line), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(args) < 2 {
			continue
		}
		if name := named(args); name != "" && descends(pid) {
			own[name] = pid
		}
	}
	return own
}

// descends says whether a process is a descendant of this one.
func descends(pid int) bool {
	for pid > 1 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the state, then the parent (proc_pid_stat(5))
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		if pid, err = strconv.Atoi(fields[1]); err != nil {
			return false
		}
		if pid == os.Getpid() {
			return true
		}
	}
	return false
}

// cgroups returns the directories of control groups of workers, in all hierarchies. Other tests may have others.
func cgroups(t *testing.T, own map[string]int) (list []string) {
	t.Helper()
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for name, pid := range own {
		group := groupOf(t, pid)
		if group == "" {
			t.Errorf("%s has no cgroup of its own", name)
			continue
		}
		for _, h := range hierarchies {
			found := false
			err := filepath.WalkDir(h.Dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() && d.Name() == group {
					list, found = append(list, path), true
				}
				return nil // what ends meanwhile belongs to others
			})
			if alone := len(hierarchies) == 1; err != nil || !found && h.V2 == alone { // beside v1, one of v2 is not used
				t.Errorf("%s has no cgroup in %s (%v)", name, h.Dir, err)
			}
		}
	}
	return list
}

// covered lists what is left of control groups in the directory in which hierarchies are mounted, where mounts hide it.
func covered(t *testing.T, groups []string) string {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range groups {
		names[filepath.Base(dir)] = true
	}
	out, err := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$0" "$1" && ls "$1"/*`, cgroup.Dir,
		t.TempDir()).Output()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); names[name] {
			left = append(left, name)
		}
	}
	return strings.Join(left, "\n")
}

// groupOf returns the name of the control group of ours that a process is in or below, "" if there is none.
func groupOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if strings.HasPrefix(part, "nettoll-") {
				return part
			}
		}
	}
	return ""
}

// separate wants each container to have namespaces of its own.
func (w Want) separate(t *testing.T, _ deploy.Lab, own map[string]int) {
	t.Helper()
	kinds := []string{"net", "pid", "mnt", "ipc", "uts"}
	if w.Users {
		kinds = append(kinds, "user")
	}
	for _, kind := range kinds {
		seen := map[string]string{link(t, os.Getpid(), kind): "this process"}
		for name, pid := range own {
			ns := link(t, pid, kind)
			if other := seen[ns]; other != "" {
				t.Errorf("%s and %s have one %s namespace", name, other, kind)
			}
			seen[ns] = name
		}
	}
}

func link(t *testing.T, pid int, kind string) string {
	t.Helper()
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// rights wants a worker to have these rights, to know them, and to have nothing but its program.
func (w Want) rights(t *testing.T, l deploy.Lab, own map[string]int) {
	t.Helper()
	var told rights.Rights
	if err := start(t, l).Call(t.Context(), "rights", nil, &told); err != nil {
		t.Fatal(err)
	}
	for name, pid := range own {
		status := status(t, pid)
		for _, set := range []string{"CapEff", "CapPrm", "CapBnd"} {
			if got, err := strconv.ParseUint(status[set], 16, 64); err != nil || got|w.Unknown != w.Capabilities|w.Unknown {
				t.Errorf("%s of %s is %s (%v), want %016x, with or without %x", set, name, status[set], err, w.Capabilities,
					w.Unknown)
			}
		}
		if can := status["NoNewPrivs"] != "1"; can != w.NewPrivileges {
			t.Errorf("%s can get new privileges: %v, want %v", name, can, w.NewPrivileges)
		}
		if got := status["Seccomp"] == "2"; got != w.Filtered { // SECCOMP_MODE_FILTER
			t.Errorf("system calls of %s are filtered: %v, want %v", name, got, w.Filtered)
		}
		says := fmt.Sprintf("%016x %016x %d %t", told.Effective, told.Bounding, told.Seccomp, told.NoNewPrivileges)
		has := fmt.Sprintf("%s %s %s %t", status["CapEff"], status["CapBnd"], status["Seccomp"], status["NoNewPrivs"] == "1")
		if says != has || told.UserNamespace != w.Users || !told.Network || told.AppArmor != label(t, pid) {
			t.Errorf("a worker reports %+v, and %s has %q", told, name, has)
		}
		if root := strings.Fields(status["Uid"])[0] == "0"; root == w.Users {
			t.Errorf("%s is user %s of the machine", name, status["Uid"])
		}
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", pid))
		if err != nil {
			t.Fatal(err)
		}
		var root []string
		for _, e := range entries {
			root = append(root, e.Name())
		}
		if !slices.Equal(root, w.Root) {
			t.Errorf("the root of %s has %q, want %q", name, root, w.Root)
		}
		err = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "root", "written"), nil, 0o600)
		if (err == nil) != w.Writable {
			t.Errorf("writing to the root of %s: %v, want success: %v", name, err, w.Writable)
		}
	}
}

// label is the AppArmor profile of a process and its mode, as the kernel has them; "" without AppArmor.
func label(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/attr/apparmor/current", pid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// grouped wants each container to have a cgroup of its own.
func grouped(t *testing.T, own map[string]int) {
	t.Helper()
	seen := map[string]string{}
	for name, pid := range own {
		group := groupOf(t, pid)
		if other := seen[group]; group == "" || other != "" {
			t.Errorf("%s is in the cgroup %q of %q", name, group, other)
		}
		seen[group] = name
	}
}

// counted wants each container to have a cgroup of its own, and the lab to know what it has used.
func counted(t *testing.T, l deploy.Lab, own map[string]int) {
	t.Helper()
	grouped(t, own)
	list, err := l.(deploy.Contained).ContainerUse(t.Context())
	if err != nil || len(list) != len(own) {
		t.Fatalf("containers %v (%v), want %d", list, err, len(own))
	}
	for _, u := range list {
		if u.CPU <= 0 || u.Memory <= 0 {
			t.Errorf("%s has used %v of CPU time and uses %d bytes of memory, want more than nothing", u.Name, u.CPU, u.Memory)
		}
	}
}

// nested puts this process, and so the hosts that it starts, into a control group of the second level until the test
// has ended, as systemd puts a session into one, if there is cgroup v2 alone. No group below that one can have
// controllers, because processes are in it (cgroups(7)).
func nested(t *testing.T) {
	t.Helper()
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	if len(hierarchies) != 1 || !hierarchies[0].V2 {
		return
	}
	session := fmt.Sprintf("session-%d", os.Getpid())
	before := cgroup.InUnified(os.Getpid())
	if len(before) != 1 {
		t.Fatalf("this process is in the cgroups %q, want one", before)
	}
	move := func(group string) error {
		return os.WriteFile(filepath.Join(hierarchies[0].Dir, group, "cgroup.procs"), []byte("0"), 0o600)
	}
	t.Cleanup(func() {
		if err := move(before[0]); err != nil {
			t.Fatal(err) // removing the group would end this process
		}
		if err := cgroup.Remove(session); err != nil {
			t.Error(err)
		}
	})
	if err := cgroup.MakeLeaf(session); err != nil {
		t.Fatal(err)
	}
	scope := filepath.Join(session, "scope")
	if err := os.Mkdir(filepath.Join(hierarchies[0].Dir, scope), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := move(scope); err != nil {
		t.Fatal(err)
	}
}

// spec is that of the worker of a container.
func spec(name string, hostNumber int) host.WorkerSpec {
	return host.WorkerSpec{ID: fmt.Sprintf("%s@host%d", name, hostNumber), Container: name}
}

// start takes the worker of the first source.
func start(t *testing.T, l deploy.Lab) host.Worker {
	t.Helper()
	w, err := l.Start(t.Context(), 1, spec("src0", 1))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// calls wants workers to answer, each once started, and a lab to be what was planned.
func calls(t *testing.T, l deploy.Lab) {
	t.Helper()
	w := start(t, l)
	var facts []any
	if err := w.Call(t.Context(), "facts", nil, &facts); err != nil || len(facts) > 0 {
		t.Errorf("facts of a worker without endpoints: %v, %v", facts, err)
	}
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := l.Start(t.Context(), 1, spec("src0", 1)); err == nil {
		t.Error("a second worker starts in one container")
	}
	if _, err := l.Start(t.Context(), 1, spec("src9", 1)); err == nil ||
		!strings.Contains(err.Error(), `no worker waits in container "src9"`) {
		t.Errorf("in a container that does not exist: %v", err)
	}
}

// pinned wants a worker with all of its threads to run on the CPUs that are chosen when it is taken.
func pinned(t *testing.T, l deploy.Lab, own map[string]int) {
	t.Helper()
	all, err := process.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	for name, cpus := range map[string][]int{"src0": all[:1], "snk0": all[len(all)-1:]} {
		s := spec(name, 1)
		s.CPUs = cpus
		if _, err := l.Start(t.Context(), 1, s); err != nil {
			t.Fatal(err)
		}
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", own[name]))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := process.Affinity(tid); err != nil || !slices.Equal(got, cpus) {
				t.Errorf("thread %d of %s may run on CPUs %v (%v), want %v", tid, name, got, err, cpus)
			}
		}
	}
}

// dies wants the death of a container to be noticed, with the signal or the exit status of its worker.
func dies(t *testing.T, l deploy.Lab, own map[string]int) {
	t.Helper()
	forgets, err := process.Forgets()
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]struct {
		signal syscall.Signal
		want   []string // a daemon of the machine reports a signal as a shell does
	}{
		"src0": {syscall.SIGKILL, []string{"(signal: killed)", "(exit status 137)"}},
		"snk0": {syscall.SIGQUIT, []string{"(exit status 2)"}}, // by the Go runtime
	} {
		w, err := l.Start(t.Context(), 1, spec(name, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(own[name], by.signal); err != nil {
			t.Fatal(err)
		}
		ended(t, w)
		if forgets { // the runtime may have waited for it before the host looks
			by.want = append(by.want, "("+process.Ended(nil)+")")
		}
		if err := w.Err(); err == nil || !strings.Contains(err.Error(), "its container") ||
			!slices.ContainsFunc(by.want, func(s string) bool { return strings.Contains(err.Error(), s) }) {
			t.Errorf("the container of %s died by %v: %v, want one of %q", name, by.signal, err, by.want)
		}
	}
	const gone = "worker of src0: want present, got absent"
	if err := l.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("Verify without a worker: %v", err)
	}
}

// killed wants a worker to end if that is asked for, and then to be no failure.
func killed(t *testing.T, l deploy.Lab, own map[string]int) {
	t.Helper()
	w := start(t, l)
	if err := w.Kill(); err != nil {
		t.Error(err)
	}
	ended(t, w)
	if err := w.Err(); err != nil {
		t.Errorf("a worker that was killed has failed: %v", err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root", own["src0"])); err == nil {
		t.Error("the process is still there")
	}
}

// alone wants the command of the runtime to make a container beside those of the lab, which is removed as they are.
func alone(t *testing.T, l deploy.Lab, r runtime.Runtime, s stack.Stack) {
	t.Helper()
	command, ok := r.(runtime.Commanding)
	enterable, is := l.(deploy.Enterable)
	if !ok || !is {
		t.Fatalf("%T is no runtime with a command, or %T cannot be entered", r, l)
	}
	h, is := enterable.Places()[0].(interface {
		Apply(ctx context.Context, p host.Plan) error
		Report(ctx context.Context) (host.Report, error)
		Withdraw(ctx context.Context, p host.Plan) error
	})
	if !is {
		t.Fatal("the host of the lab cannot be changed")
	}
	_, params, _ := stack.PartOf[runtime.Runtime](s)
	p := host.Plan{Steps: []host.Step{command.Alone("alone0", params)}}
	if err := h.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	waiting := func(args []string) string {
		if args[0] == runtime.Program && slices.Equal(args[1:], append(runtime.Waiting(), "")) {
			return "alone0"
		}
		return ""
	}
	own := programs(t, waiting)
	for end := time.Now().Add(patience()); len(own) == 0 && time.Now().Before(end); own = programs(t, waiting) {
		time.Sleep(time.Millisecond) // the command may return before its program runs
	}
	groups := cgroups(t, own)
	if len(groups) == 0 {
		t.Error("the program in the container has no cgroup, or has ended")
	}
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if report, err := h.Report(t.Context()); err != nil || report.Metrics[runtime.CommandTime] <= 0 {
		t.Errorf("the command took %v s, %v", report.Metrics[runtime.CommandTime], err)
	}
	if err := h.Withdraw(t.Context(), p); err != nil {
		t.Error(err)
	}
	noGroups(t, groups)
}

func ended(t *testing.T, w host.Worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	select {
	case <-w.Done():
	case <-ctx.Done():
		t.Fatal("a worker that is gone is not noticed")
	}
}

package witness

import (
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet/pulse"
)

// Seen is what a witness saw since it began to watch.
type Seen struct {
	// Delay is how long one thread was ready to run and had no CPU, less the time of other threads of the test that can
	// have had its CPUs: that of the thread for which this is the longest. So threads of a test that share a CPU are no
	// witnesses against each other.
	Delay time.Duration
	// Thread names that thread.
	Thread string
	// Waited is how long one thread was ready to run and had no CPU, whoever had it: that of the thread for which this is
	// the longest.
	Waited time.Duration
	// Stopped is how long one CPU did nothing for anybody, without the kernel's knowing: that of the CPU for which this is
	// the longest. It is 0 where threads may not have priority over all others.
	Stopped time.Duration
	// Steal is what the hypervisor gave to other machines, on all CPUs, in steps of 10 ms.
	Steal time.Duration
	// Others is the CPU time of all that is not of the test, on all CPUs, in steps of 10 ms; Share is its share of the
	// CPUs' time.
	Others time.Duration
	Share  float64
}

// Lost is how much time was taken from a thread of the test.
func (s Seen) Lost() time.Duration { return s.Delay + s.away() }

// away is how long the test had no CPU, because the machine had none: what of that the hypervisor owns to is steal.
func (s Seen) away() time.Duration { return max(s.Steal, s.Stopped) }

// Excuse is by how much something may have taken longer than on a machine of its own, also if programs did it that have
// ended since. A bound on how long something takes is that much longer, so that it can be asserted in each try, and is
// strict where nothing else runs.
func (s Seen) Excuse() time.Duration { return s.Lost() + s.Others }

func (s Seen) String() string {
	thread := ""
	if s.Thread != "" {
		thread = " (" + s.Thread + ")"
	}
	return fmt.Sprintf("a thread%s waited for %v while other work had its CPU, other machines had the CPUs for %v, a CPU "+
		"stopped for %v, and other work ran for %v (%.0f %% of the CPUs)",
		thread, s.Delay.Round(time.Microsecond), s.Steal, s.Stopped.Round(time.Microsecond), s.Others, 100*s.Share)
}

// A Limit says how much may be taken from a test before a try is repeated.
type Limit struct {
	// Lost bounds [Seen.Lost]. It is for tests whose threads live through the try.
	Lost time.Duration
	// Crowded says that the test has more threads than there are CPUs: what they take from each other counts as lost, too
	// ([Seen.Waited]).
	Crowded bool
	// Share bounds [Seen.Share]; 0 does not. It is for tests of programs that begin and end within a try: the kernel does
	// not tell how long those waited.
	Share float64
}

// holds says whether what was seen is within the limit.
func (l Limit) holds(s Seen) bool {
	lost := s.Lost()
	if l.Crowded {
		lost = s.Waited + s.away()
	}
	return lost <= l.Lost && (l.Share == 0 || s.Share <= l.Share)
}

func (l Limit) String() string {
	if l.Share == 0 {
		return fmt.Sprintf("at most %v lost", l.Lost)
	}
	return fmt.Sprintf("at most %v lost and %.0f %% of the CPUs used by other work", l.Lost, 100*l.Share)
}

// A Watch is what the kernel said when it began.
type Watch struct {
	before   reading
	stopped  map[int]time.Duration
	children bool
}

// Begin begins to watch the threads of this process and of all processes below it. It fails the test if the kernel
// keeps no account of them.
func Begin(t testing.TB) *Watch {
	t.Helper()
	since := pulse.Stopped()
	pids := family("/proc", os.Getpid())
	before, err := read(pids, true)
	if err != nil {
		t.Fatalf("witness: %v", err)
	}
	return &Watch{before, since, len(pids) > 1}
}

// Seen returns what was seen since Begin. A thread that began meanwhile counts, but for those of processes if there was
// none before. Of one that ended meanwhile only the CPU time is known.
func (w *Watch) Seen(t testing.TB) Seen {
	t.Helper()
	pids := []int{os.Getpid()}
	if w.children {
		pids = family("/proc", os.Getpid())
	}
	now, err := read(pids, false)
	if err != nil {
		t.Fatalf("witness: %v", err)
	}
	s := compare(w.before, now)
	for cpu, whole := range pulse.Stopped() {
		s.Stopped = max(s.Stopped, whole-w.stopped[cpu])
	}
	return s
}

// compare finds the thread that other work kept from running for the longest, and what the rest of the machine did.
// Where threads have CPUs of their own, as those of a trial do, the others are not looked at: they wait for these.
func compare(before, now reading) Seen {
	s := Seen{Steal: now.steal - before.steal, Others: max(0, (now.busy-before.busy)-(now.own-before.own))}
	if all := now.busy + now.idle + now.steal - before.busy - before.idle - before.steal; all > 0 {
		s.Share = float64(s.Others) / float64(all)
	}
	since := map[string]account{}
	for id, a := range now.threads {
		a.run -= before.threads[id].run
		a.delay -= before.threads[id].delay
		since[id] = a
	}
	pinned := slices.ContainsFunc(slices.Collect(maps.Values(since)), func(a account) bool { return !a.anywhere(since) })
	for _, id := range slices.Sorted(maps.Keys(since)) {
		a := since[id]
		if pinned && a.anywhere(since) {
			continue
		}
		s.Waited = max(s.Waited, a.delay)
		others := a.delay
		for other, b := range since {
			if other != id && new(big.Int).And(b.cpus, a.cpus).Sign() != 0 {
				others -= b.run
			}
		}
		if others > s.Delay {
			s.Delay, s.Thread = others, a.name
		}
	}
	return s
}

// most is how many tries there are for so many that are wanted: at least 20, and at most four of five are repeated.
func most(want int) int { return max(20, 5*want) }

// calm waits until the machine has CPUs to spare, but not for long: what it sees then is no witness, and only spares
// tries.
func calm() {
	const window, idle, patience = 50 * time.Millisecond, 0.7, time.Second
	for start := time.Now(); time.Since(start) < patience; {
		before, err := machine()
		if err != nil {
			return
		}
		time.Sleep(window)
		now, err := machine()
		if err != nil || float64(now.idle-before.idle) >= idle*float64(now.idle+now.busy+
			now.steal-before.idle-before.busy-before.steal) {
			return
		}
	}
}

// Undisturbed calls try until one was disturbed by no more than the limit, and returns what that one returned. The
// witness alone says whether a try is repeated: what it returned is not looked at. If too many tries were disturbed the
// test fails, and says what was seen.
func Undisturbed[T any](t testing.TB, limit Limit, try func() T) T {
	t.Helper()
	return Several(t, limit, 1, try)[0]
}

// Several is Undisturbed for so many tries.
func Several[T any](t testing.TB, limit Limit, want int, try func() T) []T {
	t.Helper()
	return several(t, limit, want, try, func() func() Seen {
		w := Begin(t)
		return func() Seen { return w.Seen(t) }
	}, calm)
}

// Until calls try until it returns nil. A try that fails is repeated only if it was disturbed by more than the limit:
// otherwise the test fails with what it returned, and with what was seen. It is for what may fail on a busy machine and
// must not on a quiet one, where [Undisturbed] would wait for a quiet moment to no end.
func Until(t testing.TB, limit Limit, try func() error) {
	t.Helper()
	until(t, limit, try, func() func() Seen {
		w := Begin(t)
		return func() Seen { return w.Seen(t) }
	}, calm)
}

func until(t testing.TB, limit Limit, try func() error, watch func() func() Seen, rest func()) {
	t.Helper()
	for range most(1) {
		seen := watch()
		err := try()
		if err == nil {
			return
		}
		s := seen()
		if limit.holds(s) {
			t.Fatalf("%v (%v; the witness saw no more: %v)", err, limit, s)
			return
		}
		t.Logf("to be repeated: %v (%v)", err, s)
		rest()
	}
	t.Fatalf("all of %d tries failed, and each was disturbed (%v): this machine is too busy for the test", most(1), limit)
}

func several[T any](t testing.TB, limit Limit, want int, try func() T, watch func() func() Seen, rest func()) []T {
	t.Helper()
	var sound []T
	var saw []string
	for range most(want) {
		seen := watch()
		got := try()
		if s := seen(); !limit.holds(s) {
			saw = append(saw, s.String())
			rest()
			continue
		}
		if sound = append(sound, got); len(sound) == want {
			if len(saw) > 0 {
				t.Logf("%d tries were repeated (%v); in the last of them %s", len(saw), limit, saw[len(saw)-1])
			}
			return sound
		}
	}
	t.Fatalf("%d of %d tries were disturbed (%v), and %d undisturbed ones are needed: this machine is too busy for the "+
		"test. The witness saw:\n\t%s",
		len(saw), most(want), limit, want, strings.Join(saw, "\n\t"))
	return nil
}

// account is what the kernel says of one thread.
type account struct {
	dir        string // in /proc
	name       string
	run, delay time.Duration // on a CPU; ready to run, without one
	cpus       *big.Int      // those on which it may run, one bit each
}

// anywhere says whether the thread may run wherever any of these may.
func (a account) anywhere(all map[string]account) bool {
	for _, b := range all {
		if new(big.Int).AndNot(b.cpus, a.cpus).Sign() != 0 {
			return false
		}
	}
	return true
}

// reading is what the kernel says at one moment.
type reading struct {
	threads           map[string]account
	own               time.Duration // CPU time of this process and all below it, of those that have ended, too
	busy, idle, steal time.Duration // of all CPUs
}

// machine reads what the machine as a whole did.
func machine() (reading, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return reading{}, err
	}
	return times(string(text))
}

// read reads what the kernel says of some processes, the first of which is this one. What the threads of this one did
// is read last, or first: what reading costs is no part of what is watched.
func read(pids []int, begins bool) (r reading, err error) {
	threads := map[string]account{}
	if !begins {
		if err := spent(pids[0], threads); err != nil {
			return r, err
		}
	}
	if r, err = machine(); err != nil {
		return r, err
	}
	for _, pid := range pids[1:] {
		below := map[string]account{}
		if err := spent(pid, below); err != nil {
			return r, err
		}
		for id, a := range below {
			r.own += a.run
			threads[id] = a
		}
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			return r, err
		}
		r.own += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	if begins {
		if err := spent(pids[0], threads); err != nil {
			return r, err
		}
	} else if err := describe(threads); err != nil { // only what is compared
		return r, err
	}
	if len(threads) == 0 {
		return r, fmt.Errorf("process %d has no threads in /proc", pids[0])
	}
	r.threads = threads
	return r, nil
}

// spent adds the run times and the run delays of the threads of a process (Documentation/scheduler/sched-stats.rst).
func spent(pid int, threads map[string]account) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, task := range tasks {
		a := account{dir: fmt.Sprintf("/proc/%d/task/%s", pid, task.Name())}
		stat, err := os.ReadFile(a.dir + "/schedstat")
		if err != nil {
			if gone(a.dir) {
				continue
			}
			return err
		}
		if _, err := fmt.Sscan(string(stat), (*int64)(&a.run), (*int64)(&a.delay)); err != nil {
			return fmt.Errorf("%s/schedstat holds %q: %w", a.dir, stat, err)
		}
		threads[task.Name()] = a
	}
	return nil
}

func gone(dir string) bool {
	_, err := os.Stat(dir)
	return os.IsNotExist(err)
}

// describe reads the names of threads and their CPUs, and forgets those that have ended.
func describe(threads map[string]account) error {
	for id, a := range threads {
		status, err := os.ReadFile(a.dir + "/status")
		if err != nil {
			if gone(a.dir) {
				delete(threads, id)
				continue
			}
			return err
		}
		for line := range strings.Lines(string(status)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch key {
			case "Name":
				a.name = value + " " + id
			case "Cpus_allowed":
				var ok bool
				if a.cpus, ok = new(big.Int).SetString(strings.ReplaceAll(value, ",", ""), 16); !ok {
					return fmt.Errorf("%s/status: CPUs %q", a.dir, value)
				}
			}
		}
		if a.cpus == nil {
			return fmt.Errorf("%s/status names no CPUs", a.dir)
		}
		threads[id] = a
	}
	return nil
}

// family lists a process and all that descend from it.
func family(proc string, root int) []int {
	parents := map[int]int{}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return []int{root}
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(proc, e.Name(), "stat"))
		if err != nil {
			continue // gone meanwhile
		}
		// PID (NAME) STATE PPID …; the name may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		if parents[pid], err = strconv.Atoi(fields[1]); err != nil {
			delete(parents, pid)
		}
	}
	list := []int{root}
	for i := 0; i < len(list); i++ {
		for _, pid := range slices.Sorted(maps.Keys(parents)) {
			if parents[pid] == list[i] && pid != list[i] {
				list = append(list, pid)
			}
		}
	}
	return list
}

// times reads the times of all CPUs (proc_stat(5)).
func times(text string) (reading, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go supports
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	const user, nice, system, idle, iowait, irq, softirq, steal = 1, 2, 3, 4, 5, 6, 7, 8
	if len(fields) <= steal || fields[0] != "cpu" {
		return reading{}, fmt.Errorf("/proc/stat begins with %q, want the times of all CPUs", line)
	}
	var r reading
	for column, sum := range map[int]*time.Duration{
		user: &r.busy, nice: &r.busy, system: &r.busy, idle: &r.idle, iowait: &r.idle, irq: &r.busy, softirq: &r.busy,
		steal: &r.steal,
	} {
		ticks, err := strconv.ParseInt(fields[column], 10, 64)
		if err != nil {
			return reading{}, fmt.Errorf("/proc/stat: %w", err)
		}
		*sum += time.Duration(ticks) * tick
	}
	return r, nil
}

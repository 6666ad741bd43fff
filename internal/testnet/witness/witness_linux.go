package witness

import (
	"errors"
	"fmt"
	"iter"
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

// Seen holds what a witness observed since it began to watch.
type Seen struct {
	// Delay is how long a thread was ready to run without a CPU, minus the time of other threads of the test that could
	// have used its CPUs. It is the largest value of any thread. So threads of a test that share a CPU do not count
	// against each other.
	Delay time.Duration
	// Thread names that thread.
	Thread string
	// Waited is how long a thread was ready to run without a CPU, whichever thread used it. It is the largest value of
	// any thread.
	Waited time.Duration
	// Stopped is how long a CPU did not run, unnoticed by the kernel. It is the largest value of any CPU, and 0 if
	// threads may not have priority over all others.
	Stopped time.Duration
	// Steal is the time that the hypervisor gave to other machines, on all CPUs, in steps of 10 ms.
	Steal time.Duration
	// Others is the CPU time of everything outside the test, on all CPUs, in steps of 10 ms. Share is its share of the
	// CPUs' time.
	Others time.Duration
	Share  float64
}

// Lost returns how much time was taken from a thread of the test.
func (s Seen) Lost() time.Duration { return s.Delay + s.away() }

// away returns how long the test had no CPU because the machine had none. The part that the hypervisor reports is
// steal.
func (s Seen) away() time.Duration { return max(s.Steal, s.Stopped) }

// Excuse returns how much longer something may have taken than on a machine of its own, including delays by programs
// that have ended since. Add it to a limit on how long something takes. The limit can then be asserted in each try, and
// is strict if nothing else runs.
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

// A Limit is how much time may be taken from a test before a try is repeated.
type Limit struct {
	// Lost limits [Seen.Lost]. It is for tests whose threads exist during the whole try.
	Lost time.Duration
	// Crowded says that the test has more threads than there are CPUs: what they take from each other also counts as
	// lost ([Seen.Waited]).
	Crowded bool
	// Share limits [Seen.Share]; 0 means no limit. It is for tests of programs that begin and end within a try, because
	// the kernel does not report how long those waited.
	Share float64
}

// holds reports whether the observations are within the limit.
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

// A Watch holds the kernel's accounts at its beginning.
type Watch struct {
	before   reading
	stopped  map[int]time.Duration
	children bool
}

// Begin begins to watch the threads of this process and of all its descendants. It fails the test if the kernel keeps
// no account of them.
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

// Seen returns what was observed since Begin. A thread that began in the meantime counts, except for threads of child
// processes if this process had none before. For a thread that ended in the meantime, only the CPU time is known.
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

// compare finds the thread that other work kept from running for the longest time, and what the rest of the machine
// did. If some threads have CPUs of their own, like those of a trial, only these are considered, because the others
// wait for them.
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

// tries yields the numbers of tries, from 1. They end when there were as many as given and a minute has passed: a host
// may take time from most of the tries for tens of seconds, and undisturbed ones are as good then as later.
func tries(least int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for start, n := time.Now(), 1; n <= least || time.Since(start) < time.Minute; n++ {
			if !yield(n) {
				return
			}
		}
	}
}

// calm waits briefly until the machine has spare CPUs, for longer than the period in which a host counts the CPU time
// that it gives a virtual machine (100 ms by default, Documentation/scheduler/sched-bwc.rst). Its observations are not
// evidence; it only saves tries.
func calm() {
	const window, idle, patience = 200 * time.Millisecond, 0.7, time.Second
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

// Several calls try until this number of tries was disturbed by no more than the limit, and returns their results. Only
// the witness decides whether a try is repeated, not the result. If too many tries were disturbed, the test fails with
// the observations. On a busy machine they may all be: a test of what a disturbance can only spoil is one for [Until].
func Several[T any](t testing.TB, limit Limit, want int, try func() T) []T {
	t.Helper()
	return several(t, limit, want, try, func() func() Seen {
		w := Begin(t)
		return func() Seen { return w.Seen(t) }
	}, calm)
}

// Until calls try until it returns nil. A failed try is repeated only if it was disturbed by more than the limit;
// otherwise the test fails with the error and the observations. It is for what may fail on a busy machine but must not
// fail on a quiet one.
func Until(t testing.TB, limit Limit, try func() error) {
	t.Helper()
	until(t, limit, try, func() func() Seen {
		w := Begin(t)
		return func() Seen { return w.Seen(t) }
	}, calm)
}

func until(t testing.TB, limit Limit, try func() error, watch func() func() Seen, rest func()) {
	t.Helper()
	all := 0
	for all = range tries(20) {
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
	t.Fatalf("all of %d tries failed, and each was disturbed (%v): this machine is too busy for the test", all, limit)
}

func several[T any](t testing.TB, limit Limit, want int, try func() T, watch func() func() Seen, rest func()) []T {
	t.Helper()
	var sound []T
	var saw []string
	for range tries(max(20, 5*want)) {
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
		"test. In the last of them the witness saw:\n\t%s",
		len(saw), len(saw)+len(sound), limit, want, strings.Join(saw[max(0, len(saw)-20):], "\n\t"))
	return nil
}

// account is the kernel's account of one thread.
type account struct {
	dir        string // below /proc
	name       string
	run, delay time.Duration // on a CPU; ready to run, without one
	cpus       *big.Int      // the CPUs that it may use, one bit each
}

// anywhere reports whether the thread may use every CPU that any of these threads may use.
func (a account) anywhere(all map[string]account) bool {
	for _, b := range all {
		if new(big.Int).AndNot(b.cpus, a.cpus).Sign() != 0 {
			return false
		}
	}
	return true
}

// reading holds the kernel's accounts at one moment.
type reading struct {
	threads           map[string]account
	own               time.Duration // CPU time of this process and its descendants, including ended ones
	busy, idle, steal time.Duration // of all CPUs
}

// machine reads the accounts of the machine as a whole.
func machine() (reading, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return reading{}, err
	}
	return times(string(text))
}

// read reads the accounts of some processes, the first of which is this one. The threads of this process are read last
// at the beginning, or first at the end, so that the cost of reading is not part of what is watched.
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
	} else if err := describe(threads); err != nil { // needed only for the comparison
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
	if err != nil && !ended(err) {
		return err
	}
	for _, task := range tasks {
		a := account{dir: fmt.Sprintf("/proc/%d/task/%s", pid, task.Name())}
		stat, err := os.ReadFile(a.dir + "/schedstat")
		if err != nil {
			if ended(err) {
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

// ended reports whether a file in /proc could not be opened or read because its process or thread has ended. Its folder
// may be there a moment longer.
func ended(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) }

// describe reads the names of threads and their CPUs, and removes threads that have ended.
func describe(threads map[string]account) error {
	for id, a := range threads {
		status, err := os.ReadFile(a.dir + "/status")
		if err != nil {
			if ended(err) {
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

// family lists a process and its descendants.
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
			continue // gone in the meantime
		}
		// PID (NAME) STATE PPID …; the name may contain any character.
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

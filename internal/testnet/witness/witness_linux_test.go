package witness

import (
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet"
)

// busy is the variable that turns this program into a busy loop on the CPU that it names.
const busy = "NETTOLL_WITNESS_BUSY"

func TestMain(m *testing.M) {
	if cpu := os.Getenv(busy); cpu != "" {
		var n int
		if _, err := fmt.Sscan(cpu, &n); err != nil {
			panic(err)
		}
		runtime.LockOSThread()
		if err := thread.Pin(n); err != nil {
			panic(err)
		}
		fmt.Println("spinning")
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		}
		return
	}
	testnet.Main(m)
}

// A busy loop of another process on the CPU of a thread is detected, both by the delay and by the CPU time of others,
// while another thread of the test runs on another CPU. A busy loop of the test itself is not.
func TestBusyLoop(t *testing.T) {
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	const lasts = 200 * time.Millisecond
	loop := exec.Command("/proc/self/exe")
	loop.Env = append(os.Environ(), fmt.Sprintf("%s=%d", busy, cpus[0]))
	out, err := loop.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = loop.Process.Kill()
		_ = loop.Wait() // it was killed
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// A process that is left out of the family counts as another process.
	self, threads := []int{os.Getpid()}, Threads(t, min(2, len(cpus)))
	watch := func(pids []int) Seen {
		before, err := read(pids, true)
		if err != nil {
			t.Fatal(err)
		}
		var running []<-chan struct{}
		for _, on := range threads {
			running = append(running, on(func() {
				for end := time.Now().Add(lasts); time.Now().Before(end); {
				}
			}))
		}
		for _, done := range running {
			<-done
		}
		now, err := read(pids, false)
		if err != nil {
			t.Fatal(err)
		}
		return compare(before, now)
	}
	stranger, own := watch(self), watch(append(self, loop.Process.Pid))
	// Two threads that want one CPU share it. More work on the machine makes delays longer, and the share of each
	// smaller.
	if stranger.Delay < lasts/4 || stranger.Thread == "" {
		t.Errorf("of %v beside a stranger's busy loop: %v, want a delay of half", lasts, stranger)
	}
	if stranger.Others < lasts/10 || stranger.Share <= 0 || stranger.Share > 1 {
		t.Errorf("of %v beside a stranger's busy loop: %v, want that others ran", lasts, stranger)
	}
	if own.Delay > stranger.Delay/2 && own.Others < lasts/4 { // if other processes ran too, that is what it sees
		t.Errorf("beside a busy loop of its own: %v", own)
	}
	if limit := (Limit{Lost: lasts / 10}); limit.holds(stranger) {
		t.Errorf("%v holds for %v", limit, stranger)
	}
}

// A thread's delay counts if no other thread of the test can have caused it.
func TestCompare(t *testing.T) {
	on := func(cpus int64, run, delay time.Duration) account {
		return account{name: fmt.Sprintf("on %b", cpus), run: run, delay: delay, cpus: big.NewInt(cpus)}
	}
	const ms = time.Millisecond
	for _, tt := range []struct {
		name        string
		before, now map[string]account
		want        time.Duration
	}{
		{"nothing", map[string]account{"1": on(1, 5*ms, 9*ms)}, map[string]account{"1": on(1, 8*ms, 9*ms)}, 0},
		{"others", map[string]account{"1": on(1, 5*ms, 9*ms)}, map[string]account{"1": on(1, 8*ms, 16*ms)}, 7 * ms},
		{"own", map[string]account{}, map[string]account{"1": on(1, 10*ms, 10*ms), "2": on(1, 10*ms, 10*ms)}, 0},
		{
			"own and others",
			map[string]account{},
			map[string]account{"1": on(1, 10*ms, 20*ms), "2": on(1, 10*ms, 20*ms)},
			10 * ms,
		},
		{
			"own on another CPU",
			map[string]account{},
			map[string]account{"1": on(1, 10*ms, 10*ms), "2": on(2, 10*ms, 0)},
			10 * ms,
		},
		{"own on any CPU", map[string]account{}, map[string]account{"1": on(1, 10*ms, 12*ms), "2": on(3, 10*ms, 0)}, 2 * ms},
		{"one on any CPU waits for those that have theirs", map[string]account{}, map[string]account{
			"1": on(3, ms, 30*ms), "2": on(1, 5*ms, 2*ms), "3": on(2, 5*ms, 0),
		}, ms},
		{
			"none has a CPU of its own",
			map[string]account{},
			map[string]account{"1": on(3, 10*ms, 30*ms), "2": on(3, 5*ms, 0)},
			25 * ms,
		},
		{"one that ended", map[string]account{"1": on(1, 0, 0)}, map[string]account{}, 0},
		{"the longest", map[string]account{}, map[string]account{
			"1": on(1, 0, 3*ms), "2": on(2, 0, 5*ms), "3": on(4, 0, 4*ms),
		}, 5 * ms},
	} {
		if got := compare(reading{threads: tt.before}, reading{threads: tt.now}); got.Delay != tt.want ||
			got.Lost() != tt.want {
			t.Errorf("%s: %v, want a delay of %v", tt.name, got, tt.want)
		}
	}
	got := compare(reading{busy: 100 * ms, idle: 100 * ms, own: 10 * ms, steal: 10 * ms}, reading{
		busy: 180 * ms, idle: 200 * ms, own: 40 * ms, steal: 30 * ms,
	})
	if got.Others != 50*ms || got.Steal != 20*ms || got.Lost() != 20*ms || got.Share != 0.25 {
		t.Errorf("the machine: %+v", got)
	}
}

func TestTimes(t *testing.T) {
	got, err := times("cpu  1 2 3 40 50 6 7 8 9 10\ncpu0 …\n")
	if want := (reading{
		busy: 190 * time.Millisecond, idle: 900 * time.Millisecond,
		steal: 80 * time.Millisecond,
	}); err != nil || got.busy != want.busy || got.idle != want.idle ||
		got.steal != want.steal {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4 5 6 7 x 9"} {
		if _, err := times(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// recorder is a test that records its failures.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Fatalf(f string, a ...any) { r.fatal = fmt.Sprintf(f, a...) }

// Only the witness decides which tries count, not their results. Too many disturbed tries fail the test with the
// observations.
func TestSeveral(t *testing.T) {
	const half = time.Second / 2 // that a try takes
	limit := Limit{Lost: time.Millisecond}
	synced := func(t *testing.T, name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	for _, tt := range []struct {
		name   string
		want   int
		saw    func(try int) Seen
		tries  []int // that count
		failed bool
	}{
		{"quiet", 1, func(int) Seen { return Seen{Delay: time.Millisecond} }, []int{1}, false},
		{"disturbed at first", 2, func(try int) Seen {
			return Seen{Delay: time.Duration(4-try) * time.Millisecond}
		}, []int{3, 4}, false},
		{"stolen from at first", 1, func(try int) Seen {
			return Seen{Steal: time.Duration(3-try) * time.Millisecond}
		}, []int{2}, false},
		{"never quiet", 1, func(int) Seen { return Seen{Delay: time.Second, Thread: "worker 7"} }, nil, true},
		{"hardly ever quiet", 3, func(try int) Seen {
			return Seen{Steal: time.Duration(try%30) * time.Second}
		}, []int{30, 60, 90}, false},
		{"too rarely quiet", 5, func(try int) Seen { return Seen{Steal: time.Duration(try%30) * time.Second} }, nil, true},
	} {
		synced(t, tt.name, func(t *testing.T) {
			r, tries := &recorder{TB: t}, 0
			got := several(r, limit, tt.want, func() int { tries++; time.Sleep(half); return tries },
				func() func() Seen { return func() Seen { return tt.saw(tries) } }, func() {})
			if failed := r.fatal != ""; failed != tt.failed || fmt.Sprint(got) != fmt.Sprint(tt.tries) {
				t.Errorf("tries %v counted, want %v; it failed with %q", got, tt.tries, r.fatal)
			}
			if tt.failed && (tries != 120 || !strings.Contains(r.fatal, tt.saw(119).String())) {
				t.Errorf("after %d tries, want those of a minute, 120: %q", tries, r.fatal)
			}
		})
	}
	for _, tt := range []struct {
		name  string
		good  int // the first try that returns nil; 0: none does
		saw   Seen
		tries int
		want  string // of what the test fails with
	}{
		{"good at once", 1, Seen{}, 1, ""},
		{"bad and quiet", 2, Seen{}, 1, "try 1"},
		{"bad while disturbed", 3, Seen{Delay: time.Second}, 3, ""},
		{"good late", 100, Seen{Delay: time.Second}, 100, ""},
		{"always bad, always disturbed", 0, Seen{Steal: time.Second}, 120, "all of 120 tries failed"},
	} {
		synced(t, tt.name, func(t *testing.T) {
			r, tries := &recorder{TB: t}, 0
			until(r, limit, func() error {
				time.Sleep(half)
				if tries++; tries == tt.good {
					return nil
				}
				return fmt.Errorf("try %d", tries)
			}, func() func() Seen { return func() Seen { return tt.saw } }, func() {})
			if tries != tt.tries || !strings.Contains(r.fatal, tt.want) || (tt.want == "") != (r.fatal == "") {
				t.Errorf("%d tries, want %d; it failed with %q, want %q", tries, tt.tries, r.fatal, tt.want)
			}
		})
	}
	if l := (Limit{Share: 0.2}); !l.holds(Seen{Share: 0.2}) || l.holds(Seen{Share: 0.21}) || !limit.holds(Seen{Share: 1}) {
		t.Error("the share of others is not looked at as the limit says")
	}
	if s := (Seen{Stopped: 2 * limit.Lost}); limit.holds(s) || s.Excuse() != 2*limit.Lost {
		t.Errorf("a CPU that stopped is within the limit of %v: %v", limit, s)
	}
	if s := (Seen{Waited: time.Second}); !limit.holds(s) || (Limit{Lost: limit.Lost, Crowded: true}).holds(s) {
		t.Error("what threads of the test take from each other counts only in a crowded test")
	}
}

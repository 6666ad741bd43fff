package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
)

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func self(args ...string) *exec.Cmd { return exec.Command("/proc/self/exe", args...) }

func TestAffinity(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	before, err := Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	last := before[len(before)-1]
	for _, tt := range []struct {
		name string
		cpus []int
		want []int
		err  string
	}{
		{"one", []int{last}, []int{last}, ""},
		{"all, twice and in no order", append(slices.Clone(before), before...), before, ""},
		{"negative", []int{-1}, before, "set the affinity of thread 0: invalid CPU -1 (valid: 0 to 1023)"},
		{"too large", []int{1024}, before, "set the affinity of thread 0: invalid CPU 1024 (valid: 0 to 1023)"},
		{"none", nil, before, fmt.Sprintf("set the affinity of thread 0 to CPUs [] (it may run on %v): invalid argument",
			before)},
		{
			"not there",
			[]int{1023},
			before,
			fmt.Sprintf("set the affinity of thread 0 to CPUs [1023] (it may run on %v): invalid argument", before),
		},
		{
			"partly there",
			[]int{last, 1023},
			before,
			fmt.Sprintf("set the affinity of thread 0 to CPUs [%d 1023]: the kernel grants [%d] only", last, last),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runtime.LockOSThread()
			err := SetAffinity(0, tt.cpus)
			got, gerr := Affinity(0)
			if gerr != nil {
				t.Fatal(gerr)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || text(err) != tt.err {
				t.Errorf("error %q, want %q; CPUs (-want +got):\n%s", text(err), tt.err, diff)
			}
		})
	}
	if _, err := Affinity(1 << 29); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("no such thread: %v", err)
	}
}

// The affinity of a child holds from its first instruction, and this process keeps its own.
func TestStartOnCPU(t *testing.T) {
	before, err := Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	last := before[len(before)-1]
	var out strings.Builder
	cmd := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
	cmd.Stdout = &out
	if err := Start(cmd, Options{CPUs: []int{last}}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", last); out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	// The next one has those of this process again. Its first thread may have others: a test that ends locked leaves it
	// so.
	next := self("sleep")
	if err := Start(next, Options{}); err != nil {
		t.Fatal(err)
	}
	if got, err := Affinity(next.Process.Pid); err != nil || !slices.Equal(got, before) {
		t.Errorf("the next: %v, %v, want %v", got, err, before)
	}
	_ = next.Process.Kill()
	_ = next.Wait()
	if err := Start(self("sleep"), Options{CPUs: []int{1023}}); err == nil {
		t.Error("started on CPU 1023")
	}
	if err := Start(exec.Command("/nowhere"), Options{CPUs: []int{last}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nowhere: %v", err)
	}
}

// A child lives exactly as long as its parent, whatever happens to the thread that started it.
func TestStartDiesWithParent(t *testing.T) {
	started := make(chan *exec.Cmd)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		cmd := self("sleep")
		if err := Start(cmd, Options{}); err != nil {
			t.Error(err)
		}
		started <- cmd
	}()
	cmd := <-started
	time.Sleep(30 * time.Millisecond)
	if !alive(cmd.Process.Pid) {
		t.Error("the child died with a thread")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	parent := self("parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Errorf("child %d is not there", pid)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for begin := time.Now(); alive(pid); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("child %d outlives its parent", pid)
		}
	}
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestSupervise(t *testing.T) {
	testnet.Root(t)
	for _, tt := range []struct {
		name   string
		script string
		want   int
	}{
		{"status", "exit 5", 5},
		{"signal", "kill -9 $$", 137},
		{"pid", "[ $PPID = 1 ] && [ $(hostname) = tested ] && [ -d /run/netns ]", 0},
		// A zombie that is still there after ten seconds is not reaped.
		{"reaps orphans only", "(sh -c 'exit 9' &); sleep 0.1; sh -c 'exit 4'; a=$?; n=0; while grep -l '^State:.Z' " +
			"/proc/[0-9]*/status; do [ $((n += 1)) -lt 100 ] || exit 99; sleep 0.1; done; exit $a", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := self("init", "/bin/sh", "-c", tt.script)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			err := Start(cmd, Options{Namespaces: true})
			testnet.Skip(t, err)
			_ = cmd.Wait()
			if got := ExitStatus(cmd.ProcessState); got != tt.want {
				t.Errorf("exit status %d, want %d: %s", got, tt.want, &out)
			}
		})
	}
	t.Run("passes SIGTERM on", func(t *testing.T) {
		cmd := self("init", "/proc/self/exe", "term")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		testnet.Skip(t, Start(cmd, Options{Namespaces: true}))
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := ExitStatus(cmd.ProcessState); got != 7 {
			t.Errorf("exit status %d, want 7", got)
		}
	})
	t.Run("its end is the end of all", func(t *testing.T) {
		cmd := self("init", "/proc/self/exe", "sleep")
		testnet.Skip(t, Start(cmd, Options{Namespaces: true}))
		time.Sleep(20 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if got := ExitStatus(cmd.ProcessState); got != 137 {
			t.Errorf("exit status %d, want 137", got)
		}
	})
}

// PID 1 of a container that others enter ends when they have left it, and not before. It has reaped its child: a zombie
// would have kept it.
func TestLinger(t *testing.T) {
	testnet.Root(t)
	cmd := self("linger")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	testnet.Skip(t, Start(cmd, Options{Namespaces: true}))
	_ = cmd.Wait()
	if took := time.Since(began); out.String() != "alone\n" || took < time.Second || took > 10*time.Second {
		t.Errorf("%q after %v, want alone after little more than a second", out.String(), took)
	}
}

func TestRunHereAndKillGroup(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 77 & sleep 78")
	cmd.Cancel = func() error { return KillGroup(cmd) }
	var out strings.Builder
	cmd.Stdout = &out // both hold it open
	begin := time.Now()
	if err := RunHere(cmd, Options{Group: true}); err == nil {
		t.Error("it ended by itself")
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("ended after %s", d)
	}
	if err := KillGroup(cmd); err != nil {
		t.Errorf("killing what is gone: %v", err)
	}
}

func TestFiles(t *testing.T) {
	a, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	if _, err := a.WriteString("one"); err != nil {
		t.Fatal(err)
	}
	cmd := self("files")
	Pass(cmd, map[string]*os.File{"ksoftirqd:0": a, "board": a, "a=b": a})
	if diff := cmp.Diff([]string{"--file", "a=b=3", "--file", "board=4", "--file", "ksoftirqd:0=5"},
		cmd.Args[2:]); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	if diff := cmp.Diff([]string{"0 1 2", "a=b one", "board one", "ksoftirqd:0 one"}, lines); diff != "" {
		t.Errorf("in the child (-want +got):\n%s", diff)
	}
	for _, tt := range []struct{ value, want string }{
		{"board", `invalid inherited file "board" (valid: NAME=FD)`},
		{"=3", `invalid inherited file "=3" (valid: NAME=FD)`},
		{"board=x", `invalid inherited file "board=x" (valid: a number from 3 after the last '=')`},
		{"board=1", `invalid inherited file "board=1" (valid: a number from 3 after the last '=')`},
		{"board=99999", `inherited file "board=99999": bad file descriptor`},
	} {
		if _, err := Inherited([]string{tt.value}); text(err) != tt.want {
			t.Errorf("%s: got %v, want %s", tt.value, err, tt.want)
		}
	}
}

func TestKsoftirqdStat(t *testing.T) {
	f, err := KsoftirqdStat(0)
	testnet.Skip(t, err)
	defer func() { _ = f.Close() }()
	for range 2 { // it can be read repeatedly
		var run, wait, slices int64
		data := make([]byte, 100)
		n, err := f.ReadAt(data, 0)
		if n == 0 {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(data[:n]), &run, &wait, &slices); err != nil || slices == 0 {
			t.Errorf("%q: %v", data[:n], err)
		}
	}
	_, err = KsoftirqdStat(1022)
	if u, ok := errors.AsType[*linux.UnsupportedError](err); !ok || u.Missing != "ksoftirqd/1022 in /proc" {
		t.Errorf("CPU 1022: got %v", err)
	}
}

func TestTail(t *testing.T) {
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprint(i))
	}
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name  string
		write []string
		want  string
	}{
		{"nothing", nil, ""},
		{"lines", []string{"a\nb\n"}, "a\nb"},
		{"in pieces", []string{"a", "b\nc", "", "d"}, "ab\ncd"},
		{"many", []string{strings.Join(many, "\n") + "\n"}, strings.Join(many[10:], "\n")},
		{"many and an open one", []string{strings.Join(many, "\n")}, strings.Join(many[10:], "\n")},
		{"a panic", []string{"before\n", "panic: planted\n\n" + strings.Join(many, "\n")}, "panic: planted\n\n" +
			strings.Join(many[:18], "\n")},
		{"a panic that is open", []string{"before\npanic: planted"}, "panic: planted"},
		{"a panic after a panic", []string{"panic: a\n\tpanic: b\npanic: c\n"}, "panic: a\n\tpanic: b\npanic: c"},
		{"no thread", []string{"runtime: failed to create new OS thread (have 5 already; errno=11)\nfatal error: " +
			"newosproc\n"}, "runtime: failed to create new OS thread (have 5 already; errno=11)\nfatal error: newosproc"},
		{"long", []string{long, long + "\nb"}, long[:tailWidth] + "\nb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tail Tail
			for _, w := range tt.write {
				if n, err := tail.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("wrote %d of %d, %v", n, len(w), err)
				}
			}
			if diff := cmp.Diff(tt.want, tail.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var tail Tail
	if got := tail.After("exit status 1"); got != "exit status 1" {
		t.Errorf("got %q", got)
	}
	_, _ = tail.Write([]byte("a\nb\n"))
	if got, want := tail.After("exit status 1"), "exit status 1; its last lines:\n\ta\n\tb"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, _ = tail.Write([]byte("panic: planted\n\ngoroutine 1 [running]:\n"))
	if got, want := tail.After("signal: aborted"),
		"signal: aborted: panic: planted\n\t\n\tgoroutine 1 [running]:"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package procfs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A process that a signal or a debugger has stopped is distinguished from one that sleeps.
func TestStopped(t *testing.T) {
	for state, want := range map[string]string{"S": "", "R": "", "T": "SIGSTOP", "t": "a debugger"} {
		text := "12 (sh) " + state + " 3" + strings.Repeat(" 0", 48)
		if p, ok := parseProgram(12, []byte(text)); !ok || p.Stopped != want {
			t.Errorf("state %s: stopped by %q, want %q", state, p.Stopped, want)
		}
	}
}

func TestProportional(t *testing.T) {
	const text = "55d0c8e00000-7ffd1a5fe000 ---p 00000000 00:00 0    [rollup]\nRss:     3120 kB\nPss:     812 kB\n" +
		"Pss_Dirty:   600 kB\n"
	if n, ok := parseProportional(text); !ok || n != 812<<10 {
		t.Errorf("got %d, %t", n, ok)
	}
	for _, bad := range []string{"", "Pss: 12", "Pss: x kB", "Pss: -1 kB", "Pss_Dirty: 1 kB"} {
		if n, ok := parseProportional(bad); ok {
			t.Errorf("%q is read as %d", bad, n)
		}
	}
	if n, err := Proportional(os.Getpid()); err != nil || n < 1<<20 || n > 1<<30 {
		t.Errorf("this process has %d bytes, %v", n, err)
	}
	if _, err := Proportional(1 << 30); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

func TestParseProgram(t *testing.T) {
	const text = "12 (a) b (c) S 3 12 12 0 -1 4194304 100 7 0 0 250 50 20 30 20 0 1 0 4711 1000 10 18446744073709551615 0"
	got, ok := parseProgram(12, []byte(text))
	want := Program{PID: 12, Parent: 3, Session: 12, Name: "a) b (c", CPU: 3.5, Started: 4711, State: "S"}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	for _, bad := range []string{"", "12 a S", "12 (a) S 3"} {
		if _, ok := parseProgram(12, []byte(bad)); ok {
			t.Errorf("%q is a process", bad)
		}
	}
}

// A terminal does not act on the name of a process, whatever a process calls itself.
func TestHostileName(t *testing.T) {
	for name, want := range map[string]string{
		"\x1b[2J\u009b1m": `\x1b[2J\u009b1m`, "a\x9bb": `a\x9bb`, "ab\ncd": `ab\ncd`, "\u202eexe": `\u202eexe`,
		"Web Content": "Web Content", `a"b\c é`: `a"b\c é`,
	} {
		p, ok := parseProgram(12, []byte("12 ("+name+") S 3"+strings.Repeat(" 0", 48)))
		if !ok || p.Name != want {
			t.Errorf("%q is called %q, want %q", name, p.Name, want)
		}
	}
}

// Descendants and ancestors of a run do not count as other programs. The time of a child is not lost when it ends.
func TestUsers(t *testing.T) {
	before := map[int]Program{
		1: {PID: 1, Name: "init"}, 2: {PID: 2, Name: "kthreadd", Kernel: true}, 10: {PID: 10, Parent: 1, Name: "sh", CPU: 5},
		11: {PID: 11, Parent: 10, Name: "nettoll", CPU: 1}, 12: {PID: 12, Parent: 11, Name: "worker", CPU: 1},
		13: {PID: 13, Parent: 12, Name: "wrk"},
		20: {PID: 20, Parent: 1, Name: "make", CPU: 2}, 21: {PID: 21, Parent: 20, Name: "cc", CPU: 1},
		30: {PID: 30, Parent: 1, Name: "old", CPU: 9, Started: 1},
	}
	after := map[int]Program{
		1: {PID: 1, Name: "init"}, 2: {PID: 2, Name: "kthreadd", CPU: 7, Kernel: true},
		10: {PID: 10, Parent: 1, Name: "sh", CPU: 9},
		11: {PID: 11, Parent: 10, Name: "nettoll", CPU: 3}, 12: {PID: 12, Parent: 11, Name: "worker", CPU: 9},
		13: {PID: 13, Parent: 12, Name: "wrk", CPU: 4},
		20: {PID: 20, Parent: 1, Name: "make", CPU: 5}, 30: {PID: 30, Parent: 1, Name: "new", CPU: 1, Started: 2},
	}
	got := Users(before, after, Family(after, 11), 2)
	if diff := cmp.Diff([]User{{"make", 1}, {"new", 0.5}}, got); diff != "" {
		t.Error(diff)
	}
}

// A program that spins is found, with its share of a CPU.
func TestUsersOfThisMachine(t *testing.T) {
	before, err := ReadPrograms()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	began := time.Now()
	for {
		time.Sleep(50 * time.Millisecond)
		after, err := ReadPrograms()
		if err != nil {
			t.Fatal(err)
		}
		if !Family(after, os.Getpid())[cmd.Process.Pid] {
			t.Fatal("a child is not of the family")
		}
		for _, u := range Users(before, after, nil, time.Since(began).Seconds()) {
			if u.Name == "sh" && u.CPUs*time.Since(began).Seconds() > 0.05 {
				return
			}
		}
		if time.Since(began) > time.Minute {
			t.Fatal("a program that spins is not seen")
		}
	}
}

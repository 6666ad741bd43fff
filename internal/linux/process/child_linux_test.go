package process

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
)

// spawn starts a shell on a locked thread that exists as long as the test.
func spawn(t *testing.T, script string, files ...*os.File) *Child {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and so do its processes
	c, err := Spawn("/bin/sh", []string{"sh", "-c", script}, os.Environ(), files...)
	testnet.Skip(t, err)
	t.Cleanup(func() {
		err := c.Close()
		for tries := 1; err != nil && tries < 10; tries++ { // each waits for killLimit; a busy machine may need longer
			err = c.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return c
}

func in(d time.Duration) int64 { return clock.Now() + int64(d) }

func said(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSpawn(t *testing.T) {
	for _, tt := range []struct{ script, out, err, end string }{
		{"echo one; echo two >&2", "one\n", "two\n", ""},
		{"exit 3", "", "", "exit status 3"},
		{"kill -9 $$", "", "", "signal: killed"},
		{"cat", "", "", ""},
	} {
		t.Run(tt.script, func(t *testing.T) {
			c := spawn(t, tt.script)
			if !c.Wait(in(5*time.Second)) || !c.Wait(0) {
				t.Fatal("it does not end")
			}
			if out, err, end := said(t, c.Stdout()), said(t, c.Stderr()), c.End(); out != tt.out || err != tt.err ||
				end != tt.end {
				t.Errorf("got %q, %q, %q, want %q, %q, %q", out, err, end, tt.out, tt.err, tt.end)
			}
			if got := c.Killed(); got != (tt.end == "signal: killed") {
				t.Errorf("killed: %v", got)
			}
			c.Signal(syscall.SIGKILL) // it is gone, and its PID may be reused
			for range 2 {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := Spawn("/no/such", []string{"such"}, nil); err == nil ||
		err.Error() != `start "/no/such": no such file or directory` {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestSpawnFile(t *testing.T) {
	f, err := Memory("log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := spawn(t, "echo said > /proc/self/fd/3", f)
	if !c.Wait(in(5*time.Second)) || c.End() != "" {
		t.Fatalf("%s: %s", c.End(), said(t, c.Stderr()))
	}
	if got := said(t, io.NewSectionReader(f, 0, 100)); got != "said\n" {
		t.Errorf("got %q", got)
	}
}

// Child processes of a program receive its signals. They are gone after Close, even if the program ended before.
func TestSpawnGroup(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"waited for", "sleep 100; echo $?"},
		{"left behind", "sleep 100 & echo $!"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := spawn(t, tt.script)
			if tt.name == "waited for" {
				time.Sleep(100 * time.Millisecond) // until sleep runs
				c.Signal(syscall.SIGINT)
			}
			if !c.Wait(in(5 * time.Second)) {
				t.Fatal("it does not end")
			}
			child, _ := strconv.Atoi(strings.TrimSpace(said(t, c.Stdout())))
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if tt.name == "waited for" {
				return // it could not have ended
			}
			for deadline := in(5 * time.Second); ; time.Sleep(time.Millisecond) {
				stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
				if err != nil || strings.Contains(string(stat), ") Z ") { // init reaps it
					return
				}
				if clock.Now() > deadline {
					t.Fatalf("%d is there: %s", child, stat)
				}
			}
		})
	}
}

// A program that writes too much is killed.
func TestSpawnTooMuch(t *testing.T) {
	c := spawn(t, "exec head -c 300000000 /dev/zero")
	if !c.Wait(in(20*time.Second)) || c.End() != "signal: file size limit exceeded" {
		t.Errorf("it is %q", c.End())
	}
	if n, err := io.Copy(io.Discard, c.Stdout()); n != outputLimit || err != nil {
		t.Errorf("%d bytes (%v), want %d", n, err, outputLimit)
	}
}

// A program has its thread's CPUs, and exists until it is closed.
func TestSpawnInherits(t *testing.T) {
	runtime.LockOSThread()
	cpus, err := Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1]
	if err := SetAffinity(0, []int{last}); err != nil {
		t.Fatal(err)
	}
	c := spawn(t, "exec sleep 100")
	if c.Wait(in(10*time.Millisecond)) || c.End() != "still running" {
		t.Errorf("after a moment it is %q", c.End())
	}
	if got, err := Affinity(c.PID()); err != nil || !slices.Equal(got, []int{last}) {
		t.Errorf("on CPUs %v (%v), want %d", got, err, last)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got := c.End(); got != "signal: killed" {
		t.Errorf("ended by %q", got)
	}
}

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		user         bool // most of it is spent outside the kernel
	}{
		{"itself", "while :; do :; done", true},
		{"in the kernel", "exec dd if=/dev/zero of=/dev/null bs=16M", false},
		{"started", "sh -c 'while :; do :; done'; :", true},
		{"waited for", "i=0; while [ $i -lt 20 ]; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; i=$((i+1)); " +
			"done; sleep 100", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := spawn(t, tt.script)
			for c.Usage().Run < 200*time.Millisecond {
				if c.Wait(in(10 * time.Millisecond)) {
					t.Fatal("it has ended")
				}
			}
			before := c.Usage()
			if share := before.User.Seconds() / before.Run.Seconds(); (share > 0.5) != tt.user || share > 1.1 {
				t.Errorf("%v of %v outside the kernel", before.User, before.Run)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			after := c.Usage()
			if after.Run < before.Run-2*tick || after.User < before.User-2*tick || after.Run > before.Run+time.Minute {
				t.Errorf("%v after its end, %v before", after, before)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	const stat = "7 (a) R (b) S 1 7 7 0 -1 4194560 120 0 0 0 11 12 13 14 20 0 1 0 50 2 3 4"
	if user, waitedUser, waitedSystem := times(stat); user != 11*tick || waitedUser != 13*tick || waitedSystem != 14*tick {
		t.Errorf("%v, %v, %v", user, waitedUser, waitedSystem)
	}
	for _, bad := range []string{"", ")", "7 (a) R 1", "7 (a) S 1 7 7 0 -1 4194560 120 0 0 0 x -12 y -14"} {
		if user, waitedUser, waitedSystem := times(bad); user != 0 || waitedUser != 0 || waitedSystem != 0 {
			t.Errorf("%q: %v, %v, %v", bad, user, waitedUser, waitedSystem)
		}
	}
}

// The program dies with its thread.
func TestSpawnThreadEnds(t *testing.T) {
	children := make(chan *Child)
	go func() {
		runtime.LockOSThread()
		c, err := Spawn("/bin/sleep", []string{"sleep", "100"}, nil)
		if err != nil {
			t.Error(err)
		}
		children <- c
	}()
	c := <-children
	if c == nil {
		return
	}
	if !c.Wait(in(5*time.Second)) || c.End() != "signal: killed" {
		t.Errorf("it is %s", c.End())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

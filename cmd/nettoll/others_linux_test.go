package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/testnet"
)

// brief returns the arguments of a short run.
func brief(more ...string) []string {
	return append([]string{"--network", "bridge", "--workload", "udp-rr", "--placement", "same-host"}, more...)
}

// A run reports other programs that use the CPUs before it begins, in the records, and at the top of the report.
func TestBusyMachine(t *testing.T) {
	testnet.Root(t)
	for range 2 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
	}
	s := start(t, brief("--time", "2s")...)
	if status := s.wait(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	contains(t, "stderr", s.stderr.String(), "other programs use ", " CPUs now (")
	contains(t, "stdout", oneLine(s.stdout.String()), "Other programs used ", " CPUs while it was measured (",
		" % of the CPU time was idle")
	log, _ := s.records()
	sum := 0.0
	for _, b := range log.Blocks {
		sum += b.Others
	}
	// If nothing else runs, the programs get half of the machine: 1 of 2 CPUs.
	if mean := sum / float64(max(1, len(log.Blocks))); mean < 0.2 {
		t.Errorf("in %d blocks other programs used %.2f CPUs", len(log.Blocks), mean)
	}
	page, err := os.ReadFile(filepath.Join(s.dir, "report.html"))
	if err != nil || !strings.Contains(string(page), "Other programs used ") {
		t.Errorf("the page does not say it, %v", err)
	}
}

// If another run measures already, a run reports that at once, and in its report. With --wait it waits.
func TestTwoRuns(t *testing.T) {
	testnet.Root(t)
	first := start(t, brief("--time", "60s")...)
	first.blocks(1)
	second := start(t, brief("--time", "1s")...)
	if status := second.wait(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	contains(t, "stderr", second.stderr.String(), "another nettoll run measures on this machine (process ",
		"hint: --wait")
	contains(t, "stdout", second.stdout.String(), "Another run of nettoll measured at the same time: process ")
	third := start(t, brief("--time", "1s", "--wait")...)
	const waits = "waiting for process "
	third.until(waits, func() bool { return strings.Contains(third.stderr.String(), waits) })
	time.Sleep(time.Second) // long enough to begin building
	third.interrupt()
	if status := third.wait(patience); status != 130 {
		t.Errorf("exit status %d, want 130", status)
	}
	if _, err := os.Stat(third.dir); !os.IsNotExist(err) {
		t.Errorf("it has begun: %v", err)
	}
}

// A run of a binary with another name is noticed, too, such as that of an older build.
func TestRunOfAnotherName(t *testing.T) {
	testnet.Root(t)
	other := filepath.Join(t.TempDir(), "nt")
	if said, err := exec.Command("cp", os.Getenv(programEnv), other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	first := prepare(t, filepath.Join(t.TempDir(), "run"), brief("--time", "60s")...)
	first.cmd.Path = other
	first.begin()
	first.blocks(1)
	second := start(t, brief("--time", "1s")...)
	if status := second.wait(patience); status != 0 {
		t.Errorf("exit status %d", status)
	}
	contains(t, "stderr", second.stderr.String(), "another nettoll run measures on this machine (process ")
	contains(t, "stdout", oneLine(second.stdout.String()), fmt.Sprintf("process %d, ", first.cmd.Process.Pid))
}

// A run that waits begins when the other one has ended. The two are alone in a PID namespace, because others may
// measure on this machine.
func TestWait(t *testing.T) {
	testnet.Root(t)
	dir := t.TempDir()
	script := `mount -t proc proc /proc; "$0" run -o "$1/a" --time 1s "${@:2}" >/dev/null 2>&1 & while ! [ -s "$1/a/records.jsonl" ]; do sleep 0.05; done
"$0" run -o "$1/b" --time 1s --wait "${@:2}" && wait`
	cmd := exec.Command("bash", append([]string{"-ec", script, os.Getenv(programEnv), dir}, brief()...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	contains(t, "the second", string(said), "waiting for process ")
	if strings.Contains(string(said), "at the same time") {
		t.Errorf("they measured at the same time:\n%s", said)
	}
	var run struct{ Started time.Time }
	data, err := os.ReadFile(filepath.Join(dir, "b", "run.json"))
	if err == nil {
		err = json.Unmarshal(data, &run)
	}
	ended, err2 := os.Stat(filepath.Join(dir, "a", "report.html"))
	if err != nil || err2 != nil || run.Started.Before(ended.ModTime()) {
		t.Errorf("the second began at %v, %v; the first %v, %v", run.Started, err, ended, err2)
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/report"
)

// atOnceInto is the number of runs that start at the same moment.
const atOnceInto = 4

// startTogether runs the program several times at once in one directory, and returns the output and the exit status of
// each.
func startTogether(t *testing.T, in string, args ...string) (said []string, status []int) {
	t.Helper()
	said, status = make([]string, atOnceInto), make([]int, atOnceInto)
	var group sync.WaitGroup
	for i := range atOnceInto {
		group.Go(func() {
			cmd := exec.Command(os.Getenv(programEnv),
				append([]string{"run", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host", "--time", "1s"},
					args...)...)
			cmd.Dir = in
			text, _ := cmd.CombinedOutput() // the process state has the exit status
			said[i], status[i] = string(text), cmd.ProcessState.ExitCode()
		})
	}
	group.Wait()
	return said, status
}

// Runs that start within one second get separate directories.
func TestDefaultDirectoriesOfRunsAtOnce(t *testing.T) {
	testnet.Root(t)
	in := t.TempDir()
	said, status := startTogether(t, in)
	dirs, err := filepath.Glob(filepath.Join(in, "nettoll-bridge-*"))
	if err != nil || len(dirs) != atOnceInto {
		t.Fatalf("%d run directories for %d runs: %v, %v", len(dirs), atOnceInto, dirs, err)
	}
	for i := range status {
		if status[i] != 0 {
			t.Errorf("run %d ended with %d:\n%s", i, status[i], said[i])
		}
	}
	for _, dir := range dirs {
		ofOneRun(t, dir)
	}
}

// If several runs are given one directory, one writes into it and the others are refused.
func TestOneDirectoryOfRunsAtOnce(t *testing.T) {
	testnet.Root(t)
	in := t.TempDir()
	said, status := startTogether(t, in, "-o", "out")
	refused := 0
	for i := range status {
		switch {
		case status[i] == 2 && strings.Contains(said[i], `nettoll: output directory "out" `):
			refused++
		case status[i] != 0:
			t.Errorf("run %d ended with %d:\n%s", i, status[i], said[i])
		}
	}
	if refused != atOnceInto-1 {
		t.Errorf("%d of %d runs were refused, want all but one: %q", refused, atOnceInto, said)
	}
	ofOneRun(t, filepath.Join(in, "out"))
}

// ofOneRun checks that a run directory holds the records of one run: each of the three cells once in each block.
func ofOneRun(t *testing.T, dir string) {
	t.Helper()
	data, problems, err := report.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(dir, problems, err)
	}
	if a := data.Analysis; a.Blocks < 5 || a.Trials != 3*a.Blocks || len(data.Log.Blocks) != a.Blocks {
		t.Errorf("%s holds %d trials in %d blocks, which have %d records: these are not of one run", dir, a.Trials, a.Blocks,
			len(data.Log.Blocks))
	}
}

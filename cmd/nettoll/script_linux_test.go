package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// The scripts of testdata/script run the program as a user does in a shell. Scripts that build something are called
// run*, doctor* and lab*; those that send something are called source*. The run-figures* assert figures, so nothing
// else runs beside them.
func TestScript(t *testing.T) {
	scripts(t, func(name string) bool { return !builds(name) && !sends(name) })
}

func TestSourceScript(t *testing.T) {
	workloadtest.Loopback(t)
	scripts(t, sends)
}

func sends(name string) bool { return strings.HasPrefix(name, "source") }

func TestRunScript(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	scripts(t, func(name string) bool { return builds(name) && !figures(name) })
}

func TestFigureScript(t *testing.T) {
	testnet.Root(t)
	scripts(t, figures)
}

func figures(name string) bool { return strings.HasPrefix(name, "run-figures") }

func builds(name string) bool {
	return strings.HasPrefix(name, "run") || strings.HasPrefix(name, "doctor") || strings.HasPrefix(name, "lab")
}

func scripts(t *testing.T, wanted func(name string) bool) {
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range all {
		if wanted(filepath.Base(f)) {
			files = append(files, f)
		}
	}
	testscript.Run(t, testscript.Params{
		Files:       files,
		WorkdirRoot: t.TempDir(), // testscript leaves its own if only some scripts run
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(os.Getenv(programEnv))+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "runtime")) // for labs of its own
			env.Defer(func() { labsDown(t, filepath.Join(env.WorkDir, "runtime")) })
			return nil
		},
		// [program:NAME] fails on a missing program that is not excused, unlike [exec:NAME]. [slow] holds in make test-slow.
		Condition: func(cond string) (bool, error) {
			if cond == "slow" {
				return testnet.IsSlow(), nil
			}
			name, ok := strings.CutPrefix(cond, "program:")
			if !ok {
				return false, fmt.Errorf("unknown condition %q (known: program:NAME, slow)", cond)
			}
			_, err := testnet.Locate(name, "what has it")
			if err != nil && testnet.Excused(err) {
				return false, nil
			}
			return err == nil, err
		},
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "made": made},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// exits is the script command `exits STATUS PROGRAM [ARGUMENT]...`. The program must end with that exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARGUMENT]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

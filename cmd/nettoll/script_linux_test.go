package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
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
		// [program:NAME] fails on a missing program that is not excused, unlike [exec:NAME]. [slow] holds in make test-slow,
		// [turn:NAME] also in a third of the hours, by the name ([testnet.IsTurn]).
		Condition: func(cond string) (bool, error) {
			if cond == "slow" {
				return testnet.IsSlow(), nil
			}
			if name, ok := strings.CutPrefix(cond, "turn:"); ok {
				return testnet.IsTurn(name), nil
			}
			name, ok := strings.CutPrefix(cond, "program:")
			if !ok {
				return false, fmt.Errorf("unknown condition %q (known: program:NAME, turn:NAME, slow)", cond)
			}
			_, err := testnet.Locate(name, "what has it")
			if err != nil && testnet.Excused(err) {
				return false, nil
			}
			return err == nil, err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "made": made, "promised": promised,
		},
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

// promised is the script command `promised DIR`. The export of a run must have the figures that a run promises on a
// noisy machine, too: the primary metric of each cell of which trials succeeded, if they and those of its baseline have
// it. A row of each cell must be there, unless a trial that succeeded had too few samples for it.
func promised(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: promised DIR")
	}
	log, problems, err := measure.Read(strings.NewReader(ts.ReadFile(filepath.Join(args[0], "records.jsonl"))))
	ts.Check(err)
	if len(problems) > 0 {
		ts.Fatalf("%v", problems)
	}
	var run measure.Run
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(filepath.Join(args[0], "run.json"))), &run))
	ts.Check(ts.Exec("nettoll", "report", args[0], "--format", "csv"))
	rows, err := csv.NewReader(strings.NewReader(ts.ReadFile("stdout"))).ReadAll()
	ts.Check(err)
	cell, metric, value := slices.Index(rows[0], "cell"), slices.Index(rows[0], "metric"), slices.Index(rows[0], "value")
	figures := map[[2]string]string{}
	for _, r := range slices.Backward(rows[1:]) { // rows that compare two stacks come later, and have no value
		figures[[2]string{r[cell], r[metric]}] = r[value]
	}
	succeeded := func(cell, metric string) (with, without int) { // trials with the metric, and those that lack it
		for _, t := range log.Trials {
			if _, ok := t.Metrics[metric]; t.Cell == cell && t.Failed == "" && ok {
				with++
			} else if t.Cell == cell && t.Failed == "" {
				without++
			}
		}
		return with, without
	}
	has := func(cell, metric string) bool {
		with, without := succeeded(cell, metric)
		return with > 0 && without == 0
	}
	for _, c := range run.Cells {
		figure, there := figures[[2]string{c.ID, c.Primary}]
		if _, without := succeeded(c.ID, c.Primary); without == 0 && !there && c.Baseline != "" {
			ts.Fatalf("there is no row of %s with %s", c.ID, c.Primary)
		}
		if figure == "" && has(c.ID, c.Primary) && (c.Baseline == "" || has(c.Baseline, c.Primary)) {
			ts.Fatalf("%s has no %s, although its trials have", c.ID, c.Primary)
		}
	}
}

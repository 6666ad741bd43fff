package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
)

// All finished trials of the records are in the views. The views agree with each other and with the output of the run.
func TestViewsAgree(t *testing.T) {
	testnet.Root(t)
	s := start(t, "--time", "3s", "--network", "bridge", "--workload", "udp-rr", "--workload", "tcp-stream", "--placement",
		"same-host")
	if status := s.wait(patience); status != 0 {
		t.Fatalf("exit status %d, want 0", status)
	}
	log, torn := s.records()
	if torn {
		t.Error("the records are torn")
	}
	const cells = 6 // two workloads on baseline, twin and bridge
	if got, want := len(log.Trials), cells*len(log.Blocks); got != want || want == 0 {
		t.Errorf("%d trials in %d blocks, want %d", got, len(log.Blocks), want)
	}

	table, ending, ok := strings.Cut(s.stdout.String(), "\nThe run ended because ")
	if !ok || !strings.Contains(ending, "All records are in "+s.dir+" (nettoll report "+s.dir+").\n") {
		t.Errorf("it ended saying %q", ending)
	}
	contains(t, "the table", table, "95 % interval", "verdict", "loopback", "baseline", "floor",
		fmt.Sprintf("%d blocks in %d generations, %d trials", len(log.Blocks), generations(log.Trials), len(log.Trials)))
	if again := s.report(); again != table {
		t.Errorf("the run said\n%s\nand its report\n%s", table, again)
	}

	// Trials: one row each, with its metrics.
	rows := s.table("--format", "csv", "--trials")
	if len(rows) != len(log.Trials) {
		t.Fatalf("%d rows for %d trials", len(rows), len(log.Trials))
	}
	for i, r := range log.Trials {
		if rows[i]["cell"] != r.Cell || rows[i]["block"] != strconv.Itoa(r.Block) ||
			rows[i]["gen"] != strconv.Itoa(r.Generation) {
			t.Errorf("row %d is of %s, generation %s, block %s; the record is of %s, %d, %d", i, rows[i]["cell"], rows[i]["gen"],
				rows[i]["block"], r.Cell, r.Generation, r.Block)
		}
		for name, want := range r.Metrics {
			if got, err := strconv.ParseFloat(rows[i][name], 64); err != nil || got != want {
				t.Errorf("row %d: %s is %q, want %v", i, name, rows[i][name], want)
			}
		}
	}

	// Cells: the same values, intervals and verdicts in CSV, in JSON lines and in the table.
	rows = s.table("--format", "csv")
	lines := s.lines()
	// The last rows have the costs of labs.
	rows = slices.DeleteFunc(rows, func(row map[string]string) bool { return row["workload"] == "" })
	if len(rows) != len(lines) || len(rows) == 0 {
		t.Fatalf("%d rows of CSV, %d of JSON lines", len(rows), len(lines))
	}
	verdicts := 0
	for i, row := range rows {
		line := lines[i]
		for _, name := range []string{"cell", "network", "placement", "workload", "metric", "unit", "verdict"} {
			if row[name] != line[name] {
				t.Errorf("row %d: %s is %q in CSV and %q in JSON lines", i, name, row[name], line[name])
			}
		}
		for _, name := range []string{"value", "ratio", "ratio_lo", "ratio_hi"} {
			got, err := strconv.ParseFloat(row[name], 64)
			want, has := line[name].(float64)
			if (err == nil) != has || has && math.Abs(got-want) > 1e-5*math.Abs(want) {
				t.Errorf("row %d, %v %v: %s is %q in CSV and %v in JSON lines", i, row["cell"], row["metric"], name, row[name],
					line[name])
			}
		}
		if row["primary"] != "true" {
			continue
		}
		// Package measure tests the summary. This checks which trials it is about.
		lo, hi := extremes(log.Trials, row["cell"], row["metric"])
		// Histograms have three significant digits.
		if got, err := strconv.ParseFloat(row["value"], 64); err != nil || got < 0.99*lo || got > 1.01*hi {
			t.Errorf("%s: %s is %s, in the records it is %v to %v", row["cell"], row["metric"], row["value"], lo, hi)
		}
		if row["network"] == "bridge" {
			verdicts++
			said := regexp.QuoteMeta(row["verdict"])
			if row["verdict"] == "too few generations" { // busy machine; the table says how many
				said = `[0-4] of 5 generations`
			}
			if !regexp.MustCompile(`(?m)^  bridge .* ` + said + `$`).MatchString(table) {
				t.Errorf("%s is %q in CSV; the table says\n%s", row["cell"], row["verdict"], table)
			}
		}
	}
	if verdicts != 2 {
		t.Errorf("%d verdicts, want one for each workload", verdicts)
	}

	// A file gets the same output as standard output.
	file := filepath.Join(t.TempDir(), "out.csv")
	if said := nettoll(t, "report", s.dir, "--format", "csv", "-o", file); said.status != 0 || said.stdout != "" {
		t.Errorf("report -o exits with %d and says %s%s", said.status, said.stdout, said.stderr)
	}
	data, err := os.ReadFile(file)
	if err != nil || string(data) != s.report("--format", "csv") {
		t.Errorf("report -o wrote something else than it prints: %v", err)
	}
}

// report returns the output of `nettoll report` for the session's run.
func (s *session) report(args ...string) string {
	s.t.Helper()
	said := nettoll(s.t, append([]string{"report", s.dir}, args...)...)
	if said.status != 0 || len(complain(said.stderr)) > 0 {
		s.t.Fatalf("report %q exits with %d: %s", args, said.status, said.stderr)
	}
	return said.stdout
}

// table returns the rows of a CSV report, with columns by their names.
func (s *session) table(args ...string) []map[string]string {
	s.t.Helper()
	all, err := csv.NewReader(strings.NewReader(s.report(args...))).ReadAll()
	if err != nil {
		s.t.Fatal(err)
	}
	rows := make([]map[string]string, len(all)-1)
	for i, fields := range all[1:] {
		rows[i] = map[string]string{}
		for j, name := range all[0] {
			rows[i][name] = fields[j]
		}
	}
	return rows
}

// lines returns the rows of the report as JSON lines.
func (s *session) lines() []map[string]any {
	s.t.Helper()
	var rows []map[string]any
	for line := range strings.Lines(s.report("--format", "jsonl")) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		if row["type"] == "row" {
			rows = append(rows, row)
		}
	}
	return rows
}

func generations(trials []measure.Trial) int {
	seen := map[int]bool{}
	for _, r := range trials {
		seen[r.Generation] = true
	}
	return len(seen)
}

// extremes returns the smallest and the largest value of a metric in the trials of a cell.
func extremes(trials []measure.Trial, cell, metric string) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, r := range trials {
		if x, ok := r.Metrics[metric]; ok && r.Cell == cell {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	return lo, hi
}

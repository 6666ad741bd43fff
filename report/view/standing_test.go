package view_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
)

// Every view of a run that did not end begins with that. No view gives a verdict with too few generations.
func TestStanding(t *testing.T) {
	loads := []load{udprr("same-host", 1)}
	part := func(generations int, end *measure.End) *report.Data {
		m := start(t, loads, "host", "bridge")
		m.measure(loads, generations, 8, map[string]map[string]float64{"bridge": bridge()})
		m.log.End = end
		d, problems, err := report.Load(m.save())
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
		return d
	}
	for name, tt := range map[string]struct {
		data *report.Data
		says string // "" if it says nothing
		few  bool
	}{
		"killed": {
			part(3, nil),
			"This run did not end: it was killed, or its records are cut short. It has 24 blocks in 3 generations", true,
		},
		"killed late": {part(6, nil), "This run did not end", false},
		"interrupted": {
			part(3, &measure.End{Why: measure.EndInterrupted}),
			"This run was interrupted. It has 24 blocks in 3 generations", true,
		},
		"failed": {
			part(6, &measure.End{Why: measure.EndFailed, Detail: "the disk is full"}),
			"This run failed: the disk is full. ", false,
		},
		"whole": {part(6, &measure.End{Why: measure.EndTime}), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range view.Formats() {
				var b bytes.Buffer
				if err := view.Write(&b, format, tt.data, report.Options{Width: 1000}); err != nil {
					t.Fatal(err)
				}
				text := b.String()
				verdict := strings.Contains(text, "slower")
				switch format {
				case "text":
					if tt.says != "" && !strings.HasPrefix(text, "✗ "+tt.says) || tt.says == "" && strings.HasPrefix(text, "✗") {
						t.Errorf("the text begins with %.200s", text)
					}
				case "csv":
					want := map[string]string{
						"killed": "no", "killed late": "no", "interrupted": "interrupted", "failed": "failed", "whole": "time",
					}[name]
					for i, row := range table(t, []byte(text)) {
						if row["ended"] != want {
							t.Fatalf("row %d ended %q, want %q", i, row["ended"], want)
						}
					}
				default:
					before, _, found := strings.Cut(text, tt.says)
					if !found || strings.Contains(before, "The answer") || strings.Contains(before, "bridge adds") ||
						strings.Contains(before, `"row"`) {
						t.Errorf("%s does not begin with it: %.3000s", format, text)
					}
				}
				switch format { // these formats also explain the word
				case "html":
					verdict = strings.Contains(text, `data-l="verdict">slower`)
				case "markdown":
					verdict = strings.Contains(text, "| **slower** |")
				}
				if verdict == tt.few {
					t.Errorf("%s gives a verdict: %v, though there are too few generations: %v", format, verdict, tt.few)
				}
				if missing := strings.Contains(text, "3 of 5 generations") ||
					strings.Contains(text, "too few generations"); missing != tt.few {
					t.Errorf("%s says what is missing: %v, want %v", format, missing, tt.few)
				}
			}
			c := report.Compare("a", "b", part(6, &measure.End{Why: measure.EndTime}), tt.data)
			for _, format := range []string{"text", "markdown"} {
				var b bytes.Buffer
				if err := view.WriteCompared(&b, format, report.Comparisons{c}, report.Options{Width: 1000}); err != nil {
					t.Fatal(err)
				}
				if first, _, _ := strings.Cut(b.String(), "\n"); tt.says != "" && !strings.Contains(first, "NEW: "+tt.says) {
					t.Errorf("the comparison as %s begins with %q", format, first)
				}
			}
		})
	}
}

// Runs of version 1, which nettoll wrote until commit 2937491, can still be read, and views say that they are old.
func TestVersion1(t *testing.T) {
	for dir, blocks := range map[string]int{"v1-whole": 5, "v1-killed": 9} {
		d, problems, err := report.Load(filepath.Join("testdata", dir))
		if err != nil || len(problems) > 0 {
			t.Fatal(dir, problems, err)
		}
		if d.Analysis.Blocks != blocks || d.Analysis.Trials != 3*blocks || len(d.Standing()) > 0 {
			t.Errorf("%s: %d blocks, %d trials, %v", dir, d.Analysis.Blocks, d.Analysis.Trials, d.Standing())
		}
		var b bytes.Buffer
		if err := text.Write(&b, d, report.Options{Width: 1000}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "),
			"! the records have version 1: they have no checksums and do not say whether the run ended; measure "+
				"again to have both") {
			t.Errorf("%s: the report does not call them so:\n%s", dir, b.String())
		}
		if few := strings.Contains(b.String(), "3 of 5 generations"); few != (dir == "v1-killed") {
			t.Errorf("%s has too few generations: %v\n%s", dir, few, b.String())
		}
	}
}

// A run of version 1 with parameters, two networks, a filter, both placements, two numbers of pairs and a mix has the
// trials that the program which measured it shows (testdata/v1-wide/trials.csv, written by nettoll 2937491), and a
// table that only changes on purpose. The figures of the table are not those of that program, because values and ratios
// are estimated in another way since (docs/method.md).
func TestWideVersion1(t *testing.T) {
	dir := filepath.Join("testdata", "v1-wide")
	d, problems, err := report.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	was, err := os.ReadFile(filepath.Join(dir, "trials.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := export.Trials(&b, d); err != nil {
		t.Fatal(err)
	}
	before, after := table(t, was), table(t, b.Bytes())
	if len(before) != 135 || len(after) != len(before) {
		t.Fatalf("%d trials, before %d", len(after), len(before))
	}
	for i, row := range before {
		n, err := strconv.Atoi(row["gen"]) // counted from 0 then
		if err != nil {
			t.Fatal(err)
		}
		row["gen"] = strconv.Itoa(n + 1)
		for column, value := range row {
			if got, ok := after[i][column]; !ok || got != value {
				t.Errorf("trial %d: %s is %q, before %q", i, column, got, value)
			}
		}
	}
	b.Reset()
	if err := text.Write(&b, d, report.Options{Width: 120}); err != nil {
		t.Fatal(err)
	}
	golden(t, "v1-wide.golden", b.String())
}

// A run of version 2, which nettoll wrote until commit 2235bb7c, is shown as it was then. Its generations were counted
// from 0 in the records, and are counted from 1 everywhere now.
func TestVersion2(t *testing.T) {
	d, problems, err := report.Load(filepath.Join("testdata", "v2-interrupted"))
	if err != nil || len(problems) > 0 || len(d.Log.Changed) > 0 {
		t.Fatal(problems, err, d)
	}
	numbers := map[int]bool{}
	for _, x := range d.Log.Trials {
		numbers[x.Generation] = true
	}
	if want := map[int]bool{1: true, 2: true, 3: true}; !maps.Equal(numbers, want) || d.Analysis.Blocks != 12 {
		t.Errorf("%d blocks in generations %v, want 12 in %v", d.Analysis.Blocks, numbers, want)
	}
	if s := d.Standing(); len(s) != 1 || !strings.HasPrefix(s[0], "This run was interrupted. It has 12 blocks in 3 gen") {
		t.Errorf("it begins with %q", s)
	}
	d.Log.Proofs[0].OK = false
	var shown, rows bytes.Buffer
	if err := errors.Join(text.Write(&shown, d, report.Options{Width: 1000}), export.Trials(&rows, d)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(shown.String(), "generation 1, before") {
		t.Errorf("the text has no proof of generation 1:\n%s", shown.String())
	}
	exported := map[string]bool{}
	for _, row := range table(t, rows.Bytes()) {
		exported[row["gen"]] = true
	}
	if want := map[string]bool{"1": true, "2": true, "3": true}; !maps.Equal(exported, want) {
		t.Errorf("the trials in CSV have generations %v", exported)
	}
}

// Views notice a changed run.json, and records whose checksums were removed.
func TestRunIsSealed(t *testing.T) {
	m := usual(t)
	for name, tt := range map[string]struct {
		file string
		from string
		to   string
		says string
	}{
		"precision": {
			"run.json", `"precision": 0.02`, `"precision": 0.2`,
			"run.json was changed after the run began",
		},
		"version":           {"run.json", `"v": 3`, `"v": 2`, "run.json was changed after the run began"},
		"records version 1": {"records.jsonl", `"v":3`, `"v":1`, "The records were changed after the run: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := m.save()
			path := filepath.Join(dir, tt.file)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(b), tt.from, tt.to)
			if text == string(b) {
				t.Fatalf("%s has no %s", tt.file, tt.from)
			}
			if tt.file == "records.jsonl" { // as somebody without nettoll could do it
				var kept []string
				for line := range strings.Lines(text) {
					if !strings.Contains(line, `"type":"sum"`) && !strings.Contains(line, `"type":"begin"`) {
						kept = append(kept, line)
					}
				}
				text = strings.Join(kept, "")
			}
			write(t, path, text)
			d, _, err := report.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(d.Standing(), "\n"); !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, want %q", said, tt.says)
			}
			if tt.file == "records.jsonl" && d.Analysis.Trials > 0 {
				t.Errorf("%d trials are used", d.Analysis.Trials)
			}
		})
	}
}

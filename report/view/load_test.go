package view_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/report/export"
	"github.com/nettoll/nettoll/report/text"
	"github.com/nettoll/nettoll/report/view"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	m := usual(t)
	d, problems, err := report.Load(m.save())
	if err != nil || problems != nil {
		t.Fatal(err, problems)
	}
	if len(d.Log.Trials) != len(m.log.Trials) {
		t.Errorf("%d trials, want %d", len(d.Log.Trials), len(m.log.Trials))
	}
	var fromDisk, fromMemory bytes.Buffer
	if err := errors.Join(text.Write(&fromDisk, d, report.Options{All: true}),
		text.Write(&fromMemory, m.data(), report.Options{All: true})); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fromMemory.String(), fromDisk.String()); d != "" {
		t.Errorf("the records say something else than what was recorded:\n%s", d)
	}
}

func TestLoadOfTornRecords(t *testing.T) {
	m := usual(t)
	dir := m.save()
	file := filepath.Join(dir, "records.jsonl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	lines[10] = lines[10][:30] + "\n"                                    // in the content block
	lines[20] = "{\"type\":\"trial\",\"v\":99}\n\x00\xff\x00 not JSON\n" // in the second
	content := strings.Join(lines, "")
	write(t, file, content[:len(content)-25]) // as a killed run leaves it
	d, problems, err := report.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range problems {
		said = append(said, p.String())
	}
	content = strings.Join(said, "\n")
	want := []string{
		"line 11: no record: ", "lines 1 to 14 (block 0) do not match their checksum and are not used",
		`line 21: record "trial" has version 99`, "line 22: no record: ",
		"lines 15 to 28 (block 1) do not match their checksum and are not used; there are 1 lines too many",
		"have no checksum yet, as if the run was killed while it wrote them, and are not used",
	}
	for _, w := range want {
		if !strings.Contains(content, w) {
			t.Errorf("the problems do not name %q:\n%s", w, content)
		}
	}
	cells := len(m.run.Cells)
	last := 0 // trials of the last block, which has no checksum
	for _, x := range m.log.Trials {
		if x.Block == m.log.Trials[len(m.log.Trials)-1].Block {
			last++
		}
	}
	if got, want := len(d.Log.Trials), len(m.log.Trials)-2*cells-last; got != want {
		t.Errorf("%d trials, want %d", got, want)
	}
	warning := d.Analysis.Warnings[len(d.Analysis.Warnings)-1].Text
	if !strings.HasPrefix(warning,
		fmt.Sprintf("%d lines of records.jsonl could not be used, the first of them line 11: ", len(problems))) {
		t.Errorf("warning %q", warning)
	}
	var out bytes.Buffer
	if err := text.Write(&out, d, report.Options{}); err != nil ||
		!strings.HasPrefix(out.String(), "✗ The records were changed after the run: lines 1 to 14") {
		t.Errorf("the table does not begin with it (%v):\n%s", err, out.String())
	}
}

func TestLoadRefuses(t *testing.T) {
	good := mixed(t).save()
	run, err := os.ReadFile(filepath.Join(good, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		files map[string]string // nil: no directory
		want  error
		says  string
	}{
		{"no directory", nil, fs.ErrNotExist, "there is no directory"},
		{"empty", map[string]string{}, report.ErrNoRun, "there is no run.json"},
		{"no records", map[string]string{"run.json": string(run)}, report.ErrNoRun, "there is no records.jsonl"},
		{
			"torn run",
			map[string]string{"run.json": string(run[:100]), "records.jsonl": ""},
			report.ErrNoRun,
			"cannot be read",
		},
		{"empty run", map[string]string{"run.json": "", "records.jsonl": ""}, report.ErrNoRun, "cannot be read"},
		{
			"another program's",
			map[string]string{"run.json": `{"version": 3, "jobs": []}`, "records.jsonl": ""},
			report.ErrNoRun, "lists no cells",
		},
		{"newer", map[string]string{"run.json": `{"v": 99}`, "records.jsonl": ""}, measure.ErrVersion, "newer nettoll"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			if tt.files != nil {
				if err := os.Mkdir(dir, 0o777); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range tt.files {
				write(t, filepath.Join(dir, name), text)
			}
			_, _, err := report.Load(dir)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %v that says %q", err, tt.want, tt.says)
			}
		})
	}
	if _, _, err := report.Load(filepath.Join(good, "run.json")); !errors.Is(err, report.ErrNoRun) {
		t.Errorf("a file in place of the directory: %v", err)
	}
	if err := os.Mkdir(filepath.Join(good, "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(good, "x"), filepath.Join(good, "run.json")); err == nil {
		t.Fatal("a directory replaced a file")
	}
	if err := os.Remove(filepath.Join(good, "records.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(good, "x"), filepath.Join(good, "records.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := report.Load(good); !errors.Is(err, report.ErrNoRun) {
		t.Errorf("a directory in place of the records: %v", err)
	}
}

// Whatever the files contain, every format gives an error or a report.
func TestLoadOfGarbage(t *testing.T) {
	m := mixed(t)
	dir := m.save()
	var files [2]string
	for i, name := range []string{"run.json", "records.jsonl"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[i] = string(b)
	}
	rnd := rand.New(rand.NewPCG(4, 5))
	spoil := func(s string) string {
		b := []byte(s)
		for range 1 + rnd.IntN(30) {
			i := rnd.IntN(len(b))
			switch rnd.IntN(4) {
			case 0:
				b[i] = byte(rnd.IntN(256))
			case 1:
				b = append(b[:i], b[min(len(b)-1, i+rnd.IntN(40)):]...)
			case 2: // digits stay digits: the file stays readable, with wrong values
				for j := i; j < min(len(b), i+200); j++ {
					if b[j] >= '0' && b[j] <= '9' {
						b[j] = "0192837465-"[rnd.IntN(11)]
					}
				}
			case 3: // names that no longer match
				copy(b[i:], "\x1b[31m\"\n€"[:rnd.IntN(9)])
			}
		}
		return string(b)
	}
	read := 0
	for range 150 {
		write(t, filepath.Join(dir, "run.json"), files[0])
		if rnd.IntN(2) == 0 {
			write(t, filepath.Join(dir, "run.json"), spoil(files[0]))
		}
		write(t, filepath.Join(dir, "records.jsonl"), spoil(files[1]))
		d, _, err := report.Load(dir)
		if err != nil {
			continue
		}
		read++
		for _, format := range view.Formats() {
			var b bytes.Buffer
			if err := view.Write(&b, format, d, report.Options{Width: rnd.IntN(120), All: rnd.IntN(2) == 0}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if format == "text" && strings.Contains(b.String(), "\x1b") {
				t.Fatalf("text from a file steers the terminal:\n%q", b.String())
			}
		}
		if err := export.Trials(io.Discard, d); err != nil {
			t.Fatal(err)
		}
	}
	if read < 50 {
		t.Errorf("only %d of 150 could be read", read)
	}
}

// BenchmarkReport loads, analyzes and writes a run of 100,000 trials (limit: 3 s).
func BenchmarkReport(b *testing.B) {
	loads := []load{udprr("same-host", 1), udprr("cross-host", 1), tcpstream("same-host")}
	m := start(b, loads, "host", "bridge", "routed")
	m.measure(loads, 20, 417, map[string]map[string]float64{"bridge": bridge()})
	m.prove(20, "before", "after")
	dir := m.save()
	for b.Loop() {
		d, _, err := report.Load(dir)
		if err != nil {
			b.Fatal(err)
		}
		for _, format := range view.Formats() {
			if err := view.Write(io.Discard, format, d, report.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(m.log.Trials)), "trials")
}

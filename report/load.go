package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nettoll/nettoll/measure"
)

// Names of the files of a run directory (docs/records.md).
const (
	runFile     = "run.json"
	recordsFile = "records.jsonl"
)

// Data holds the contents of a run directory.
type Data struct {
	Run      measure.Run
	Log      *measure.Log
	Analysis measure.Analysis
	Pairs    []Pair // stacks to compare with each other; nil: all of each group that has few
}

// Read sorts the run by groups.
func (d *Data) Read() *Reading { return Read(d.Run, d.Analysis, d.Pairs) }

// Direct returns the comparisons between stacks that views show, group by group.
func (d *Data) Direct() []measure.Direct {
	var list []measure.Direct
	for _, g := range d.Read().Groups {
		list = append(list, g.Direct...)
	}
	return list
}

// ErrNoRun is wrapped by errors about directories that are not run directories.
var ErrNoRun = fmt.Errorf("a run directory holds %s and %s, as nettoll run writes them", runFile, recordsFile)

// Load reads a run directory and analyzes it. It returns lines of the records that cannot be used (torn, not a record,
// of a newer nettoll) as problems, and adds a warning about them to the analysis, so that each view shows it. The error
// wraps [fs.ErrNotExist] if the directory does not exist, [ErrNoRun] if it is not a run directory, and
// [measure.ErrVersion] if a newer nettoll wrote it.
func Load(dir string) (*Data, []measure.Problem, error) {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("load run: there is no directory %q: %w", dir, fs.ErrNotExist)
	case err != nil:
		return nil, nil, fmt.Errorf("load run: %w", err)
	case !info.IsDir():
		return nil, nil, fmt.Errorf("load run: %q is a file, not a directory: %w", dir, ErrNoRun)
	}
	run, sum, err := loadRun(dir)
	if err != nil {
		return nil, nil, err
	}
	f, err := open(dir, recordsFile)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	log, problems, err := measure.Read(f)
	if err != nil { // a disk error: the records before it are a result
		problems = append(problems, measure.Problem{Text: err.Error()})
	}
	switch {
	case log.Begin != nil && log.Begin.Run != sum:
		log.RunChanged = true
	case run.V >= 2 && log.Version == 1:
		log = &measure.Log{Changed: []string{
			fmt.Sprintf("%s has version 1 (without checksums), but %s has version %d: no record is used",
				recordsFile, runFile, run.V),
		}}
	}
	run.Tell(log.Labs)
	d := &Data{Run: run, Log: log, Analysis: measure.Analyze(run, log)}
	if d.Analysis.Standing.Old(run.V) {
		d.Analysis.Warnings = append(d.Analysis.Warnings, measure.Warning{
			Type: "warning", V: measure.Version,
			Text: "the records have version 1: they have no checksums and do not say whether the run ended; measure again " +
				"to have both",
		})
	}
	if n := len(problems); n > 0 {
		text := fmt.Sprintf("%d lines of %s could not be used, the first of them %v", n, recordsFile, problems[0])
		if n == 1 {
			text = fmt.Sprintf("a line of %s could not be used: %v", recordsFile, problems[0])
		}
		d.Analysis.Warnings = append(d.Analysis.Warnings, measure.Warning{
			Type: "warning", V: measure.Version, Text: text + "; restore the file from a copy, or measure again",
		})
	}
	return d, problems, nil
}

// loadRun reads run.json, and returns its checksum as well.
func loadRun(dir string) (run measure.Run, sum string, err error) {
	f, err := open(dir, runFile)
	if err != nil {
		return measure.Run{}, "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return measure.Run{}, "", fmt.Errorf("load run: %w", err)
	}
	run, err = measure.ReadRun(bytes.NewReader(text))
	switch {
	case errors.Is(err, measure.ErrVersion):
		return run, "", fmt.Errorf("load run: %s in %q: %w", runFile, dir, err)
	case err != nil:
		return run, "", fmt.Errorf("load run: %s in %q cannot be read (%w): %w", runFile, dir, err, ErrNoRun)
	case run.V < 1 || len(run.Cells) == 0:
		return run, "", fmt.Errorf("load run: %s in %q lists no cells, so nettoll did not write it: %w", runFile, dir,
			ErrNoRun)
	}
	return run, measure.RunSum(text), nil
}

// open opens one of the files. It refuses everything but a regular file: a pipe could block.
func open(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("load run: there is no %s in %q: %w", name, dir, ErrNoRun)
	case err != nil:
		return nil, fmt.Errorf("load run: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("load run: %s in %q is not a regular file: %w", name, dir, ErrNoRun)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load run: %w", err)
	}
	return f, nil
}

package measure

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line Read takes as a record, in bytes.
const maxLine = 16 << 20

// Log is what records.jsonl says, each kind in the order of the file.
type Log struct {
	Trials     []Trial
	Histograms []Histograms
	Blocks     []BlockFacts
	Proofs     []Proof
	Labs       []Lab
	Warnings   []Warning
	Facts      []Fact
}

// Problem is a line Read could not use.
type Problem struct {
	Line int // from 1
	Text string
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Text) }

// Read reads records. What can be read is read: every line that is not a record (torn, of an unknown type, from a newer
// version, longer than 16 MiB) becomes a Problem and the lines after it are read all the same. Where a record follows the
// torn rest of another on the same line, as after a crash and a careless append, it is recovered too. Unknown fields are
// tolerated. The error is that of r; the Log then holds what came before.
func Read(r io.Reader) (*Log, []Problem, error) {
	log := &Log{}
	var problems []Problem
	var scan scanner
	br := bufio.NewReaderSize(r, 1<<16)
	for line := 1; ; line++ {
		b, long, err := readLine(br)
		switch {
		case long:
			problems = append(problems, Problem{line, fmt.Sprintf("longer than %d bytes", maxLine)})
		case bytes.HasPrefix(b, []byte(trialHead)) && log.scan(&scan, b):
		case len(bytes.TrimSpace(b)) > 0:
			if bad := log.take(b); bad != nil {
				text := bad.Error()
				if log.salvage(b) {
					text += "; the record after it was recovered"
				}
				problems = append(problems, Problem{line, text})
			}
		}
		if errors.Is(err, io.EOF) {
			return log, problems, nil
		}
		if err != nil {
			return log, problems, fmt.Errorf("read records: line %d: %w", line, err)
		}
	}
}

// readLine returns the next line without its newline, or long if it exceeds maxLine (all of it is then skipped).
func readLine(br *bufio.Reader) (line []byte, long bool, err error) {
	var kept []byte
	for {
		part, err := br.ReadSlice('\n')
		if err == nil && kept == nil {
			return part[:len(part)-1], false, nil // the usual case: no copy
		}
		if !long {
			kept = append(kept, part...)
		}
		if len(kept) > maxLine {
			kept, long = nil, true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if kept == nil {
				kept = []byte{}
			}
			continue
		}
		return bytes.TrimSuffix(kept, []byte("\n")), long, err
	}
}

// scan adds the trial on line b to the log, if it looks as most do.
func (log *Log) scan(s *scanner, b []byte) bool {
	t, ok := s.trial(b)
	if ok {
		log.Trials = append(log.Trials, t)
	}
	return ok
}

// take adds the record on line b to the log.
func (log *Log) take(b []byte) error {
	var h struct {
		Type string `json:"type"`
		V    int    `json:"v"`
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return fmt.Errorf("no record: %w", err)
	}
	switch {
	case h.Type == "":
		return errors.New(`no record: field "type" is missing`)
	case h.V > Version:
		return fmt.Errorf("record %q has version %d, this nettoll knows %d: %w", h.Type, h.V, Version, ErrVersion)
	case h.V < 1:
		return fmt.Errorf(`record %q has no version: field "v" is missing`, h.Type)
	}
	switch h.Type {
	case "trial":
		return take(b, &log.Trials, func(t Trial) bool { return t.Cell != "" })
	case "histogram":
		return take(b, &log.Histograms, func(h Histograms) bool { return h.Cell != "" })
	case "block":
		return take(b, &log.Blocks, nil)
	case "proof":
		return take(b, &log.Proofs, nil)
	case "lab":
		return take(b, &log.Labs, nil)
	case "warning":
		return take(b, &log.Warnings, nil)
	case "fact":
		return take(b, &log.Facts, nil)
	}
	return fmt.Errorf("unknown record type %q (known: trial, histogram, block, proof, lab, warning, fact)", h.Type)
}

func take[T any](b []byte, list *[]T, valid func(T) bool) error {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("no record: %w", err)
	}
	if valid != nil && !valid(v) {
		return errors.New(`no record: field "cell" is missing`)
	}
	*list = append(*list, v)
	return nil
}

// salvage looks for a whole record at the end of a line that begins with something else. Only the last two places where
// one may begin are tried: each costs a pass over the rest of the line.
func (log *Log) salvage(b []byte) bool {
	end := len(b)
	for range 2 {
		i := bytes.LastIndex(b[:end], []byte(`{"type":"`))
		if i <= 0 {
			return false
		}
		if log.take(b[i:]) == nil {
			return true
		}
		end = i
	}
	return false
}

package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Log holds the records of records.jsonl; each list is in the order of the file.
type Log struct {
	Begin       *Begin
	Trials      []Trial
	Histograms  []Histograms
	Blocks      []BlockFacts
	Proofs      []Proof
	Matrices    []Matrix
	Attacks     []Attacks
	Labs        []LabRecord
	Warnings    []Warning
	Facts       []Fact
	Generations []Generation
	Resumes     []Resume
	End         *End

	Version int // of the records: 1 has no checksums; 0: no record was read yet
	// subjects of sentences: lines that do not match their checksum, or that follow the end of the run without one
	Changed    []string
	RunChanged bool // run.json is not the one in Begin; set by the caller that reads both
	Unfinished int  // lines at the end without a checksum, as a killed run leaves them
	Place      Place
}

// Problem is a line, or several, that Read could not use.
type Problem struct {
	Line int // from 1; 0: several lines, which Text names
	Text string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// Read reads as many records as it can. A line that is not a record (torn, of an unknown type, from a newer version,
// longer than 16 MiB) becomes a Problem, and reading goes on with the next line. Unknown fields are ignored. Since
// version 2, lines that do not match their checksum, and lines at the end without a checksum, become a Problem and are
// not used. Version 1 has no checksums; there, a record that follows the torn rest of another on the same line is
// recovered. The error is that of r; the Log then holds the records read before it.
func Read(r io.Reader) (*Log, []Problem, error) {
	log := &Log{}
	var problems []Problem
	part := newSegment(1, log)
	number, offset := 0, int64(0)
	for b := range batches(r) {
		trials := b.trials
		for _, l := range b.lines {
			number++
			kind := ""
			switch {
			case l.long:
				problems = append(problems, Problem{number, fmt.Sprintf("longer than %d bytes", maxLine)})
			case isSum(l):
				log.Version = max(log.Version, sumVersion)
				if l.err != nil {
					break // torn
				}
				if wrong := part.ends(log, l, number); wrong != "" {
					problems = append(problems, Problem{Text: wrong})
					log.Changed = append(log.Changed, wrong)
					log.back(part.lens)
					part.last = ""
				}
				offset += int64(len(l.text)) + 1
				ended := part.last
				part = newSegment(number+1, log)
				if ended == "begin" || ended == "generation" || ended == "resume" {
					log.Place = Place{offset, append(slices.Clone(l.text), '\n'), part.lens}
				}
				continue
			case l.scan:
				kind = "trial"
				log.trial(trials[0])
				trials = trials[1:]
			case len(bytes.TrimSpace(l.text)) > 0:
				var bad error
				if kind, bad = log.take(l.text); bad != nil {
					text := bad.Error()
					if log.Version < 2 && log.salvage(l.text) {
						text += "; the record after it was recovered"
					}
					problems = append(problems, Problem{number, text})
				}
			}
			if l.err == nil || len(l.text) > 0 || l.long {
				part.lines++
				offset += int64(len(l.text)) + 1
			}
			if kind != "" {
				part.last = kind
			}
			if l.err == nil {
				continue
			}
			if log.Version >= 2 && part.lines > 0 {
				problems = append(problems, log.unfinished(&part))
			}
			if errors.Is(l.err, io.EOF) {
				return log, problems, nil
			}
			return log, problems, fmt.Errorf("read records: line %d: %w", number, l.err)
		}
	}
	return log, problems, io.ErrUnexpectedEOF // there is always a last line, which has an error
}

// unfinished removes the lines after the last checksum.
func (log *Log) unfinished(part *segment) Problem {
	text := part.place(log, part.first+part.lines-1)
	log.back(part.lens)
	if log.End != nil {
		text += " stand behind the end of the run, without a checksum, and are not used"
		log.Changed = append(log.Changed, text)
	} else {
		text += " have no checksum yet, as if the run was killed while it wrote them, and are not used"
		log.Unfinished = part.lines
	}
	return Problem{Text: text}
}

// trial adds a trial that was scanned.
func (log *Log) trial(t Trial) {
	if n := len(log.Trials); n == cap(log.Trials) { // append grows a long list by a quarter only, and copies it then
		log.Trials = slices.Grow(log.Trials, max(n, 1024))
	}
	log.Trials = append(log.Trials, t)
	log.is(t.V)
	log.renumber("trial", t.V)
}

// is notes the version of a record. The first one has that of the file: a damaged record must not make a file of
// version 1, all lines of which have no checksum, one of version 2, which does not use such lines.
func (log *Log) is(version int) {
	if log.Version == 0 {
		log.Version = version
	}
}

// take adds the record on line b to the log and returns its type.
func (log *Log) take(b []byte) (kind string, err error) {
	var h struct {
		Type string `json:"type"`
		V    int    `json:"v"`
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return "", fmt.Errorf("no record: %w", err)
	}
	switch {
	case h.Type == "":
		return "", errors.New(`no record: field "type" is missing`)
	case h.V > Version:
		return "", fmt.Errorf("record %q has version %d, this nettoll knows %d: %w", h.Type, h.V, Version, ErrVersion)
	case h.V < 1:
		return "", fmt.Errorf(`record %q has no version: field "v" is missing`, h.Type)
	}
	if err = log.put(h.Type, b); err != nil {
		return "", err
	}
	log.is(h.V)
	log.renumber(h.Type, h.V)
	return h.Type, nil
}

// put adds a record of a type to the log.
func (log *Log) put(kind string, b []byte) error {
	switch kind {
	case "begin":
		return takeOne(b, &log.Begin)
	case "trial":
		return take(b, &log.Trials, func(t Trial) bool { return t.Cell != "" })
	case "histogram":
		return take(b, &log.Histograms, func(h Histograms) bool { return h.Cell != "" })
	case "block":
		return take(b, &log.Blocks, nil)
	case "proof":
		return take(b, &log.Proofs, nil)
	case "matrix":
		return take(b, &log.Matrices, nil)
	case "attacks":
		return take(b, &log.Attacks, nil)
	case "lab":
		return take(b, &log.Labs, nil)
	case "warning":
		return take(b, &log.Warnings, nil)
	case "fact":
		return take(b, &log.Facts, nil)
	case "generation":
		return take(b, &log.Generations, nil)
	case "resume":
		return take(b, &log.Resumes, nil)
	case "end":
		return takeOne(b, &log.End)
	}
	return fmt.Errorf("unknown record type %q (known: begin, trial, histogram, block, proof, matrix, "+
		"attacks, lab, warning, fact, generation, resume, end, sum)", kind)
}

func takeOne[T any](b []byte, to **T) error {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("no record: %w", err)
	}
	*to = &v
	return nil
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

// salvage looks for a whole record at the end of a line that begins with something else. It tries only the last two
// places where a record may begin, because each try costs a pass over the rest of the line.
func (log *Log) salvage(b []byte) bool {
	end := len(b)
	for range 2 {
		i := bytes.LastIndex(b[:end], []byte(`{"type":"`))
		if i <= 0 {
			return false
		}
		if _, err := log.take(b[i:]); err == nil {
			return true
		}
		end = i
	}
	return false
}

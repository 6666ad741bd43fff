package measure

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// A chain is the running checksum of records.jsonl. A checksum line follows each block, and each point at which the
// file is handed to the kernel:
//
//	{"type":"sum","v":2,"lines":12,"sum":"…"}
//
// It has the number of lines since the last checksum line, and the first 16 bytes, in hexadecimal, of the SHA-256 of
// that line and those lines, newlines included. So each sum depends on everything before it: a line that is changed,
// added, removed or moved no longer fits. Each sum starts from the one before as it stands in the file. So the lines
// after a damaged place can still be checked.
//
// A checksum finds accidents and careless changes. It is not a signature: anyone who can write the file can write all
// sums anew.
type chain struct {
	hash  hash.Hash
	lines int // since the last sum
}

// sumHead is the beginning of a checksum line, and sumVersion its field v. The form of these lines is still that of
// version 2, the first one that had them.
const (
	sumHead    = `{"type":"sum",`
	sumVersion = 2
)

// newChain starts a chain after the checksum line last, newline included. At the beginning of a file, last is nil.
func newChain(last []byte) chain {
	c := chain{hash: sha256.New()}
	c.hash.Write(last)
	return c
}

// add adds a line, newline included, to the checksum.
func (c *chain) add(line []byte) {
	c.hash.Write(line)
	c.lines++
}

// line appends the checksum line to dst, without newline.
func (c *chain) line(dst []byte) []byte {
	return fmt.Appendf(dst, `%s"v":%d,"lines":%d,"sum":"%s"}`, sumHead, sumVersion, c.lines, short(c.hash.Sum(nil)))
}

// RunSum returns the checksum of run.json, as [Begin] holds it: the first 16 bytes of its SHA-256, in hexadecimal.
func RunSum(text []byte) string {
	sum := sha256.Sum256(text)
	return short(sum[:])
}

func short(sum []byte) string { return hex.EncodeToString(sum[:16]) }

// lens holds the lengths of the lists of a Log.
type lens struct {
	trials, histograms, blocks, proofs, matrices, attacks, labs, warnings, facts, generations, resumes int

	begin *Begin
	end   *End
}

func (log *Log) lens() lens {
	return lens{
		len(log.Trials), len(log.Histograms), len(log.Blocks), len(log.Proofs), len(log.Matrices), len(log.Attacks),
		len(log.Labs), len(log.Warnings), len(log.Facts), len(log.Generations), len(log.Resumes),
		log.Begin, log.End,
	}
}

// back removes everything that was added to the log after to.
func (log *Log) back(to lens) {
	log.Trials, log.Histograms, log.Blocks = log.Trials[:to.trials], log.Histograms[:to.histograms], log.Blocks[:to.blocks]
	log.Proofs, log.Labs, log.Warnings, log.Facts = log.Proofs[:to.proofs], log.Labs[:to.labs], log.Warnings[:to.warnings],
		log.Facts[:to.facts]
	log.Matrices, log.Attacks = log.Matrices[:to.matrices], log.Attacks[:to.attacks]
	log.Generations, log.Resumes = log.Generations[:to.generations], log.Resumes[:to.resumes]
	log.Begin, log.End = to.begin, to.end
}

// A Place is a place in a file of records from which a run can be resumed: after the checksum of a whole generation, or
// of the beginning of the run or of its resumption.
type Place struct {
	Offset int64 // bytes
	sum    []byte
	lens   lens
}

// Back removes everything from the log that follows its place.
func (log *Log) Back() { log.back(log.Place.lens) }

// segment holds the lines between two checksums while they are read.
type segment struct {
	lines int    // how many there are
	first int    // number of its first line
	lens  lens   // the log's lengths before it
	last  string // the type of its last record
}

func newSegment(first int, log *Log) segment { return segment{first: first, lens: log.lens()} }

// place names the lines of the segment, up to line last: "lines 12 to 20 (block 3)".
func (s *segment) place(log *Log, last int) string {
	text := fmt.Sprintf("lines %d to %d", s.first, last)
	if s.first == last {
		text = fmt.Sprintf("line %d", last)
	}
	trials, before := log.Trials[s.lens.trials:], log.Trials[:s.lens.trials]
	switch {
	case len(trials) > 0 && trials[0].Block != trials[len(trials)-1].Block:
		return text + fmt.Sprintf(" (blocks %d to %d)", trials[0].Block, trials[len(trials)-1].Block)
	case len(trials) > 0:
		return text + fmt.Sprintf(" (block %d)", trials[0].Block)
	case len(before) > 0:
		return text + fmt.Sprintf(" (after block %d)", before[len(before)-1].Block)
	}
	return text + " (before the first block)"
}

// ends compares the segment with its checksum, on line number, and returns what is wrong; "" if nothing is.
func (s *segment) ends(log *Log, l line, number int) string {
	if string(l.text) == l.sum {
		return ""
	}
	how := ""
	var lines int
	if _, err := fmt.Sscanf(string(l.text), sumHead+`"v":2,"lines":%d,`, &lines); err == nil && lines > s.lines {
		how = fmt.Sprintf("; %d lines are missing", lines-s.lines)
	} else if err == nil && lines < s.lines {
		how = fmt.Sprintf("; there are %d lines too many", s.lines-lines)
	}
	return fmt.Sprintf("%s do not match their checksum and are not used%s", s.place(log, number), how)
}

package measure

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"runtime"
	"sync"
)

// maxLine is the longest line that Read takes as a record, in bytes.
const maxLine = 16 << 20

// A line is one of records.jsonl.
type line struct {
	text []byte // without its newline; valid until the next batch
	long bool   // longer than maxLine: text is empty
	err  error  // if no newline follows: why not
	sum  string // if this is a checksum line: the one that belongs here
	scan bool   // this is a trial in the usual form: the next one of its batch
}

// A batch holds successive lines of a file.
type batch struct {
	buf    []byte // their texts
	lines  []line
	trials []Trial
	done   chan struct{} // closed when the trials are there
}

// batchSize is from how many bytes on a batch is full.
const batchSize = 256 << 10

// batches reads a file in the background: one goroutine reads lines and makes their checksums, others scan trials. Done
// one after the other, both would take most of the time of a report. The last line has the error of r.
func batches(r io.Reader) iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		scanners := runtime.GOMAXPROCS(0)
		full := make(chan *batch, scanners)    // to scan
		ordered := make(chan *batch, scanners) // the same, in their order
		used := make(chan *batch, 2*scanners+2)
		stop := make(chan struct{})
		var running sync.WaitGroup
		defer running.Wait()
		defer close(stop)
		running.Go(func() {
			defer close(full)
			defer close(ordered)
			split(r, used, func(b *batch) bool {
				select {
				case <-stop:
					return false
				case full <- b:
				}
				select {
				case <-stop:
					return false
				case ordered <- b:
					return true
				}
			})
		})
		for range scanners {
			running.Go(func() {
				var s scanner
				for b := range full {
					b.scan(&s)
				}
			})
		}
		for b := range ordered {
			<-b.done
			if !yield(b) {
				return
			}
			used <- b // there is room for all that there are
		}
	}
}

// split reads lines into batches and passes them on, until r ends or the receiver does not want more.
func split(r io.Reader, used chan *batch, pass func(*batch) bool) {
	br := bufio.NewReaderSize(r, 1<<16)
	sum := newChain(nil)
	for {
		var b *batch
		select {
		case b = <-used:
			b.buf, b.lines, b.trials = b.buf[:0], b.lines[:0], b.trials[:0]
		default:
			b = &batch{buf: make([]byte, 0, batchSize+batchSize/4)}
		}
		b.done = make(chan struct{})
		var err error
		for len(b.buf) < batchSize && err == nil {
			var l line
			l.text, l.long, err = readLine(br)
			l.err = err
			from := len(b.buf)
			b.buf = append(append(b.buf, l.text...), '\n') // if it grows, lines before stay where they are
			with := b.buf[from:]
			l.text = with[:len(l.text):len(l.text)]
			switch {
			case err != nil:
			case isSum(l):
				l.sum = string(sum.line(nil))
				sum = newChain(with)
			default:
				sum.add(with)
			}
			b.lines = append(b.lines, l)
		}
		if !pass(b) || err != nil {
			return
		}
	}
}

func isSum(l line) bool { return !l.long && bytes.HasPrefix(l.text, []byte(sumHead)) }

// scan scans the trials that have the usual form.
func (b *batch) scan(s *scanner) {
	defer close(b.done)
	for i := range b.lines {
		l := &b.lines[i]
		if !bytes.HasPrefix(l.text, []byte(trialHead)) {
			continue
		}
		if t, ok := s.trial(l.text); ok {
			l.scan = true
			b.trials = append(b.trials, t)
		}
	}
}

// readLine returns the next line without its newline. A line longer than maxLine is skipped, and long is true.
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

package measure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// sealed returns a small file of a run of two generations of two blocks: a line of each record, and a checksum after
// every block.
func sealed(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	write := func(list ...Record) {
		for _, r := range list {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Sum(); err != nil {
			t.Fatal(err)
		}
	}
	write(Begin{Run: RunSum([]byte("{}"))})
	for g := range 2 {
		if g == 1 {
			write(Resume{At: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), After: Killed, Generation: 2, Blocks: 3})
		}
		for i := range 2 {
			block := 2*g + i
			list := []Record{
				LabRecord{Generation: g + 1, Lab: "a", Metrics: map[string]float64{"setup_time": 0.25}},
				Proof{Generation: g + 1, Lab: "a", Claim: "it passes", When: "before", OK: true},
			}
			if i == 1 {
				list = []Record{Warning{Text: "steal 3 %"}, Fact{Key: "mtu", Value: 1500}}
			}
			for _, cell := range []string{"a", "a#2", "b"} {
				list = append(list, Trial{
					Generation: g + 1, Block: block, Cell: cell, Start: 1.5, Duration: 0.05,
					Metrics: map[string]float64{"latency_p50": 1.25e-5},
				})
			}
			write(append(list, BlockFacts{
				Generation: g + 1, Block: block, Start: 1.25, Duration: 0.3, CPU: map[string]float64{"user": 0.25}, Load1: 1.5,
			})...)
		}
		write(Histograms{Generation: g + 1, First: 2 * g, Last: 2*g + 1, Cell: "a", Samples: 10, Data: "HISTFAAA"},
			Generation{Generation: g + 1, Blocks: 2, Measured: 0.6})
	}
	write(End{Why: EndTime, Detail: "the time is up", Blocks: 4, Generations: 2, Trials: 12, Measured: 1.2, Resumed: 1})
	return b.Bytes()
}

// ofFile reads a file of records.
func ofFile(t testing.TB, data []byte) (log *Log, problems []Problem) {
	t.Helper()
	log, problems, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return log, problems
}

// sound reports whether a file is taken for that of a run that ended, without a change.
func sound(log *Log, problems []Problem) bool {
	return len(problems) == 0 && len(log.Changed) == 0 && log.Begin != nil && log.End != nil
}

// A file of many batches is read as one: a line that was changed costs its block, wherever it is, and a reader that
// fails in the middle leaves what stood before.
func TestBatches(t *testing.T) {
	const blocks, cells = 400, 12
	var b bytes.Buffer
	w := NewWriter(&b)
	for block := range blocks {
		for cell := range cells {
			if err := w.Write(Trial{
				Block: block, Cell: fmt.Sprintf("cell %d of a run that has many of them", cell), Start: 1.5, Duration: 0.05,
				Metrics: map[string]float64{"latency_p50": 1.25e-5, "goodput": 123456789, "cpu": 0.25},
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Sum(); err != nil {
			t.Fatal(err)
		}
	}
	file := b.Bytes()
	if len(file) < 3*batchSize {
		t.Fatalf("%d bytes are less than three batches", len(file))
	}
	log, problems := ofFile(t, file)
	if len(problems) > 0 || len(log.Trials) != blocks*cells {
		t.Fatalf("%d trials, %v", len(log.Trials), problems)
	}
	for i, x := range log.Trials {
		if x.Block != i/cells {
			t.Fatalf("trial %d is of block %d", i, x.Block)
		}
	}
	for _, block := range []int{0, 7, blocks / 2, blocks - 1} {
		changed := bytes.Clone(file)
		at := bytes.Index(changed, fmt.Appendf(nil, `"block":%d,`, block)) + len(`"block":`)
		changed[at] = '0' + (changed[at]-'0'+1)%10
		log, problems = ofFile(t, changed)
		want := fmt.Sprintf("lines %d to %d ", block*(cells+1)+1, (block+1)*(cells+1))
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Text, want) || len(log.Changed) != 1 ||
			len(log.Trials) != (blocks-1)*cells {
			t.Errorf("block %d: %d trials, %v, want %q", block, len(log.Trials), problems, want)
		}
	}
	half := len(file) / 2
	log, _, err := Read(io.MultiReader(bytes.NewReader(file[:half]), iotest.ErrReader(io.ErrClosedPipe)))
	whole := bytes.Count(file[:half], []byte(sumHead))
	if !errors.Is(err, io.ErrClosedPipe) || len(log.Trials) != whole*cells {
		t.Errorf("%d trials of %d blocks, %v", len(log.Trials), whole, err)
	}
}

func TestSealed(t *testing.T) {
	log, problems := ofFile(t, sealed(t))
	if !sound(log, problems) || len(log.Trials) != 12 || len(log.Generations) != 2 || log.Unfinished != 0 {
		t.Errorf("%v: %+v", problems, log)
	}
}

// Every changed digit is noticed, and the figures of its block are not used.
func TestEveryDigitIsSealed(t *testing.T) {
	data := sealed(t)
	digits := 0
	for i, c := range data {
		if c < '0' || c > '9' {
			continue
		}
		digits++
		for _, other := range []byte{'0' + (c-'0'+1)%10, '0' + (c-'0'+5)%10} {
			changed := slices.Clone(data)
			changed[i] = other
			log, problems := ofFile(t, changed)
			if sound(log, problems) {
				t.Errorf("byte %d: %c instead of %c was not noticed", i, other, c)
			}
			line := 1 + bytes.Count(data[:i], []byte{'\n'})
			if !slices.ContainsFunc(problems, func(p Problem) bool { return covers(p, line) }) {
				t.Errorf("line %d, %c instead of %c: no problem names the line: %v", line, other, c, problems)
			}
			for _, x := range log.Trials {
				if x.Metrics["latency_p50"] != 1.25e-5 || x.Duration != 0.05 || x.Start != 1.5 {
					t.Errorf("line %d: a changed trial is used: %+v", line, x)
				}
			}
		}
	}
	if digits < 500 {
		t.Errorf("only %d digits: this shows little", digits)
	}
}

// covers reports whether a problem is about a line.
func covers(p Problem, line int) bool {
	if p.Line == line {
		return true
	}
	var from, to int
	if n, _ := fmt.Sscanf(p.Text, "lines %d to %d", &from, &to); n == 2 {
		return from <= line && line <= to
	}
	n, _ := fmt.Sscanf(p.Text, "line %d", &from)
	return n == 1 && from == line
}

// Every line that is removed, doubled or swapped with the next one is noticed.
func TestEveryLineIsSealed(t *testing.T) {
	lines := strings.SplitAfter(string(sealed(t)), "\n")
	lines = lines[:len(lines)-1]
	for i := range lines {
		for how, changed := range map[string][]string{
			"removed": slices.Concat(lines[:i], lines[i+1:]),
			"doubled": slices.Concat(lines[:i+1], lines[i:]),
			"empty":   slices.Concat(lines[:i], []string{"\n"}, lines[i+1:]),
		} {
			if log, problems := ofFile(t, []byte(strings.Join(changed, ""))); sound(log, problems) {
				t.Errorf("line %d %s was not noticed: %s", i+1, how, lines[i])
			}
		}
		for j := i + 1; j < len(lines); j++ {
			swapped := slices.Clone(lines)
			swapped[i], swapped[j] = lines[j], lines[i]
			if log, problems := ofFile(t, []byte(strings.Join(swapped, ""))); sound(log, problems) && lines[i] != lines[j] {
				t.Errorf("lines %d and %d swapped was not noticed", i+1, j+1)
			}
		}
	}
}

// A file that is cut anywhere is that of a run that did not end. Records with a checksum are used, and a torn end is
// not called a change.
func TestTornEnd(t *testing.T) {
	data := sealed(t)
	for n := range data {
		log, problems := ofFile(t, data[:n])
		if log.End != nil || len(log.Changed) > 0 {
			t.Fatalf("cut behind byte %d: end %v, changed %v", n, log.End, log.Changed)
		}
		for _, p := range problems {
			if p.Line == 0 && !strings.Contains(p.Text, "have no checksum yet, as if the run was killed") {
				t.Errorf("cut behind byte %d: %v", n, p)
			}
		}
		if len(log.Trials)%3 != 0 {
			t.Errorf("cut behind byte %d: %d trials, want whole blocks of 3", n, len(log.Trials))
		}
	}
}

// Lines after the end of a run were not written by it.
func TestBehindTheEnd(t *testing.T) {
	data := sealed(t)
	forged := `{"type":"trial","v":3,"gen":2,"block":4,"cell":"b","start":1,"dur":0.05,"metrics":{"latency_p50":1e-07}}`
	for name, more := range map[string]string{
		"a trial": forged + "\n", "a torn one": forged, "of version 1": strings.Replace(forged, `"v":3`, `"v":1`, 1) + "\n",
		"with a made-up checksum": forged + "\n" + `{"type":"sum","v":2,"lines":1,"sum":"00000000000000000000000000000000"}` +
			"\n",
	} {
		log, problems := ofFile(t, append(slices.Clone(data), more...))
		if len(log.Trials) != 12 || len(log.Changed) != 1 || len(problems) == 0 {
			t.Errorf("%s: %d trials, changed %v, problems %v", name, len(log.Trials), log.Changed, problems)
		}
	}
}

// A writer continues at the last place of a file as if the file had not been closed.
func TestWriterAt(t *testing.T) {
	data := sealed(t)
	log, _ := ofFile(t, data)
	b := bytes.NewBuffer(slices.Clone(data[:log.Place.Offset]))
	w := NewWriterAt(b, log.Place)
	if err := w.Write(End{
		Why: EndTime, Detail: "the time is up", Blocks: 4, Generations: 2, Trials: 12, Measured: 1.2,
		Resumed: 1,
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Sum(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), data) {
		t.Errorf("got\n%s\nwant\n%s", b, data)
	}
	log.Back()
	if log.End != nil || len(log.Generations) != 2 || len(log.Trials) != 12 {
		t.Errorf("back at its place the log has %+v", log)
	}
}

// Records of version 1 can still be read.
func TestVersion1(t *testing.T) {
	log, problems := ofFile(t,
		[]byte(`{"type":"trial","v":1,"gen":0,"block":0,"cell":"a","start":0,"dur":0.05,"metrics":{"latency_p50":1e-05}}`+
			"\n"))
	if len(log.Trials) != 1 || len(problems) > 0 || log.Version != 1 {
		t.Errorf("%v: %+v", problems, log)
	}
}

// Versions 1 and 2 counted generations from 0. Their records get the numbers from 1, and their checksums hold.
func TestGenerationsOfOldRecords(t *testing.T) {
	for version, want := range map[int]int{1: 8, 2: 8, Version: 7} {
		var b bytes.Buffer
		sum := newChain(nil)
		for _, text := range []string{
			`{"type":"trial","v":N,"gen":7,"block":0,"cell":"a","start":0,"dur":1,"metrics":{}}`,
			`{"type":"trial","v":N,"block":0,"gen":7,"cell":"in another order"}`,
			`{"type":"histogram","v":N,"gen":7,"cell":"a"}`, `{"type":"block","v":N,"gen":7}`,
			`{"type":"proof","v":N,"gen":7}`, `{"type":"matrix","v":N,"gen":7}`, `{"type":"lab","v":N,"gen":7}`,
			`{"type":"generation","v":N,"gen":7}`, `{"type":"resume","v":N,"gen":7}`, `{"type":"fact","v":N,"key":"k"}`,
		} {
			line := strings.Replace(text, "N", strconv.Itoa(version), 1) + "\n"
			sum.add([]byte(line))
			b.WriteString(line)
		}
		if version > 1 {
			b.Write(append(sum.line(nil), '\n'))
		}
		log, problems := ofFile(t, b.Bytes())
		got := map[string]int{}
		for i, x := range log.Trials {
			got[fmt.Sprint("trial ", i)] = x.Generation
		}
		got["histogram"], got["block"], got["proof"] = log.Histograms[0].Generation, log.Blocks[0].Generation,
			log.Proofs[0].Generation
		got["matrix"], got["lab"], got["generation"], got["resume"] = log.Matrices[0].Generation, log.Labs[0].Generation,
			log.Generations[0].Generation, log.Resumes[0].Generation
		if len(got) != 9 || len(problems) > 0 || log.Version != version {
			t.Errorf("version %d: %v, %v, version %d", version, got, problems, log.Version)
		}
		for kind, g := range got {
			if g != want {
				t.Errorf("version %d: %s has generation %d, want %d", version, kind, g, want)
			}
		}
	}
}

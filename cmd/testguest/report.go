package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A report reads the output of the guest and reports each test when it has ended. Failed and skipped tests are shown
// with their output. A passed test has one line for itself and its subtests. If all is wanted, output is shown as it
// comes, and each test with a line when it has ended.
//
// Test binaries write the format of -test.v=test2json, which go test -json reads. A ^V precedes each line that the
// testing package writes, even if the line before has no end. The lines of the guest's script begin with ^V too.
type report struct {
	w      io.Writer
	all    bool // show output and subtests of passed tests, too
	now    func() time.Time
	line   []byte
	marked bool // the current line began with ^V

	pkg     string    // the current package, "" between packages
	begun   time.Time // when the package began
	test    string    // the test whose output comes, "" for the binary itself
	running []string  // tests that run, in the order in which they began
	said    map[string][]string
	count   tally // results of this package

	packages, failed int
	total            tally
	failures         []string // lines about failed tests, once more
}

// most is how many lines about failed tests are repeated at the end, where readers of a log look first.
const most = 40

type tally struct{ passed, failed, skipped int }

func newReport(w io.Writer, all bool) *report {
	return &report{w: w, all: all, now: time.Now, said: map[string][]string{}}
}

// mark precedes lines of the testing package (cmd/internal/test2json).
const mark = 0x16

// widest is how many bytes of a line are kept.
const widest = 1 << 16

// Write reads the next part of the output. It never fails.
func (r *report) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\n\x16")
		if i < 0 {
			r.keep(p)
			break
		}
		r.keep(p[:i])
		if p[i] == '\n' {
			r.end()
		} else {
			r.finish()
		}
		r.marked = p[i] == mark
		p = p[i+1:]
	}
	return n, nil
}

func (r *report) keep(p []byte) { r.line = append(r.line, p[:min(len(p), widest-len(r.line))]...) }

// finish ends the current line, if there is one.
func (r *report) finish() {
	if len(r.line) > 0 || r.marked {
		r.end()
	}
}

// end handles the current line.
func (r *report) end() {
	line := strings.TrimSuffix(string(r.line), "\r")
	marked := r.marked
	r.line, r.marked = r.line[:0], false
	if !marked || !r.command(strings.TrimLeft(line, " ")) {
		if line != "" || !marked {
			r.said[r.test] = append(r.said[r.test], line)
			if r.all { // as it comes: some tests take hours
				r.quote([]string{line})
			}
		}
	}
}

// command handles a line with a mark. It returns false if the line is output of a test after all.
func (r *report) command(line string) bool {
	kind, rest, _ := strings.Cut(line, " ")
	verb, name, _ := strings.Cut(strings.TrimSpace(rest), " ")
	name = strings.TrimSpace(name)
	switch {
	case kind == "guest" && verb == "begin":
		r.pkg, r.begun, r.count = name, r.now(), tally{}
		r.forget()
	case kind == "guest" && verb == "end":
		r.endPackage(name)
	case kind == "===" && verb == "RUN":
		r.running = append(r.running, name)
		r.test = name
	case kind == "===" && (verb == "CONT" || verb == "NAME"):
		r.test = name
	case kind == "===", line == "PASS", line == "FAIL": // PAUSE and the last line say nothing new
	case kind == "---" && strings.HasSuffix(verb, ":"):
		test, took, _ := strings.Cut(name, " ")
		r.endTest(strings.TrimSuffix(verb, ":"), test, strings.Trim(took, "()"))
	default:
		return false
	}
	return true
}

// endTest reports a test that has ended. Go prints a test before its subtests.
func (r *report) endTest(how, test, took string) {
	r.test = ""
	if i := slices.Index(r.running, test); i >= 0 {
		r.running = slices.Delete(r.running, i, i+1)
	}
	said := r.said[test]
	delete(r.said, test)
	switch how {
	case "PASS":
		r.count.passed++
		if strings.Contains(test, "/") && !r.all {
			return
		}
		said = nil
	case "SKIP":
		r.count.skipped++
	default:
		r.count.failed++
		r.failures = append(append(r.failures, r.pkg+": "+test), said...)
		r.failures = r.failures[:min(len(r.failures), most)]
	}
	r.print("%s: %s (%s)", how, test, took)
	if !r.all {
		r.quote(said)
	}
}

func (r *report) endPackage(status string) {
	r.packages++
	how := "ok"
	if status != "0" {
		r.failed++
		how = "FAIL, exit status " + status
		r.unfinished()
	}
	r.print("%s: %s in %.1f s", how, r.count, r.now().Sub(r.begun).Seconds())
	r.total = r.total.plus(r.count)
	r.forget()
	r.pkg = ""
}

// unfinished prints the output of tests that have not ended, and of the binary itself.
func (r *report) unfinished() {
	for _, test := range append(r.running, "") {
		if said := r.said[test]; len(said) > 0 {
			if test != "" {
				r.print("unfinished: %s", test)
			}
			if !r.all {
				r.quote(said)
			}
		}
	}
}

func (r *report) forget() {
	clear(r.said)
	r.running, r.test = nil, ""
}

// print writes a line about the package. Its prefix shows that it comes from the guest.
func (r *report) print(format string, args ...any) {
	fmt.Fprintf(r.w, "guest: %s: %s\n", r.pkg, fmt.Sprintf(format, args...))
}

func (r *report) quote(said []string) {
	for _, line := range said {
		fmt.Fprintf(r.w, "guest:     %s\n", line)
	}
}

// interrupted prints the output of unfinished tests if the guest ended too early. It returns what the guest was doing.
func (r *report) interrupted() string {
	if r.pkg == "" {
		return "the guest ended while no test ran"
	}
	r.unfinished()
	what := "the guest ended in the tests of " + r.pkg
	if len(r.running) > 0 {
		what += ", in " + strings.Join(r.running, ", ")
	}
	return what
}

// passed reports whether that many packages have ended, all without failures.
func (r *report) passed(packages int) bool { return r.packages == packages && r.failed == 0 }

// summary returns the number of packages and the results of their tests.
func (r *report) summary() string { return fmt.Sprintf("%d packages: %s", r.packages, r.total) }

func (t tally) plus(u tally) tally {
	return tally{t.passed + u.passed, t.failed + u.failed, t.skipped + u.skipped}
}

func (t tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

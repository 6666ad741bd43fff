package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clocked returns a report with a clock that advances by a second at each reading.
func clocked(w *bytes.Buffer, all bool) *report {
	r := newReport(w, all)
	var now time.Time
	r.now = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	return r
}

// Output of test binaries with -test.v=test2json. ^ stands for the mark.
const (
	begin = "^guest begin network/bridge\n"
	good  = begin + "^=== RUN   TestA\nsaid\n^=== RUN   TestA/sub\n^=== NAME  TestA\nmore^--- PASS: TestA (0.10s)\n^    " +
		"--- PASS: TestA/sub (0.00s)\n^PASS\n^guest end 0\n"
	bad = begin + "^=== RUN   TestA\n^=== RUN   TestA/x\n^=== PAUSE TestA/x\n^=== RUN   TestB\nof B\n^=== CONT  " +
		"TestA/x\n    a_test.go:1: no\n^=== NAME  TestA\nof A\n" +
		"^--- FAIL: TestA (1.00s)\n^    --- FAIL: TestA/x (0.50s)\n^--- SKIP: TestB (0.00s)\n^FAIL\n^guest end 1\n"
	leak = begin + "^=== RUN   TestA\nof A\n^--- PASS: TestA (0.00s)\n^PASS\ntestnet: the tests left behind:\n\tlink " +
		"x\n^guest end 1\n"
	dies = begin + "^=== RUN   TestA\n^=== RUN   TestB\nof B\npanic: no [recovered]\n\ngoroutine 7\n^guest end 2\n"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, said string
		all        bool
		want       string
		passed     bool
		summary    string
	}{
		{"good", good, false, "guest: network/bridge: PASS: TestA (0.10s)\nguest: network/bridge: ok: 2 passed, 0 failed, " +
			"0 skipped in 1.0 s\n", true, "1 packages: 2 passed, 0 failed, 0 skipped"},
		{
			"all of it", good, true, "guest:     said\nguest:     more\nguest: network/bridge: PASS: TestA (0.10s)\nguest: " +
				"network/bridge: PASS: TestA/sub (0.00s)\n" +
				"guest: network/bridge: ok: 2 passed, 0 failed, 0 skipped in 1.0 s\n", true,
			"1 packages: 2 passed, 0 failed, 0 skipped",
		},
		{
			"bad", bad, false, "guest: network/bridge: FAIL: TestA (1.00s)\nguest:     of A\nguest: network/bridge: FAIL: " +
				"TestA/x (0.50s)\nguest:         a_test.go:1: no\n" +
				"guest: network/bridge: SKIP: TestB (0.00s)\nguest:     of B\nguest: network/bridge: FAIL, exit status 1: 0 " +
				"passed, 2 failed, 1 skipped in 1.0 s\n", false, "1 packages: 0 passed, 2 failed, 1 skipped",
		},
		{
			"leak", leak, false, "guest: network/bridge: PASS: TestA (0.00s)\nguest:     testnet: the tests left " +
				"behind:\nguest:     \tlink x\n" +
				"guest: network/bridge: FAIL, exit status 1: 1 passed, 0 failed, 0 skipped in 1.0 s\n", false,
			"1 packages: 1 passed, 0 failed, 0 skipped",
		},
		{
			"panic", dies, false, "guest: network/bridge: unfinished: TestB\nguest:     of B\nguest:     panic: no " +
				"[recovered]\nguest:     \nguest:     goroutine 7\n" +
				"guest: network/bridge: FAIL, exit status 2: 0 passed, 0 failed, 0 skipped in 1.0 s\n", false,
			"1 packages: 0 passed, 0 failed, 0 skipped",
		},
		{"not all packages", "", false, "", false, "0 packages: 0 passed, 0 failed, 0 skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := strings.ReplaceAll(c.said, "^", "\x16")
			for _, piece := range []int{1, 7, len(said) + 1} {
				var out bytes.Buffer
				r := clocked(&out, c.all)
				for rest := said; rest != ""; {
					n, _ := r.Write([]byte(rest[:min(piece, len(rest))]))
					rest = rest[n:]
				}
				r.finish()
				if diff := cmp.Diff(c.want, out.String()); diff != "" {
					t.Errorf("in pieces of %d (-want +got):\n%s", piece, diff)
				}
				if r.passed(1) != c.passed || r.summary() != c.summary {
					t.Errorf("passed %t, %q", r.passed(1), r.summary())
				}
			}
		})
	}
}

// Failed tests are listed again with their output.
func TestReportRepeats(t *testing.T) {
	r := clocked(new(bytes.Buffer), false)
	_, _ = r.Write([]byte(strings.ReplaceAll(good+bad, "^", "\x16")))
	r.finish()
	want := []string{
		"network/bridge: TestA", "of A", "network/bridge: TestA/x", "    a_test.go:1: no",
	}
	if diff := cmp.Diff(want, r.failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReportInterrupted(t *testing.T) {
	for _, c := range []struct{ name, said, what, want string }{
		{"at once", "", "the guest ended while no test ran", ""},
		{"after a package", good, "the guest ended while no test ran", ""},
		{"before a test", begin, "the guest ended in the tests of network/bridge", ""},
		{
			"in tests", begin + "^=== RUN   TestA\n^=== RUN   TestA/x\nhalf a l",
			"the guest ended in the tests of network/bridge, in TestA, TestA/x",
			"guest: network/bridge: unfinished: TestA/x\nguest:     half a l\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := clocked(&out, false)
			_, _ = r.Write([]byte(strings.ReplaceAll(c.said, "^", "\x16")))
			r.finish()
			out.Reset()
			if got := r.interrupted(); got != c.what {
				t.Errorf("got %q, want %q", got, c.what)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzReport(f *testing.F) {
	for _, said := range []string{good, bad, leak, dies} {
		f.Add([]byte(strings.ReplaceAll(said, "^", "\x16")))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		var whole, torn bytes.Buffer
		a, b := clocked(&whole, false), clocked(&torn, false)
		_, _ = a.Write(said)
		for i := range said {
			_, _ = b.Write(said[i : i+1])
		}
		a.finish()
		b.finish()
		if diff := cmp.Diff(whole.String(), torn.String()); diff != "" || a.summary() != b.summary() ||
			a.interrupted() != b.interrupted() {
			t.Errorf("in one piece and in many (-one +many):\n%s", diff)
		}
	})
}

func TestPackagesOf(t *testing.T) {
	tests, imports, err := packagesOf([]byte(`{"Dir":"/m/network/bridge","ImportPath":"example.com/m/network/bridge","Match":["./network/bridge"],"Module":{"Path":"example.com/m"},"XTestGoFiles":["a_test.go"]}
{"Dir":"/m/network/none","ImportPath":"example.com/m/network/none","Module":{"Path":"example.com/m"}}
{"Dir":"/m","ImportPath":"example.com/m","Match":[".","./..."],"Module":{"Path":"example.com/m"},"TestGoFiles":["b_test.go"]}`),
		map[string]string{"./network/bridge": "/veth", ".": "TestHouse", "./...": ""})
	if err != nil {
		t.Fatal(err)
	}
	if want := []testBinary{
		{pkg: "network/bridge", dir: "/m/network/bridge", run: "/veth"},
		{pkg: ".", dir: "/m"},
	}; len(tests) != 2 || tests[0] != want[0] || tests[1] != want[1] {
		t.Errorf("got %+v, want %+v", tests, want)
	}
	if diff := cmp.Diff([]string{"example.com/m/network/bridge", "example.com/m"}, imports); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, _, err := packagesOf([]byte(`{"Dir":`), nil); err == nil {
		t.Error("half a package is taken for one")
	}
}

// The script of a guest is valid shell, whatever the names and patterns are.
func TestScript(t *testing.T) {
	text := script([]testBinary{{pkg: "a/it's"}, {pkg: "."}}, options{run: `^Test'$|"x"`, limit: 10 * time.Minute})
	cmd := exec.Command("sh", "-n")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
	// The binaries are missing here: each fails, and so does the script.
	run := exec.Command("sh", "-c", text)
	out, err := run.Output()
	if run.ProcessState.ExitCode() != 1 {
		t.Errorf("%v", err)
	}
	if want := "\x16guest begin a/it's\n\x16guest end 2\n\x16guest begin .\n\x16guest end 2\n"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// Arguments reach the test binary as they are.
func TestScriptArguments(t *testing.T) {
	text := script([]testBinary{{pkg: "x"}}, options{run: "TestA", args: []string{"-only", `^a\(b='c d'\)$`, ""}})
	place := t.TempDir()
	text = strings.NewReplacer("'/src/x'", "'"+place+"'", "'/test/x.test'", "printf '<%s>\n'").Replace(text)
	out, err := exec.Command("sh", "-c", text).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "\x16guest begin x\n<-test.v=test2json>\n<-test.timeout=0s>\n<-test.run=TestA>\n<-only>\n" +
		"<^a\\(b='c d'\\)$>\n<>\n\x16guest end 0\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{}, {"-limit", "soon", "./x"}, {"-sh", "true", "./x"}, {"-nothing"}, {"-args", "./x"}, {"-sh", "true", "-args", "x"},
	} {
		var out, said bytes.Buffer
		if got := run(t.Context(), &out, &said, args); got != 2 || said.Len() == 0 || out.Len() > 0 {
			t.Errorf("testguest %q ends with %d, says %q and prints %q", args, got, said.String(), out.String())
		}
	}
}

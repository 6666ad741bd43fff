package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/nettoll/nettoll/host/guest"
)

// A testBinary is the compiled tests of a package.
type testBinary struct {
	pkg  string // "network/ipvlan"
	dir  string // with its source
	run  string // which of its tests, "" for all
	file string
}

// compile compiles the tests of all packages that have some, statically and as small as they get: a guest has them in
// its memory.
func compile(ctx context.Context, work string, patterns []string) ([]testBinary, error) {
	args := []string{"list", "-json=Dir,ImportPath,Match,Module,TestGoFiles,XTestGoFiles"}
	runs := map[string]string{}
	for _, p := range patterns {
		pkg, run, _ := strings.Cut(p, "=")
		args, runs[pkg] = append(args, pkg), run
	}
	list := exec.CommandContext(ctx, "go", args...)
	list.Stderr = new(bytes.Buffer)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, list.Stderr)
	}
	tests, imports, err := packagesOf(out, runs)
	if err != nil || len(tests) == 0 {
		return nil, err
	}
	// All at once, so that what they share is compiled and linked in parallel: go test -c makes NAME.test in a directory,
	// of the last element of each path; these may be equal, so each has a directory.
	for i := range tests {
		tests[i].file = filepath.Join(work, strings.ReplaceAll(tests[i].pkg, "/", "_")+".test")
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", tests[i].file, imports[i])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile the tests of %s: %w\n%s", tests[i].pkg, err, out)
		}
	}
	return tests, nil
}

// packagesOf reads what go list says of packages, and returns those with tests, and their import paths. Runs says which
// tests, by the patterns that packages match.
func packagesOf(list []byte, runs map[string]string) (tests []testBinary, imports []string, err error) {
	decode := json.NewDecoder(bytes.NewReader(list))
	for {
		var p struct {
			Dir, ImportPath string
			Match           []string
			Module          struct{ Path string }
			TestGoFiles     []string
			XTestGoFiles    []string
		}
		if err := decode.Decode(&p); errors.Is(err, io.EOF) {
			return tests, imports, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("what go list said: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		below := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
		test := testBinary{pkg: path.Clean(below), dir: p.Dir}
		if len(p.Match) == 1 { // one that is named twice is tested as a whole
			test.run = runs[p.Match[0]]
		}
		tests = append(tests, test)
		imports = append(imports, p.ImportPath)
	}
}

// content returns the files for the guest: /test/PACKAGE holds the binary and, where it runs, the files and the test
// data of the package's folder.
func content(tests []testBinary) (*guest.Archive, error) {
	files := new(guest.Archive)
	for _, t := range tests {
		entries, err := os.ReadDir(t.dir)
		if err != nil {
			return nil, err
		}
		dir := place(t.pkg)
		files.Dir(dir, 0o755)
		for _, e := range entries {
			name := filepath.Join(t.dir, e.Name())
			switch {
			case e.Type().IsRegular():
				err = files.File(path.Join(dir, e.Name()), name)
			case e.IsDir() && e.Name() == "testdata":
				err = files.Tree(path.Join(dir, e.Name()), name)
			}
			if err != nil {
				return nil, err
			}
		}
		if err := files.File(binary(t.pkg), t.file); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func place(pkg string) string  { return path.Join("/src", pkg) }
func binary(pkg string) string { return path.Join("/test", pkg) + ".test" }

// script runs each test binary. Lines that begin with ^V are read by report, as are those of the test binaries.
func script(tests []testBinary, o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "export NETTOLL_GUEST=1 NETTOLL_NOSKIP=%s\nbad=0\n", quote(os.Getenv("NETTOLL_NOSKIP")))
	for _, t := range tests {
		// Its own time limit is shorter than the guest's: it says which goroutine waits for what.
		args := []string{"-test.v=test2json", "-test.timeout=" + (o.limit * 8 / 10).String()}
		if run := cmp.Or(o.run, t.run); run != "" {
			args = append(args, "-test.run="+run)
		}
		for i := range args {
			args[i] = quote(args[i])
		}
		fmt.Fprintf(&b, "printf '\\026guest begin %%s\\n' %s\n", quote(t.pkg))
		fmt.Fprintf(&b, "(cd %s && exec %s %s)\n", quote(place(t.pkg)), quote(binary(t.pkg)), strings.Join(args, " "))
		b.WriteString("status=$?; [ $status = 0 ] || bad=1\n")
		b.WriteString("printf '\\026guest end %s\\n' $status\n")
	}
	b.WriteString("exit $bad\n")
	return b.String()
}

// quote makes a word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

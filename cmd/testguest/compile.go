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
	pkg  string // its path in the module, such as "network/ipvlan"
	dir  string // directory of its source
	run  string // pattern of the tests to run, "" for all
	file string
}

// compile compiles the tests of all packages that have some, statically and without symbols: a guest keeps them in
// memory.
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
	// Each package is compiled to a file of its own, because the last elements of their paths may be equal.
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

// packagesOf reads the output of go list, and returns the packages with tests and their import paths. The map runs has
// the pattern of tests by the pattern of packages.
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
			return nil, nil, fmt.Errorf("read the output of go list: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		below := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
		test := testBinary{pkg: path.Clean(below), dir: p.Dir}
		if len(p.Match) == 1 { // a package that matches twice is tested as a whole
			test.run = runs[p.Match[0]]
		}
		tests = append(tests, test)
		imports = append(imports, p.ImportPath)
	}
}

// content returns the files for the guest. /test/PACKAGE.test is the binary. /src/PACKAGE has the files and test data
// of the package's folder; the tests run there.
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

// script returns the shell script that runs each test binary. A report reads its lines with the mark ^V, and those of
// the test binaries.
func script(tests []testBinary, o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "export NETTOLL_GUEST=%s NETTOLL_NOSKIP=%s\nbad=0\n", quote(o.kernel),
		quote(os.Getenv("NETTOLL_NOSKIP")))
	for _, t := range tests {
		// A test binary times out before the guest does: it then prints where each goroutine waits.
		args := []string{"-test.v=test2json", "-test.timeout=" + (o.limit * 8 / 10).String()}
		if run := cmp.Or(o.run, t.run); run != "" {
			args = append(args, "-test.run="+run)
		}
		args = append(args, o.args...)
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

// quote quotes a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

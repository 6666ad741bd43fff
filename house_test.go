package nettoll_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A folder says what lives in it: doc.go holds the one package comment, and its first sentence starts with the
// package's name (house rule 1).
func TestEveryFolderSaysWhatLivesThere(t *testing.T) {
	for dir, files := range packages(t) {
		t.Run(dir, func(t *testing.T) {
			var commented []string
			for name, file := range files {
				if file.Doc != nil {
					commented = append(commented, name)
				}
			}
			home := "doc.go"
			if files["main.go"] != nil && files["doc.go"] == nil {
				home = "main.go" // a program of one file
			}
			if files[home] == nil || files[home].Doc == nil {
				t.Fatalf("no package comment in %s/doc.go (found in: %q)", dir, commented)
			}
			if len(commented) > 1 {
				t.Errorf("package comment in %q, want it in %s alone", commented, home)
			}
			name := files[home].Name.Name
			want := "Package " + name + " "
			if name == "main" {
				want = "Command " + filepath.Base(dir) + " "
			}
			first := new(doc.Package).Synopsis(files[home].Doc.Text())
			if !strings.HasPrefix(first, want) || !strings.HasSuffix(first, ".") {
				t.Errorf("first sentence of %s/%s is %q, want %q and a full stop", dir, home, first, want+"…")
			}
		})
	}
}

// A package is named after what it holds, which these names do not say (house rule 2).
func TestNoPackageIsADrawer(t *testing.T) {
	drawers := []string{"base", "common", "helper", "helpers", "lib", "misc", "shared", "tools", "types", "util", "utils"}
	for dir, files := range packages(t) {
		for name, file := range files {
			for _, called := range []string{file.Name.Name, filepath.Base(dir)} {
				if slices.Contains(drawers, strings.TrimSuffix(called, "_test")) {
					t.Errorf("%s/%s: a package called %q; name what it is", dir, name, called)
				}
			}
		}
	}
}

// A part that no one listed cannot be asked for (house rule 3): every folder under a kind is imported by the catalogue,
// but for the kind's conformance suite. A kind is a folder with a conformance suite, KIND/KINDtest, and only kinds have
// parts.
func TestEveryPartIsInTheCatalogue(t *testing.T) {
	const module = "github.com/nettoll/nettoll/"
	suite := func(kind string) string { return kind + "/" + kind + "test" }
	all, listed := packages(t), map[string]bool{}
	files, err := filepath.Glob("catalogue/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			dir, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			listed[dir] = ours
			if kind, _, below := strings.Cut(dir, "/"); ours && below && all[suite(kind)] == nil {
				t.Errorf("%s: the catalogue lists this part of a kind without a conformance suite (%s)", dir, suite(kind))
			}
		}
	}
	for dir := range all {
		kind, part, below := strings.Cut(dir, "/")
		suites := strings.HasSuffix(part, "test") // of the kind, and what it shares with others
		if below && all[suite(kind)] != nil && !strings.Contains(part, "/") && !suites && !listed[dir] {
			t.Errorf("%s: the catalogue does not list this part", dir)
		}
	}
}

// What is tracked holds on every machine: no path of the one it was written on, no host that a package came from.
func TestNoTrackedFileNamesAMachine(t *testing.T) {
	machine := []*regexp.Regexp{
		// a path below a home or a work directory, but not the same words in the middle of another path
		regexp.MustCompile(`(^|[^\w./*$}-])/(?:home|root|work|Users)/\w`),
		regexp.MustCompile(`\b(?:proxy|sum|index)\.golang\.org\b`),
		regexp.MustCompile(`\b(?:deb|security|ftp\.\w+)\.debian\.org\b`),
		regexp.MustCompile(`\b(?:registry\.npmjs\.org|pypi\.org|files\.pythonhosted\.org|crates\.io|repo1?\.maven\.(?:apache\.)?org)\b`),
	}
	if home, err := os.UserHomeDir(); err == nil && len(home) > 2 {
		machine = append(machine, regexp.MustCompile(regexp.QuoteMeta(home)+`/`))
	}
	for _, name := range tracked(t) {
		if name == "house_test.go" || filepath.Base(name) == "go.sum" {
			continue
		}
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue // no text
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, at := range machine {
				if found := at.FindString(line); found != "" {
					t.Errorf("%s:%d: %q is a matter of one machine: %s", name, i+1, strings.TrimSpace(found), strings.TrimSpace(line))
				}
			}
		}
	}
}

// A test that skips itself says what the machine lacks, by testnet.Skip and what calls it: CI accounts for that.
func TestEverySkipIsAccounted(t *testing.T) {
	bare := regexp.MustCompile(`\b(?:t|b|f|tb)\.Skip(?:f|Now)?\(`)
	for _, name := range tracked(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "internal/testnet/") || name == "house_test.go" {
			continue
		}
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if bare.MatchString(line) {
				t.Errorf("%s:%d: use testnet.Lacks or testnet.Skip: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}

// What the documents tell a reader to type is there: commands of nettoll and their flags, targets of make, files of
// scripts and of Go programs.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, names...)
	}
	nettoll := program(t)
	for _, name := range documents {
		if name == "CHANGELOG.md" {
			continue // it tells of what was, too
		}
		for _, c := range commands(t, name) {
			switch c.words[0] {
			case "nettoll":
				if problem := nettoll(c.words[1:]); problem != "" {
					t.Errorf("%s: %s: %s", c.place, strings.Join(c.words, " "), problem)
				}
			case "make":
				for _, target := range c.words[1:] {
					if !strings.Contains(target, "=") && !makes(t, target) {
						t.Errorf("%s: make %s: the Makefile has no such target", c.place, target)
					}
				}
			default:
				if strings.Contains(c.words[0], "/") {
					if _, err := os.Stat(c.words[0]); err != nil {
						t.Errorf("%s: %v", c.place, err)
					}
				}
			}
		}
	}
}

// A release passes on the licence of everything that is linked into it.
func TestEveryModuleHasALicense(t *testing.T) {
	said, err := exec.Command("scripts/licenses").Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("scripts/licenses: %v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	for _, want := range []string{"\nGo, its standard library", "\ngithub.com/spf13/cobra v", "\ngolang.org/x/sys v"} {
		if !bytes.Contains(said, []byte(want)) {
			t.Errorf("scripts/licenses does not say %q", want)
		}
	}
}

func TestCommandsOfADocument(t *testing.T) {
	text := "Prose with `nettoll run`.\n" +
		"```console\n$ sudo ./bin/nettoll run --time 30s \\\n    -o out   # a comment\ngoodput 1 Gbit/s\n```\n" +
		"~~~yaml\nnettoll: no command\n~~~\n" +
		"1. then\n   ```sh\n   NETTOLL_NOSKIP=1 make test PKG=./measure | tail -n 3\n   ```\n"
	name := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range commands(t, name) {
		got = append(got, fmt.Sprintf("%s %q", filepath.Base(c.place), c.words))
	}
	want := []string{
		`README.md:3 ["nettoll" "run" "--time" "30s" "-o" "out"]`,
		`README.md:12 ["make" "test" "PKG=./measure"]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// packages returns the parsed files of every Go package but tests, by folder and name.
func packages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	found := map[string]map[string]*ast.File{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != "." && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") ||
				strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if found[dir] == nil {
			found[dir] = map[string]*ast.File{}
		}
		found[dir][name] = file
		return nil
	})
	if err != nil {
		t.Fatalf("walk the tree: %v", err)
	}
	if len(found) == 0 {
		t.Fatal("no Go package found: is the test run in the root of the tree?")
	}
	return found
}

// tracked returns the files that belong to the tree: those that git tracks, or, in a tree without git, all.
func tracked(t *testing.T) []string {
	t.Helper()
	if out, err := exec.Command("git", "ls-files", "-z").Output(); err == nil {
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	}
	var names []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == ".git" || path == "bin"):
			return fs.SkipDir
		case entry.Type().IsRegular() && path != ".git": // which it is in a work tree
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk the tree: %v", err)
	}
	return names
}

// command is a line that a document tells its reader to type.
type command struct {
	place string   // file:line
	words []string // without prompt, sudo, variables, comment and what it is piped into
}

// commands returns the command lines in a document's fenced blocks for a shell: in `console` blocks those behind a
// prompt, in `sh`, `bash` and `shell` blocks all.
func commands(t *testing.T, name string) []command {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var (
		found    []command
		fence    = regexp.MustCompile("^ *(?:```|~~~) *(\\w*)")
		variable = regexp.MustCompile(`^[A-Z_]+=`)
		inside   bool
		language string
		pending  string
		number   int
		start    int
	)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		number++
		line := lines.Text()
		if m := fence.FindStringSubmatch(line); m != nil {
			inside, language, pending = !inside, m[1], ""
			continue
		}
		if !inside || !slices.Contains([]string{"console", "sh", "bash", "shell"}, language) {
			continue
		}
		line = strings.TrimSpace(line)
		if pending == "" {
			start = number
			prompted := strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "# ") && language == "console"
			if language == "console" && !prompted {
				continue // what the command printed
			}
			if prompted {
				line = line[2:]
			}
		}
		if more, continued := strings.CutSuffix(line, `\`); continued {
			pending += more + " "
			continue
		}
		line, pending = pending+line, ""
		line, _, _ = strings.Cut(line, " #")
		line, _, _ = strings.Cut(line, " | ")
		line, _, _ = strings.Cut(line, " > ")
		for part := range strings.SplitSeq(line, " && ") {
			words := strings.Fields(part)
			for len(words) > 0 && (words[0] == "sudo" || variable.MatchString(words[0])) {
				words = words[1:]
			}
			if len(words) == 0 || strings.HasPrefix(words[0], "#") {
				continue
			}
			if strings.HasSuffix(words[0], "/nettoll") {
				words[0] = "nettoll"
			}
			found = append(found, command{fmt.Sprintf("%s:%d", name, start), words})
		}
	}
	return found
}

// program returns a check of the arguments of nettoll, which is built when first asked: the command must have a help
// text, and each flag must be in it. It returns what is wrong, or "".
func program(t *testing.T) func(args []string) string {
	t.Helper()
	dir := t.TempDir()
	binary := ""
	helps := map[string]string{}
	return func(args []string) string {
		if binary == "" {
			binary = filepath.Join(dir, "nettoll")
			if out, err := exec.Command("go", "build", "-o", binary, "./cmd/nettoll").CombinedOutput(); err != nil {
				t.Fatalf("build nettoll: %v\n%s", err, out)
			}
		}
		// An unknown command with --help is answered with the help of the command before it.
		help := func(name string) (text string, known bool) {
			if _, asked := helps[name]; !asked {
				out, err := exec.Command(binary, strings.Fields(name+" --help")...).CombinedOutput()
				if usage := regexp.MustCompile(`(?m)^Usage:\n +nettoll ` + regexp.QuoteMeta(name) + `( |$)`); err != nil ||
					name != "" && !usage.Match(out) {
					out = nil
				}
				helps[name] = string(out)
			}
			return helps[name], helps[name] != ""
		}
		name := ""
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			name = args[0]
		}
		text, known := help(name)
		if !known {
			return fmt.Sprintf("no command %q", name)
		}
		if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
			if below, is := help(name + " " + args[1]); is {
				text = below
			}
		}
		for _, arg := range args {
			flag, _, _ := strings.Cut(arg, "=")
			named := regexp.MustCompile(`(^|[\s,])` + regexp.QuoteMeta(flag) + `($|[\s,=\[])`)
			if strings.HasPrefix(flag, "-") && flag != "-" && !named.MatchString(text) {
				return fmt.Sprintf("no flag %s in its help", flag)
			}
		}
		return ""
	}
}

// makes tells whether the Makefile has the target.
func makes(t *testing.T, target string) bool {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(text)
}

// Every package whose tests start programs that only tests start (testnet.Program), by themselves or through a suite, is
// tested without them too: it is in one of the two lists of the Makefile.
func TestWithoutIsWhole(t *testing.T) {
	listed := append(makeList(t, "WITHOUT_PKG"), makeList(t, "WITHOUT_LONG")...)
	tested := asking(t, "Program", "Locate")
	for dir := range tested {
		if dir != "cmd/nettoll" && !covered(listed, dir) { // that one's target chooses among its tests
			t.Errorf("%s is in neither list of the Makefile", dir)
		}
	}
	if len(tested) < 10 {
		t.Errorf("found %d packages whose tests start programs: this shows nothing", len(tested))
	}
}

// Every package of which CI leaves out something slow is tested in full by make test-slow, and no other.
func TestSlowIsWhole(t *testing.T) {
	whole(t, "SLOW_PKG", "make test-slow", "Slow", "IsSlow", "Turn", "IsTurn")
}

// Every package with tests that start a Kubernetes cluster is tested by make test-kube, and no other.
func TestKubeIsWhole(t *testing.T) { whole(t, "KUBE_PKG", "make test-kube", "Kube") }

// Every package with tests of clusters that make test-kube has no time for is tested by make test-kube-full, and no other.
func TestKubeFullIsWhole(t *testing.T) {
	whole(t, "KUBE_FULL_PKG", "make test-kube-full", "KubeFull")
}

// whole wants a list of the Makefile to have the packages whose tests call one of these functions of testnet, by
// themselves or through a suite, and no other.
func whole(t *testing.T, list, target string, functions ...string) {
	t.Helper()
	listed := makeList(t, list)
	left := asking(t, functions...)
	for dir := range left {
		if !covered(listed, dir) {
			t.Errorf("%s leaves something to %s, and is not in %s of the Makefile", dir, target, list)
		}
	}
	for _, l := range listed {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(left)), func(dir string) bool { return covered([]string{l}, dir) }) {
			t.Errorf("%s is in %s of the Makefile, and leaves nothing to %s", l, list, target)
		}
	}
}

// makeList returns the words of a variable of the Makefile.
func makeList(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + name + ` \??:?= ((?:.*\\\n)*.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.Fields(strings.ReplaceAll(string(found[1]), "\\\n", " "))
}

// covered says whether a list of packages, as go test has them, has a folder.
func covered(listed []string, dir string) bool {
	return slices.ContainsFunc(listed, func(l string) bool {
		l = strings.TrimPrefix(l, "./")
		tree, deep := strings.CutSuffix(l, "/...")
		return l == dir || deep && strings.HasPrefix(dir+"/", tree+"/")
	})
}

// asking returns the folders whose tests call one of these functions of testnet, by themselves or through a suite.
func asking(t *testing.T, functions ...string) map[string]bool {
	t.Helper()
	const module = "github.com/nettoll/nettoll/"
	// The folders whose tests call one, and those that others' tests call.
	tests, suites := map[string]bool{}, map[string]bool{}
	imports, among := map[string][]string{}, map[string][]string{} // by tests, and by suites
	if err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, here, by := filepath.Dir(path), suites, among
		if strings.HasSuffix(path, "_test.go") {
			here, by = tests, imports
		}
		for _, i := range file.Imports {
			by[dir] = append(by[dir], strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module))
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.SelectorExpr); ok && slices.Contains(functions, f.Sel.Name) {
				if of, ok := f.X.(*ast.Ident); ok && of.Name == "testnet" {
					here[dir] = true
				}
			}
			return true
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for grew := true; grew; { // a suite may run another one
		grew = false
		for dir, with := range among {
			if strings.HasSuffix(dir, "test") && !suites[dir] &&
				slices.ContainsFunc(with, func(i string) bool { return suites[i] }) {
				suites[dir], grew = true, true
			}
		}
	}
	found := map[string]bool{}
	for dir, with := range imports {
		if tests[dir] || slices.ContainsFunc(with, func(i string) bool { return suites[i] }) {
			found[dir] = true
		}
	}
	return found
}

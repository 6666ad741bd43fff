package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/attack"
	"github.com/nettoll/nettoll/proof/wire"
	"github.com/nettoll/nettoll/stack"
)

const provedJSON = `[
	{"stack": "a", "placement": "same-host", "attacks": [
		{"attack": "x", "verdict": "open", "not_claimed": ["a believes everybody"], "outcomes": [{"arrived": 3}]},
		{"attack": "y", "verdict": "not tried", "why": "it takes two", "outcomes": [{"arrived": 0}]},
		{"attack": "z", "verdict": "closed", "not_claimed": ["a believes everybody"], "outcomes": [{"arrived": 0}]}]},
	{"stack": "a+b", "placement": "cross-host", "control": "a/cross-host/2", "attacks": [
		{"attack": "x", "verdict": "withstood", "outcomes": [{"arrived": 0}], "control": [{"arrived": 9}]},
		{"attack": "y", "verdict": "broken", "outcomes": [{"arrived": 1}]}]},
	{"stack": "c", "placement": "same-host", "not_tried": "there is no c here"}
]`

// wireJSON is of stacks that were attacked from the wire only.
const wireJSON = `[
	{"stack": "d", "placement": "cross-host", "attacks": [
		{"attack": "wire-x", "verdict": "open", "outcomes": [{"arrived": 3}]},
		{"attack": "wire-y", "verdict": "not tried", "why": "it has no keys", "outcomes": [{"arrived": 0}]}]},
	{"stack": "e", "placement": "cross-host", "not_tried": "there is no e here"}
]`

// tested is an origin of results.
func tested() origin { return origin{time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC), "v1-2-gabc"} }

func TestSecurity(t *testing.T) {
	dir := t.TempDir()
	doc, out := filepath.Join(dir, "security.md"), filepath.Join(dir, "out.json")
	if err := os.WriteFile(out, []byte(provedJSON), 0o600); err != nil {
		t.Fatal(err)
	}
	wire := filepath.Join(dir, "wire.json")
	if err := os.WriteFile(wire, []byte(wireJSON), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := "before\n"
	for _, name := range []string{inside, fromWire} {
		empty += "<!-- " + name + ": make security writes what follows -->\nold\n<!-- " + name + ": end -->\nafter\n"
	}
	if err := os.WriteFile(doc, []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := security(doc, []string{"6.18=" + out, "6.19=" + wire}, tested()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n", "after\n", "(2026-11-25, nettoll v1-2-gabc), with Linux 6.18: 2 stacks",
		"| attack | `a` | works on |\n", "| `x` | ○ | `a` |\n", "| `y` | – | `a+b`, 2 hosts |\n",
		"| `z` | · | none of these: see `proof/attack/control_test.go` |\n",
		"| attack | `a+b`, 2 hosts | works on |\n", "| `x` | ✓ | `a` |\n", "| `y` | ✗ |",
		"with Linux 6.19: 2 stacks across two hosts", "| attack | `d` | works on |\n", "| `wire-x` | ○ | `d` |\n",
		"- `wire-y`: it has no keys: `d`\n", "- `e`: there is no e here\n",
		"- a believes everybody: `x`, `z`\n", "- `y`: it takes two: `a`\n", "- `c`: there is no c here\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "old\n") {
		t.Errorf("what was there before is left:\n%s", got)
	}
	if _, err := between("no markers", inside, ""); err == nil {
		t.Error("a text without markers gets tables")
	}
}

// make security attacks every network without a filter, and every carrier from the wire.
func TestSecurityIsWhole(t *testing.T) {
	data, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	listed := func(name string) []string {
		_, list, _ := strings.Cut(string(data), "\n"+name+" := ")
		list, _, _ = strings.Cut(strings.ReplaceAll(list, "\\\n", " "), "\n")
		return strings.Fields(list)
	}
	stacks := listed("SECURITY_ONE_HOST")
	for _, n := range stack.PartsOf[network.Network](catalogue.New().Kinds) {
		if name := n.Describe().Name; !slices.ContainsFunc(stacks, func(s string) bool {
			return !strings.Contains(s, "+") && (s == name || strings.HasPrefix(s, name+"("))
		}) {
			t.Errorf("SECURITY_ONE_HOST in the Makefile lacks network %s", name)
		}
	}
	stacks = listed("SECURITY_WIRE")
	for _, kind := range catalogue.New().Kinds {
		for _, p := range kind.Parts() {
			if _, ok := p.Value.(network.Carrier); ok && !slices.Contains(stacks, "bridge+"+p.Name) {
				t.Errorf("SECURITY_WIRE in the Makefile lacks bridge+%s", p.Name)
			}
		}
	}
}

// The tests that docs/security.md names exist. A row of an attack that works on no stack of its table names the file
// that has the test of the attack's control.
func TestSecurityNamesTests(t *testing.T) {
	data, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(path, test string) bool {
		source, _ := os.ReadFile(filepath.Join("../..", path))
		return strings.Contains(string(source), "\nfunc "+test+"(t *testing.T) {")
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|.* see `([^`]*)` \\|$").FindAllStringSubmatch(string(data), -1)
	if all := strings.Count(string(data), "none of these: see "); all == 0 || len(rows) != all {
		t.Errorf("%d rows of %d that name a file are read", len(rows), all)
	}
	for _, row := range rows {
		a := attack.Attack(row[1])
		control := cmp.Or(attack.Describe(a).Control, wire.Describe(a).Control)
		_, test, _ := strings.Cut(control, "(")
		if test = strings.TrimSuffix(test, ")"); !has(row[2], test) {
			t.Errorf("%s: the control is %q, and %s has no such test", a, control, row[2])
		}
		if got := worksOn(nil, row[1]); !strings.Contains(got, row[2]) {
			t.Errorf("%s: %s, and make security writes %q", a, row[2], got)
		}
	}
	// a command may be broken over two lines
	commands := regexp.MustCompile(`go test\s\./(\S+)[^`+"`"+`]*-run\s(Test\w+)`).FindAllStringSubmatch(string(data), -1)
	if all := regexp.MustCompile(`-run\sTest`).FindAllString(string(data), -1); len(commands) != len(all) {
		t.Errorf("%d commands of %d that run a test are read", len(commands), len(all))
	}
	for _, c := range commands {
		files, err := filepath.Glob(filepath.Join("../..", c[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(f string) bool { return has(strings.TrimPrefix(f, "../../"), c[2]) }) {
			t.Errorf("%s has no test %s", c[1], c[2])
		}
	}
}

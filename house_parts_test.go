package nettoll_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
)

// rooms are the folders that work with whatever parts there are. What lies below them is theirs, too.
var rooms = []string{
	"byhand", "cli", "control", "deploy", "experiment", "lab", "measure", "part", "proof", "report", "runtime/*", "stack",
	"suite", "traffic", "worker",
}

// A name of a part stands in its folder, in that of its kind, and in the catalogue: what knows all parts knows none by
// name, so that a new one is a folder and a line.
func TestPartsAreNamedAtHome(t *testing.T) {
	allowed := map[string]string{ // words that are names of parts, too
		"cli/plan.go host":                       "counts hosts",
		"lab/command.go host":                    "begins the name of a host",
		"lab/owner.go host":                      "begins the name of a host",
		"lab/graph.go ipset":                     "a program",
		"lab/svg.go bridge":                      "a type of link",
		"proof/attack/tries.go bridge":           "a type of link",
		"proof/wire/relay.go bridge":             "a type of link",
		"traffic/dialogue/client.go connections": "a counter",
		"measure/old.go host":                    "reads records of old versions; frozen",
		"measure/old.go netns":                   "reads records of old versions; frozen",
		"measure/version2.go connections":        "the metrics of version 2; frozen",
		"measure/version2.go softirq":            "the metrics of version 2; frozen",
	}
	parts := catalogue.New()
	kinds := map[string]string{} // of the parts, by name
	for _, kind := range parts.Kinds {
		for _, p := range kind.Parts() {
			kinds[p.Name] = kind.Describe().Name
		}
	}
	for _, w := range parts.Workloads {
		kinds[w.Describe().Name] = "workload"
	}
	for _, d := range parts.Drivers {
		kinds[d.Describe().Name] = "driver"
	}
	for _, p := range parts.Probes {
		kinds[p.Describe().Name] = "probe"
	}
	met := map[string]bool{}
	inspect(t, func(file string, at token.Position, n ast.Node) {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return
		}
		name, err := strconv.Unquote(literal.Value)
		if err != nil || kinds[name] == "" {
			return
		}
		if key := file + " " + name; allowed[key] != "" {
			met[key] = true
		} else {
			t.Errorf("%s: %q is a %s: ask the part, or the kind, for what is special about it", at, name, kinds[name])
		}
	})
	for key := range maps.Keys(allowed) {
		if !met[key] {
			t.Errorf("%q is allowed, and not there", key)
		}
	}
}

// What works with all kinds, or with any deployment, has no branch for one of them: no type assertion and no type
// switch names a kind, or a type of a deployment.
func TestNoBranchForAKindOrADeployment(t *testing.T) {
	special := map[string]string{}
	for _, kind := range catalogue.New().Kinds {
		special[kind.Describe().Name] = "kind"
	}
	for dir := range packages(t) {
		if parent, name, below := strings.Cut(dir, "/"); below && parent == "deploy" {
			special[name] = "deployment"
		}
	}
	for name, is := range map[string]string{"network": "kind", "runtime": "kind", "local": "deployment"} {
		if special[name] != is {
			t.Fatalf("%q is a %q, want %s: does the test see them?", name, special[name], is)
		}
	}
	forbidden := func(e ast.Expr) string {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		from, ok := s.X.(*ast.Ident)
		if !ok || special[from.Name] == "kind" && s.Sel.Name != "Kind" {
			return "" // what parts of a kind can do is asked by a small interface
		}
		return special[from.Name]
	}
	inspect(t, func(file string, at token.Position, n ast.Node) {
		var types []ast.Expr
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			types = []ast.Expr{n.Type}
		case *ast.TypeSwitchStmt:
			for _, c := range n.Body.List {
				types = append(types, c.(*ast.CaseClause).List...)
			}
		}
		for _, e := range types {
			if is := forbidden(e); is != "" && !strings.HasPrefix(file, "deploy/") {
				t.Errorf("%s: a branch for a %s: give the interface what all of them must say", at, is)
			}
		}
	})
}

// Ids of stacks and cells are written and read by package stack alone: nothing else takes a text apart at their signs.
// Views read the choices in the records.
func TestIDsAreReadInOnePlace(t *testing.T) {
	allowed := map[string]string{
		"measure/old.go":  "reads records of old versions; frozen",
		"lab/command.go":  "a host and a path in it; a namespace and a link",
		"report/probe.go": "the sign of a number",
	}
	met := map[string]bool{}
	apart := []string{"Cut", "CutPrefix", "CutSuffix", "Split", "SplitN", "SplitSeq", "Index", "LastIndex", "TrimPrefix", "TrimSuffix"}
	inspect(t, func(file string, at token.Position, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || strings.HasPrefix(file, "stack/") || strings.HasPrefix(file, "part/") {
			return
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(apart, f.Sel.Name) || len(call.Args) != 2 {
			return
		}
		if from, ok := f.X.(*ast.Ident); !ok || from.Name != "strings" {
			return
		}
		ast.Inspect(call.Args[1], func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Value != `"+"` && l.Value != `"/"` && l.Value != `"#2"` {
				return true
			}
			if met[file] = true; allowed[file] == "" {
				t.Errorf("%s: takes a text apart at %s, as ids are: read the choices in the record", at, l.Value)
			}
			return true
		})
	})
	for file := range allowed {
		if !met[file] {
			t.Errorf("%s is allowed, and does nothing of the kind", file)
		}
	}
}

// inspect calls f for every node of the files of [rooms] that are no tests.
func inspect(t *testing.T, f func(file string, at token.Position, n ast.Node)) {
	t.Helper()
	seen := 0
	for dir, files := range packages(t) {
		if !slices.ContainsFunc(rooms, func(room string) bool {
			whole, alone := strings.CutSuffix(room, "/*")
			return dir == whole || !alone && strings.HasPrefix(dir, room+"/")
		}) || strings.HasSuffix(path.Base(dir), "test") {
			continue
		}
		for name := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			ast.Inspect(file, func(n ast.Node) bool {
				if n != nil {
					f(path.Join(dir, name), set.Position(n.Pos()), n)
				}
				return true
			})
		}
	}
	if seen < 100 {
		t.Fatalf("%d files found in %q", seen, rooms)
	}
}

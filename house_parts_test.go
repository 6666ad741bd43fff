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
	"unicode"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/measure"
)

// rooms are the folders that work with whatever parts there are. What lies below them is theirs, too.
var rooms = []string{
	"bench", "byhand", "cli", "cmd", "control", "deploy", "driver/*", "experiment", "host", "lab", "measure", "part", "proof",
	"report", "runtime/*", "stack", "study", "suite", "traffic", "worker",
}

// choosers are the rooms that choose parts to measure, as a user does, and therefore name them.
var choosers = []string{"bench", "study"}

// A name of a part stands in its folder, in that of its kind, and in the catalogue: what knows all parts knows none by
// name, so that a new one is a folder and a line.
func TestPartsAreNamedAtHome(t *testing.T) {
	allowed := map[string]string{ // words that are names of parts, too
		"cli/plan.go host":                       "counts hosts",
		"lab/command.go host":                    "begins the name of a host",
		"lab/owner.go host":                      "begins the name of a host",
		"lab/graph.go ipset":                     "a program",
		"lab/svg.go bridge":                      "a type of link",
		"cmd/docs/pairs.go bridge":               "a column of the table in docs/between.md",
		"cmd/docs/pairs.go routed":               "a column of the table in docs/between.md",
		"cmd/docs/pairs.go ebpf":                 "a column of the table in docs/between.md",
		"deploy/kubernetes/facts.go ipip":        "a setting of network plugins",
		"deploy/kubernetes/facts.go vxlan":       "a setting of network plugins",
		"deploy/kubernetes/facts.go wireguard":   "a setting of network plugins",
		"deploy/kubernetes/facts.go ipsec":       "a setting of network plugins",
		"deploy/kubernetes/objects.go command":   "a key of a container of a pod",
		"host/segment.go vxlan":                  "a type of link",
		"host/steps.go bridge":                   "a kind of steps",
		"host/verify.go bridge":                  "a type of link",
		"host/iptunnel/links.go ebpf":            "a way to implement a step",
		"host/ovstunnel/frames.go ovs":           "a way to implement a step",
		"proof/attack/stand.go ipvlan":           "a type of link",
		"proof/attack/tries.go bridge":           "a type of link",
		"proof/wire/relay.go bridge":             "a type of link",
		"runtime/contained.go command":           "a parameter",
		"runtime/link.go macvlan":                "a type of link",
		"runtime/link.go ipvlan":                 "a type of link",
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
		if room, _, _ := strings.Cut(file, "/"); err != nil || kinds[name] == "" || slices.Contains(choosers, room) {
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

// A report explains parts with the words that they declare: its own sentences name none, and it knows no metric that
// only one kind of parts, a workload or a probe has.
func TestReportsKnowNoPart(t *testing.T) {
	allowed := map[string]string{ // file and word
		"report/text/beside.go startup_delay": "in the list of metrics beside the primary one",
		"report/text/beside.go stall_share":   "in the list of metrics beside the primary one",
	}
	words := map[string]string{} // what they are
	parts := catalogue.New()
	// Words that say something else, too.
	common := []string{
		"bridge", "burst", "command", "connections", "dns", "host", "http", "memory", "nat", "ping", "routed", "video",
	}
	for _, kind := range parts.Kinds {
		for _, p := range kind.Parts() {
			words[p.Name] = "a " + kind.Describe().Name
		}
		if declarer, ok := kind.(measure.Declarer); ok {
			for _, m := range declarer.Metrics() {
				words[m.Name] = "a metric of a " + kind.Describe().Name
			}
		}
	}
	for _, w := range parts.Workloads {
		words[w.Describe().Name] = "a workload"
		for _, m := range w.Describe().Declares {
			words[m.Name] = "a metric of a workload"
		}
	}
	for _, d := range parts.Drivers {
		words[d.Describe().Name] = "a driver"
	}
	for _, p := range parts.Probes {
		words[p.Describe().Name] = "a probe"
		for _, m := range p.Describe().Metrics {
			words[m.Name] = "a metric of a probe"
		}
	}
	for _, w := range common {
		delete(words, w)
	}
	met := map[string]bool{}
	inspect(t, func(file string, at token.Position, n ast.Node) {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.HasPrefix(file, "report/") {
			return
		}
		for _, word := range strings.FieldsFunc(literal.Value, func(r rune) bool {
			return !(r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
		}) {
			if key := file + " " + word; words[word] != "" && allowed[key] == "" {
				t.Errorf("%s: %q is %s: show what it declares", at, word, words[word])
			} else {
				met[key] = true
			}
		}
	})
	for key := range allowed {
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
		"measure/old.go":           "reads records of old versions; frozen",
		"experiment/mix.go":        "the grammar of mixes",
		"cli/complete.go":          "completes what is typed",
		"cli/labexec.go":           "a pattern of names of variables",
		"lab/command.go":           "a host and a path in it; a namespace and a link",
		"report/page/page.go":      "an anchor of the page",
		"report/export/csv.go":     "a column of parameters: all of them, joined",
		"report/probe.go":          "the sign of a number",
		"byhand/process.go":        "a function in the stack of a crash",
		"host/watch.go":            "a path",
		"host/guest/archive.go":    "a path",
		"cmd/docs/parts.go":        "a path",
		"cmd/testguest/compile.go": "a path",
	}
	met := map[string]bool{}
	found := func(file string, at token.Position, what string) {
		if met[file] = true; allowed[file] == "" {
			t.Errorf("%s: %s: read what the record says as data", at, what)
		}
	}
	signs := []string{`"+"`, `"/"`, `"#2"`, `"("`, `")"`, `"*"`, `'+'`, `'/'`, `'('`, `')'`, `'*'`}
	names := []string{"ID", "Lab", "Group", "Stack", "Baseline", "Mix"} // of fields that hold ids, or are made of them
	inspect(t, func(file string, at token.Position, n ast.Node) {
		if strings.HasPrefix(file, "stack/") || strings.HasPrefix(file, "part/") {
			return
		}
		if c, ok := n.(*ast.CaseClause); ok && strings.HasPrefix(file, "report/") {
			for _, e := range c.List {
				if l := literal(e, []string{"'('", "')'"}); l != "" {
					found(file, at, "reads a text up to "+l+", as ids are read")
				}
			}
		}
		if sum, ok := n.(*ast.BinaryExpr); ok && strings.HasPrefix(file, "report/") {
			if literal(sum.X, []string{`"="`}) != "" {
				found(file, at, "writes a parameter, as ids have it")
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return
		}
		if from, ok := f.X.(*ast.Ident); !ok || from.Name != "strings" {
			return
		}
		apart := slices.ContainsFunc([]string{"Cut", "Split", "Index", "LastIndex", "Trim"}, func(prefix string) bool {
			return strings.HasPrefix(f.Sel.Name, prefix)
		})
		if l := literal(call.Args[1], signs); apart && l != "" {
			found(file, at, "takes a text apart at "+l+", as ids are")
		}
		asks := apart || f.Sel.Name == "HasPrefix" || f.Sel.Name == "HasSuffix" || strings.HasPrefix(f.Sel.Name, "Contains")
		if field, ok := call.Args[0].(*ast.SelectorExpr); ok && asks && slices.Contains(names, field.Sel.Name) {
			found(file, at, "looks into "+field.Sel.Name)
		}
	})
	for file := range allowed {
		if !met[file] {
			t.Errorf("%s is allowed, and does nothing of the kind", file)
		}
	}
}

// The metrics of older records are frozen: only package measure reads records by them. What a new run has is declared.
func TestOldMetricsAreForOldRecords(t *testing.T) {
	used := 0
	for dir, files := range packages(t) {
		for name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok || id.Name != "Version2" {
					return true
				}
				if used++; dir != "measure" {
					t.Errorf("%s uses the metrics of older records: use those that are declared", path.Join(dir, name))
				}
				return true
			})
		}
	}
	if used == 0 {
		t.Error("nothing uses Version2: does the test see it?")
	}
}

// literal returns the literal in an expression that is one of some; "" if it has none.
func literal(e ast.Expr, some []string) (found string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && slices.Contains(some, l.Value) {
			found = l.Value
		}
		return true
	})
	return found
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

package nettoll_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A warning says what to do about it: after a colon, a comma or a semicolon, or in parentheses, there is a verb in the
// imperative, a command, or a flag or parameter to set.
func TestWarningsAdvise(t *testing.T) {
	advice := regexp.MustCompile(`(^|[:;,(] |[:;,(]|\. |, or |, and | and )(please )?(use|lower|raise|measure|stop|give|see|look|` +
		`restore|name|report|rebuild|leave|set|install|start)\b|nettoll [a-z]+|--[a-z]+|driver=nettoll`)
	allowed := map[string]string{
		"left out: ":                 "each reason says what would be measured",
		"%s, round %d: %v":           "an error of a study",
		"%s (%d of %d trials)":       "counts a warning",
		"%s (%d of %d intervals)":    "counts a warning",
		"n: generations in OLD and ": "notes below a table",
	}
	source := readTexts(t)
	seen, met := 0, map[string]bool{}
	for _, w := range source.warnings {
		text := source.text(w.dir, w.of)
		switch {
		case text == "":
			continue // it comes from elsewhere, where it is looked at
		case allowed[text] != "":
			met[text] = true
		case !advice.MatchString(text):
			t.Errorf("%s: %q does not say what to do about it", w.at, text)
		}
		seen++
	}
	if seen < 40 {
		t.Errorf("only %d warnings were found", seen)
	}
	for text := range allowed {
		if !met[text] {
			t.Errorf("%q is allowed, and not there", text)
		}
	}
}

// texts are the warnings of the tree, and the texts that they may consist of.
type texts struct {
	named    map[string]ast.Node // constants and functions, by folder and name
	warnings []warning
}

type warning struct {
	dir string
	at  token.Position
	of  []ast.Expr
}

func readTexts(t *testing.T) *texts {
	t.Helper()
	s := &texts{named: map[string]ast.Node{}}
	for dir, files := range packages(t) {
		if strings.HasSuffix(dir, "test") || strings.HasPrefix(dir, "internal") || strings.HasPrefix(dir, "bench") {
			continue
		}
		for name := range files {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				s.declare(dir, d)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if of := warns(n); of != nil {
					s.warnings = append(s.warnings, warning{dir, set.Position(n.Pos()), of})
				}
				return true
			})
		}
	}
	return s
}

func (s *texts) declare(dir string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			s.named[dir+" "+d.Name.Name] = d.Body
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST {
				for i, name := range v.Names {
					if i < len(v.Values) {
						s.named[dir+" "+name.Name] = v.Values[i]
					}
				}
			}
		}
	}
}

// warns returns the texts of a warning, if the node makes one: a record, what a trial or a step doubts, or what a
// comparison does.
func warns(n ast.Node) []ast.Expr {
	field := func(e ast.Expr, names ...string) bool {
		x, ok := e.(*ast.SelectorExpr)
		return ok && slices.Contains(names, x.Sel.Name)
	}
	switch n := n.(type) {
	case *ast.CompositeLit:
		if name, ok := n.Type.(*ast.Ident); !field(n.Type, "Warning") && (!ok || name.Name != "Warning") {
			return nil
		}
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Text" {
					return []ast.Expr{pair.Value}
				}
			}
		}
	case *ast.CallExpr:
		if field(n.Fun, "warn", "Doubt") && len(n.Args) > 0 {
			if _, record := n.Args[0].(*ast.CompositeLit); !record {
				return n.Args
			}
		}
	case *ast.AssignStmt:
		if !field(n.Lhs[0], "Doubt", "Warnings", "Notes") || len(n.Rhs) != 1 {
			return nil
		}
		if call, ok := n.Rhs[0].(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "append" && len(call.Args) > 1 {
				return call.Args[1:]
			}
		}
		return n.Rhs
	}
	return nil
}

// text returns all strings that an expression names, itself or by constants and functions of its package.
func (s *texts) text(dir string, of []ast.Expr) string {
	var b strings.Builder
	const sign = 2 // the longest text that only joins others
	met := map[ast.Node]bool{}
	var add func(n ast.Node, dir string)
	add = func(n ast.Node, dir string) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && len(text) > sign {
					b.WriteString(text)
				}
			case *ast.CompositeLit:
				return false // a record, which is looked at itself
			case *ast.Ident:
				if named := s.named[dir+" "+n.Name]; named != nil && !met[named] {
					met[named] = true
					add(named, dir)
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && s.named[x.Name+" "+n.Sel.Name] != nil {
					add(s.named[x.Name+" "+n.Sel.Name], x.Name)
				}
				return false
			}
			return true
		})
	}
	for _, e := range of {
		add(e, dir)
	}
	return b.String()
}

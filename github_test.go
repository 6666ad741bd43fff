package nettoll_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What GitHub reads of the tree: issue forms ask for what an answer needs, and CI is .ci/run and nothing else.
func TestGitHub(t *testing.T) {
	forms, err := filepath.Glob(".github/ISSUE_TEMPLATE/*.yml")
	if err != nil || len(forms) < 3 {
		t.Fatalf("issue forms: %q, %v", forms, err)
	}
	want := map[string][]string{
		".github/workflows/ci.yml": {"run: bash .ci/run\n", "pull_request:"},
		"SECURITY.md":              {"security/advisories/new", "docs/security.md", "In scope"},
	}
	for _, form := range forms {
		want[form] = []string{"`nettoll version`", "`nettoll doctor`"}
		if filepath.Base(form) == "config.yml" {
			want[form] = []string{"security/advisories/new"}
		}
	}
	for file, parts := range want {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s does not say %q", file, part)
			}
		}
		if strings.Contains(string(text), "@") && file == "SECURITY.md" {
			t.Errorf("%s names an address", file)
		}
	}
}

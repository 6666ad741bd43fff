package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet"
)

// go run records the commit, too, so that its runs can be compared.
func TestVersionOfGoRun(t *testing.T) {
	t.Parallel()
	commit, err := exec.Command(testnet.Program(t, "git", "git"), "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".", "version")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), strings.TrimSpace(string(commit))) {
		t.Errorf("%s does not say commit %s", out, commit)
	}
}

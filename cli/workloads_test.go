package cli_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/cli"
)

// docs/workloads.md is what the catalogue describes now.
func TestWorkloadsDocumentIsCurrent(t *testing.T) {
	want, err := cli.WorkloadsDocument()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/workloads.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/workloads.md is not what the catalogue says (-catalogue +document); make docs writes it anew:\n%s",
			diff)
	}
}

package cli_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/cli"
)

// Documents that are made from the catalogue are what it says now.
func TestDocumentsAreCurrent(t *testing.T) {
	for path, document := range map[string]func() ([]byte, error){
		"../docs/workloads.md": cli.WorkloadsDocument, "../docs/between.md": cli.BetweenDocument,
	} {
		want, err := document()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the catalogue says (-catalogue +document); make docs writes it anew:\n%s", path, diff)
		}
	}
}

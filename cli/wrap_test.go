package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/cli"
)

func TestWrapDocument(t *testing.T) {
	word := strings.Repeat("x", 50)
	keep := strings.Join([]string{
		"# " + strings.Repeat("a ", 80), "", "| " + word + " | " + word + " | " + word + " |", "", "short", "lines", "",
		"```sh", word + " " + word + " " + word, "```", "",
	}, "\n")
	code := "`" + word + " " + word + "`"
	long := strings.Join([]string{
		keep, "- " + word + " " + word + " " + word, "  end", "- " + word + " " + code + " end", "",
		word + " " + word + " - " + word, "",
	}, "\n")
	want := strings.Join([]string{
		keep, "- " + word + " " + word, "  " + word + " end", "- " + word, "  " + code + " end", "",
		word + " " + word + " -", word, "",
	}, "\n")
	if diff := cmp.Diff(want, cli.WrapDocument(long)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, cli.WrapDocument(want)); diff != "" {
		t.Errorf("wrapped twice (-want +got):\n%s", diff)
	}
}

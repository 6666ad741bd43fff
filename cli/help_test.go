package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
)

// Every command shows its own help. An unknown command is an error.
func TestHelpOfEveryCommand(t *testing.T) {
	ask := func(words ...string) (code int, out, err string) {
		var o, e bytes.Buffer
		code = run(t.Context(), catalogue.New(), "v1", Streams{In: strings.NewReader(""), Out: &o, Err: &e}, words)
		return code, o.String(), e.String()
	}
	var all [][]string
	each(newApp(catalogue.New(), "v1", Streams{}, nil).root(), func(c *cobra.Command) {
		all = append(all, strings.Fields(c.CommandPath())[1:])
	})
	if len(all) < 20 {
		t.Fatalf("only %d commands: %q", len(all), all)
	}
	for _, words := range append(all, []string{"help"}) {
		for _, flag := range []string{"--help", "-h"} {
			code, out, err := ask(append(words, flag)...)
			usage := strings.Join(append([]string{"\n  nettoll"}, words...), " ")
			if code != exitDone || err != "" || !strings.Contains(out, usage) {
				t.Errorf("%q %s: status %d, %q on standard error, no %q in\n%s", words, flag, code, err, usage, out)
			}
		}
	}
	for _, words := range [][]string{{"mna", "--help"}, {"lab", "upp", "-h"}, {"-v", "mna", "--help"}} {
		code, out, err := ask(words...)
		if code != exitUsage || out != "" || !strings.Contains(err, "unknown command") {
			t.Errorf("%q: status %d, %q, %q", words, code, out, err)
		}
	}
}

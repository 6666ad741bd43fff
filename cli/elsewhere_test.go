package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
)

// On another system, a command that needs Linux fails with one sentence, after the check of its arguments. The other
// commands work.
func TestElsewhere(t *testing.T) {
	call := func(args ...string) (string, error) {
		var out strings.Builder
		root := newApp(catalogue.New(), "v1", Streams{Out: &out, Err: io.Discard}, nil).root()
		elsewhere(root, "darwin")
		root.SetArgs(args)
		root.SetOut(&out)
		err := root.Execute()
		return out.String(), err
	}
	for _, args := range [][]string{
		{"run"}, {"run", "--network", "bridge"}, {"study", "trial"}, {"sink"}, {"source", "udp-rr", "::1"},
	} {
		out, err := call(args...)
		want := "nettoll " + strings.Join(args, " ")
		if len(args) > 2 {
			want = "nettoll " + args[0]
		}
		want += " needs the kernel of Linux, and this is darwin (what works here: "
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") || out != "" {
			t.Errorf("%q: %v and %q, want the error %q…", args, err, out, want)
		}
		if errors.As(err, new(usageError)) {
			t.Errorf("%q: wrong usage, want a failure", args)
		}
		here := strings.Split(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(err), want), ")"), ", ")
		if slices.Contains(here, "run") || !slices.Contains(here, "report") || !slices.Contains(here, "version") {
			t.Errorf("%q: what works here: %q, want report and version, and not run", args, here)
		}
	}
	if _, err := call("run", "--nosuch", "bridge"); !errors.As(err, new(usageError)) {
		t.Errorf("a wrong flag: %v, want wrong usage", err)
	}
	for _, args := range [][]string{{"version"}, {"list"}, {"completion", "fish"}, {"help", "run"}, {"run", "--help"}} {
		if out, err := call(args...); err != nil || out == "" {
			t.Errorf("%q: %v and %q", args, err, out)
		}
	}
}

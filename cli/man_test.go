package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
)

// Each command that help lists has a page, and each page has all sections.
func TestManPages(t *testing.T) {
	date := time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)
	pages := ManPages("v1.2.3", date)
	root := newApp(catalogue.New(), "", Streams{}, nil).root()
	for _, name := range commands(root) {
		if pages["nettoll-"+name+".1"] == nil {
			t.Errorf("%s has no page", name)
		}
	}
	if pages["nettoll-study.1"] != nil || pages["nettoll-study-trial.1"] != nil {
		t.Error("a hidden command has a page")
	}
	request := regexp.MustCompile(`^\.(TH|SH|PP|TP|RS|RE|B|BR|I|nf|fi|nh|ad)( |$)`)
	for name, page := range pages {
		text := string(page)
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"} {
			if !strings.Contains(text, "\n.SH "+section+"\n") {
				t.Errorf("%s: no section %s", name, section)
			}
		}
		if !strings.HasPrefix(text, ".TH ") || !strings.Contains(text, `1 2026-01-02 "nettoll v1.2.3" "nettoll manual"`) {
			t.Errorf("%s: title %q", name, text[:strings.Index(text, "\n")])
		}
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if strings.HasPrefix(line, ".") && !request.MatchString(line) || strings.HasPrefix(line, "'") {
				t.Errorf("%s:%d: no request of man(7): %s", name, i+1, line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r > 126 || r < 32 }) {
				t.Errorf("%s:%d: not in ASCII: %s", name, i+1, line)
			}
		}
	}
	again := ManPages("v1.2.3", date.Add(time.Minute))
	if diff := cmp.Diff(pages, again); diff != "" {
		t.Errorf("a minute later on the same day:\n%s", diff)
	}
}

// All characters of a text appear on the page, even if the formatter could take them for something else.
func TestManPageIsLiteral(t *testing.T) {
	c := &cobra.Command{
		Use: "odd [NAME]", Short: "Odd", Run: func(*cobra.Command, []string) {},
		Long: "A first\nparagraph.\n\n.dots and\n'quotes' and \\f(back)slashes\n  stay  put\n    deeper\nthen on.",
	}
	c.Flags().String("size", "1µs", "a `LENGTH` of \"time\"")
	got := strings.Split(string(manPage(c, "v1", time.Unix(0, 0))), "\n")
	want := []string{
		`.TH ODD 1 1970-01-01 "nettoll v1" "nettoll manual"`, ".nh", ".ad l",
		".SH NAME", `odd \- odd`,
		".SH SYNOPSIS", ".B odd", "[NAME] [flags]",
		".SH DESCRIPTION", "A first", "paragraph.", ".PP",
		`\&.dots and`, `\(aqquotes\(aq and \ef(back)slashes`, ".RS 4", ".nf", "stay  put", "  deeper", ".fi", ".RE",
		"then on.",
		".SH OPTIONS", ".TP", `\fB\-h\fR, \fB\-\-help\fR`, "help for odd",
		".TP", `\fB\-\-size\fR \fILENGTH\fR`, `a LENGTH of \(dqtime\(dq (default 1\[u00B5]s)`,
	}
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Contains(got, ".SH EXIT STATUS") {
		t.Error("no section EXIT STATUS")
	}
}

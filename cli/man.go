package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/catalogue"
)

// ManPages returns the manual pages of nettoll and of each of its commands that is not hidden. The keys are file names,
// such as "nettoll-run.1". The values are in the macros of man(7), in ASCII, with the day of date in UTC. cmd/man
// writes them for a release.
func ManPages(version string, date time.Time) map[string][]byte {
	a := newApp(catalogue.New(), version, Streams{}, nil)
	pages := map[string][]byte{}
	each(a.root(), func(c *cobra.Command) {
		if !c.HasParent() || c.IsAvailableCommand() && shown(c) {
			pages[pageName(c)+".1"] = manPage(c, a.versionText(), date)
		}
	})
	return pages
}

// manCommand makes `man`, which prints the manual pages for users who installed only the program.
func manCommand(std Streams, of build, root *cobra.Command) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man [COMMAND]",
		Short: "Print the manual page of a command",
		Long: `Prints the manual page of nettoll, or of one of its commands, as man(1) reads it. With -o it writes the pages
of all commands into a directory.`,
		Example: `  nettoll man run | man -l -
  nettoll man -o ~/.local/share/man/man1`,
		RunE: func(_ *cobra.Command, args []string) error {
			at, err := below(root, args)
			if err != nil {
				return err
			}
			if dir == "" {
				_, err := std.Out.Write(manPage(at, of.versionText(), time.Now()))
				return err
			}
			if len(args) > 0 {
				return usageError{fmt.Errorf("-o writes all pages and excludes %q", strings.Join(args, " "))}
			}
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return err
			}
			for name, page := range ManPages(of.versionText(), time.Now()) {
				if err := os.WriteFile(filepath.Join(dir, name), page, 0o666); err != nil {
					return err
				}
			}
			return nil
		},
	}
	registerTo(cmd, &dir, "directory to write the pages of all commands to")
	cmd.ValidArgsFunction = topics(root)
	return cmd
}

// shown reports whether neither the command nor any command above it is hidden.
func shown(c *cobra.Command) bool {
	for ; c.HasParent(); c = c.Parent() {
		if c.Hidden {
			return false
		}
	}
	return true
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roff is a manual page in the making.
type roff struct{ bytes.Buffer }

func manPage(c *cobra.Command, version string, date time.Time) []byte {
	c.InitDefaultHelpFlag()
	p := &roff{}
	fmt.Fprintf(p, ".TH %s 1 %s %q %q\n", strings.ToUpper(literal(pageName(c))), date.UTC().Format(time.DateOnly),
		"nettoll "+literal(version), "nettoll manual")
	p.WriteString(".nh\n.ad l\n") // do not hyphenate names, so that they can be searched for
	p.section("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", literal(pageName(c)), literal(lowerFirst(c.Short)))
	p.section("SYNOPSIS")
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(p, ".B %s\n.I COMMAND\n[\\fIARGUMENT\\fR | \\fIFLAG\\fR]...\n", literal(c.CommandPath()))
	} else {
		words := strings.SplitN(c.UseLine(), " ", 2+strings.Count(c.CommandPath(), " "))
		fmt.Fprintf(p, ".B %s\n", literal(c.CommandPath()))
		if rest := words[len(words)-1]; len(words) > 1+strings.Count(c.CommandPath(), " ") {
			p.line(rest)
		}
	}
	p.section("DESCRIPTION")
	p.text(c.Long, c.Short+".")
	if c.HasAvailableSubCommands() {
		p.section("COMMANDS")
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				fmt.Fprintf(p, ".TP\n.B %s\n", literal(below.CommandPath()))
				p.line(below.Short)
			}
		}
	}
	p.options("OPTIONS", c.NonInheritedFlags())
	p.options("OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	if c.Example != "" {
		p.section("EXAMPLES")
		p.verbatim(strings.Split(strings.Trim(c.Example, "\n"), "\n"))
	}
	p.section("EXIT STATUS")
	for _, s := range exitStatuses() {
		fmt.Fprintf(p, ".TP\n.B %d\n", s.code)
		p.line(s.meaning)
	}
	p.section("ENVIRONMENT")
	fmt.Fprintf(p, ".TP\n.B NO_COLOR\nIf it is set and not empty, the output has no colours.\n")
	p.section("SEE ALSO")
	p.seeAlso(c)
	return p.Bytes()
}

func (p *roff) section(name string) { fmt.Fprintf(p, ".SH %s\n", name) }

// line writes one line of text, which the formatter joins with others.
func (p *roff) line(s string) {
	s = literal(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		p.WriteString(`\&`) // so that it is not taken for a request
	}
	p.WriteString(s + "\n")
}

// text writes paragraphs with an empty line between them. Indented lines are printed as they are.
func (p *roff) text(long, otherwise string) {
	if long == "" {
		long = otherwise
	}
	for i, paragraph := range strings.Split(strings.Trim(long, "\n"), "\n\n") {
		if i > 0 {
			p.WriteString(".PP\n")
		}
		for lines := strings.Split(paragraph, "\n"); len(lines) > 0; {
			end := slices.IndexFunc(lines, func(l string) bool {
				return strings.HasPrefix(l, " ") != strings.HasPrefix(lines[0], " ")
			})
			if end < 0 {
				end = len(lines)
			}
			if strings.HasPrefix(lines[0], " ") {
				p.verbatim(lines[:end])
			} else {
				for _, l := range lines[:end] {
					p.line(l)
				}
			}
			lines = lines[end:]
		}
	}
}

// verbatim writes lines as they are, without the indentation that they share.
func (p *roff) verbatim(lines []string) {
	indent := len(lines[0])
	for _, l := range lines {
		if l != "" {
			indent = min(indent, len(l)-len(strings.TrimLeft(l, " ")))
		}
	}
	p.WriteString(".RS 4\n.nf\n")
	for _, l := range lines {
		p.line(l[min(indent, len(l)):])
	}
	p.WriteString(".fi\n.RE\n")
}

func (p *roff) options(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.section(title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		p.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(p, `\fB\-%s\fR, `, f.Shorthand)
		}
		kind, usage := pflag.UnquoteUsage(f)
		switch kind {
		case "strings", "ints", "durations":
			kind = strings.TrimSuffix(kind, "s") + ",..."
		case "stringArray":
			kind = "string"
		}
		fmt.Fprintf(p, `\fB\-\-%s\fR`, literal(f.Name))
		if kind != "" {
			fmt.Fprintf(p, ` \fI%s\fR`, literal(kind))
		}
		p.WriteString("\n")
		switch f.DefValue {
		case "", "0", "0s", "false", "[]":
		default:
			usage += fmt.Sprintf(" (default %s)", strings.Trim(f.DefValue, "[]"))
		}
		p.line(usage)
	})
}

func (p *roff) seeAlso(c *cobra.Command) {
	var pages []string
	if c.HasParent() {
		pages = append(pages, pageName(c.Parent()))
		for _, beside := range c.Parent().Commands() {
			if beside != c && beside.IsAvailableCommand() {
				pages = append(pages, pageName(beside))
			}
		}
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			pages = append(pages, pageName(below))
		}
	}
	for i, name := range pages {
		comma := " ,"
		if i == len(pages)-1 {
			comma = ""
		}
		fmt.Fprintf(p, ".BR %s (1)%s\n", literal(name), comma)
	}
}

// literal escapes text so that the formatter prints it unchanged (groff_char(7)).
func literal(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r > 126:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

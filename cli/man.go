package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/catalogue"
)

// ManPages returns the manual: a page for nettoll and one for each of its commands, by the names of their files
// ("nettoll-run.1"). They are written in the macros of man(7) and in ASCII. The program itself does not use it: cmd/man
// writes the pages of a release.
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

// shown says whether none of the commands above is hidden.
func shown(c *cobra.Command) bool {
	for ; c.HasParent(); c = c.Parent() {
		if c.Hidden {
			return false
		}
	}
	return true
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roff is a page in the making.
type roff struct{ bytes.Buffer }

func manPage(c *cobra.Command, version string, date time.Time) []byte {
	c.InitDefaultHelpFlag()
	p := &roff{}
	fmt.Fprintf(p, ".TH %s 1 %s %q %q\n", strings.ToUpper(literal(pageName(c))), date.UTC().Format(time.DateOnly),
		"nettoll "+literal(version), "nettoll manual")
	p.WriteString(".nh\n.ad l\n") // names are not divided, and can be searched for
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

// line writes one line of text, which the formatter fills.
func (p *roff) line(s string) {
	s = literal(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		p.WriteString(`\&`) // no request
	}
	p.WriteString(s + "\n")
}

// text writes paragraphs, with an empty line between them. What is indented stays as it is.
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

// verbatim writes lines as they are, less what all of them are indented by.
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

// literal writes text so that the formatter prints just that: groff_char(7).
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

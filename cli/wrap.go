package cli

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// documentWidth is the greatest length of a line of prose in the documents, in characters.
const documentWidth = 120

// prose recognizes what begins a line of Markdown. It is compiled when a document is written, and not when nettoll
// starts.
type prose struct {
	item  *regexp.Regexp // the sign of an item of a list
	other *regexp.Regexp // what is not wrapped: a row of a table, a heading, a tag, a fence, an empty line
	sign  *regexp.Regexp // a word that would begin a block if it began a line
}

// WrapDocument breaks the lines of a Markdown document at 120 characters. It wraps a paragraph or an item of a list if
// one of its lines is longer. Tables, headings, code and other paragraphs stay as they are.
func WrapDocument(text string) string {
	p := prose{
		item:  regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`),
		other: regexp.MustCompile("^\\s*([|#<]|```|$)"),
		sign:  regexp.MustCompile(`^([-+*>|=]|#+|\d+[.)])$`),
	}
	lines := strings.Split(text, "\n")
	var out []string
	code := false
	for i := 0; i < len(lines); {
		fence := strings.HasPrefix(strings.TrimSpace(lines[i]), "```")
		if fence {
			code = !code
		}
		if fence || code || p.other.MatchString(lines[i]) {
			out = append(out, lines[i])
			i++
			continue
		}
		end := i + 1
		for end < len(lines) && !p.other.MatchString(lines[end]) && !p.item.MatchString(lines[end]) {
			end++
		}
		out = append(out, p.wrap(lines[i:end])...)
		i = end
	}
	return strings.Join(out, "\n")
}

// wrap wraps the lines of a paragraph or of an item of a list.
func (p prose) wrap(lines []string) []string {
	long := false
	for _, l := range lines {
		long = long || utf8.RuneCountInString(l) > documentWidth
	}
	if !long {
		return lines
	}
	first := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	rest := first
	if m := p.item.FindString(lines[0]); m != "" {
		rest = strings.Repeat(" ", utf8.RuneCountInString(m))
	}
	var out []string
	line := first
	for _, word := range p.unbroken(strings.Join(lines, " ")) {
		switch {
		case strings.TrimSpace(line) == "":
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= documentWidth:
			line += " " + word
		default:
			out = append(out, line)
			line = rest + word
		}
	}
	return append(out, line)
}

// unbroken splits a paragraph at its spaces, except for those in code and before signs.
func (p prose) unbroken(text string) []string {
	var list []string
	open := false
	for w := range strings.FieldsSeq(text) {
		if open || len(list) > 0 && p.sign.MatchString(w) {
			list[len(list)-1] += " " + w
		} else {
			list = append(list, w)
		}
		if strings.Count(w, "`")%2 == 1 {
			open = !open
		}
	}
	return list
}

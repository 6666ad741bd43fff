package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// write shows the diagnosis to people.
func (d *diagnosis) write(w io.Writer, width int, color bool) error {
	p := page{width: width, color: color}
	table := tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	for _, part := range d.Parts {
		fmt.Fprintf(table, "%s %s\t%s\t%s\t%s\n", part.mark(), part.Kind, part.Name, cmp.Or(part.by(), part.Implementation),
			part.summary())
	}
	_ = table.Flush() // it writes to memory
	p.problems(d.Parts)
	fmt.Fprintf(&p.text, "\nThe default experiment %s here.\n", d.Default)
	if d.UserNamespace {
		fmt.Fprintln(&p.text, "Everything was tried inside a user namespace, as run does without root.")
	}
	if len(d.NotGranted) > 0 {
		p.wrap("", "Not granted here: "+strings.Join(d.NotGranted, "; ")+".")
	}

	fmt.Fprintln(&p.text)
	longest := 0
	for _, f := range d.Machine {
		longest = max(longest, len(label(f.Name)))
	}
	for _, f := range d.Machine {
		mark := " "
		switch {
		case f.Advice != "":
			mark = adverse
		case !f.Known:
			mark = notKnown
		}
		p.wrap(fmt.Sprintf("%s %-*s  ", mark, longest, label(f.Name)), f.Value)
	}
	fmt.Fprintln(&p.text)
	p.advice(d.Machine)
	return p.flush(w)
}

const (
	fine     = "✓"
	broken   = "✗"
	adverse  = "!"
	notKnown = "?"
)

// under stands before the network that a filter was tried with.
const under = "under "

// mark is what stands before a part.
func (p *diagnosed) mark() string {
	switch {
	case p.Works:
		return fine
	case slices.ContainsFunc(p.Tried, func(t *attempt) bool { return t.Works }):
		return adverse
	}
	return broken
}

// by is who does the work of the part wherever it was tried; "" where it was not found out, or it is not always the
// same.
func (p *diagnosed) by() string {
	by := ""
	for _, t := range p.Tried {
		switch {
		case t.By == "":
		case by == "":
			by = t.By
		case by != t.By:
			return ""
		}
	}
	return by
}

// summary is what of a part works, in a few words.
func (p *diagnosed) summary() string {
	var works, fails, out, bys []string
	differ := p.by() == ""
	by := map[string][]string{}
	for _, t := range p.Tried {
		switch {
		case t.Works && t.By != "" && differ:
			if by[t.By] == nil {
				bys = append(bys, t.By)
			}
			by[t.By] = append(by[t.By], t.What)
		case t.Works:
			works = append(works, t.What)
		case t.LeftOut != "":
			out = append(out, t.What)
		default:
			fails = append(fails, t.What)
		}
	}
	var said []string
	for _, who := range bys {
		said = append(said, who+": "+ways(by[who]))
	}
	if len(works) > 0 {
		said = append(said, ways(works))
	}
	if said == nil {
		said = []string{"does not work"}
	} else if len(fails) > 0 {
		said = append(said, "not "+ways(fails))
	}
	if len(out) > 0 {
		said = append(said, "left out: "+ways(out))
	}
	return strings.Join(said, "; ")
}

// ways lists what was tried: "under bridge, routed" where each is under a network.
func ways(list []string) string {
	text := strings.Join(list, ", ")
	if !strings.HasPrefix(text, under) {
		return text
	}
	return under + strings.ReplaceAll(strings.TrimPrefix(text, under), ", "+under, ", ")
}

// page is text that is written at once.
type page struct {
	text  strings.Builder
	width int
	color bool
}

// why is why a way to use a part does not work, for people; "" where it works. The whole story is in the JSON.
func (t *attempt) why() string {
	text := t.Reason
	switch {
	case t.LeftOut != "":
		return "left out: " + t.LeftOut
	case t.Missing != "":
		text = "missing " + t.Missing
	}
	if t.Hint != "" {
		text += " (what would help: " + t.Hint + ")"
	}
	return text
}

// problems says why parts do not work, each reason once.
func (p *page) problems(parts []*diagnosed) {
	var reasons []string
	whose, times := map[string][]string{}, map[string]int{}
	out := map[string][]string{} // of reasons why a filter is left out: where
	tried := 0
	for _, part := range parts {
		for _, t := range part.Tried {
			if t.LeftOut == "" {
				tried++
			}
			why := t.why()
			if why == "" {
				continue
			}
			who := part.Kind + " " + part.Name
			if n, ok := strings.CutPrefix(t.What, under); ok && t.LeftOut != "" { // the same reason under several networks
				why = strings.NewReplacer("network "+n+" ", "it ", under+n+" ", "under it ").Replace(why)
				out[who+why] = append(out[who+why], t.What)
				if len(out[who+why]) > 1 {
					last := len(whose[why]) - 1
					whose[why][last] = who + ", " + ways(out[who+why])
					continue
				}
			}
			if slices.ContainsFunc(part.Tried, func(o *attempt) bool {
				return o.why() != t.why() && (o.LeftOut == "" || t.LeftOut != "")
			}) {
				who += ", " + t.What
			}
			if times[why]++; times[why] == 1 {
				reasons = append(reasons, why)
			}
			if !slices.Contains(whose[why], who) {
				whose[why] = append(whose[why], who)
			}
		}
	}
	for _, why := range reasons {
		who := whose[why]
		switch n := len(who); {
		case times[why] == tried && n > 1:
			who = []string{"all of them"}
		case n > 3:
			who = append(slices.Clone(who[:2]), fmt.Sprintf("%d more", n-2))
		}
		fmt.Fprintln(&p.text)
		p.wrap("  ", strings.Join(who, "; ")+": "+why)
	}
}

// advice says what would make results steadier.
func (p *page) advice(findings []aboutThere) {
	found := false
	for _, f := range findings {
		if f.Advice != "" {
			found = true
			p.wrap(adverse+" ", label(f.Name)+": "+f.Advice)
		}
	}
	if !found {
		fmt.Fprintln(&p.text, "No advice.")
	}
}

// label is what people call a finding.
func label(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		switch w {
		case "cpu", "smt":
			words[i] = strings.ToUpper(w)
		case "cpus":
			words[i] = "CPUs"
		}
	}
	return strings.Join(words, " ")
}

// wrap writes a text after something that stands before it, and its further lines below its first.
func (p *page) wrap(before, text string) {
	at := utf8.RuneCountInString(before)
	indent := strings.Repeat(" ", at)
	p.text.WriteString(before)
	used := at
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && used+1+n > p.width:
			p.text.WriteString("\n" + indent)
			used = at
		case i > 0:
			p.text.WriteByte(' ')
			used++
		}
		p.text.WriteString(word)
		used += n
	}
	p.text.WriteByte('\n')
}

// flush writes the page, with coloured marks on a terminal that may have them.
func (p *page) flush(w io.Writer) error {
	colours := map[string]string{fine: "32", broken: "31", adverse: "33"} // SGR: green, red, yellow; ECMA-48, 8.3.117
	for line := range strings.Lines(p.text.String()) {
		mark, rest, ok := strings.Cut(line, " ")
		if colour := colours[mark]; p.color && ok && colour != "" {
			line = "\x1b[" + colour + "m" + mark + "\x1b[0m " + rest
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

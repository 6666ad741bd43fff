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

// write writes the diagnosis as text for people.
func (d *diagnosis) write(w io.Writer, width int, color bool) error {
	p := page{width: width, color: color}
	p.wrap("", d.Verdict)
	fmt.Fprintf(&p.text, "The default experiment %s here.\n\n", d.Default)
	table := tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	for _, part := range d.Parts {
		fmt.Fprintf(table, "%s %s\t%s\t%s\t%s\n", part.mark(), part.Kind, part.Name, cmp.Or(part.by(), part.Implementation),
			part.summary())
	}
	_ = table.Flush() // it writes to memory, which cannot fail
	p.problems(d.Parts)
	if d.UserNamespace || len(d.NotGranted) > 0 {
		fmt.Fprintln(&p.text)
	}
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
	absent   = "–"
)

// judge makes the verdict: how many networks can be measured, and how many optional programs are not installed.
func (d *diagnosis) judge() {
	all, can, partly := 0, 0, 0
	var programs []string
	for _, p := range d.Parts {
		p.NotInstalled = p.lacksProgram()
		for _, t := range p.Tried {
			if t.lacksProgram() && !slices.Contains(programs, t.Missing) {
				programs = append(programs, t.Missing)
			}
		}
		if p.Kind != "network" {
			continue
		}
		all++
		switch p.mark() {
		case fine:
			can++
		case adverse:
			can++
			partly++
		}
	}
	d.Verdict = fmt.Sprintf("This machine can measure %d of %s", can, several(all, "network"))
	if !d.anything() {
		d.Verdict = "This machine can measure nothing"
	} else if partly > 0 {
		d.Verdict += fmt.Sprintf(" (%d in part)", partly)
	}
	switch n := len(programs); n {
	case 0:
		d.Verdict += "."
	case 1:
		d.Verdict += "; 1 optional program is not installed."
	default:
		d.Verdict += fmt.Sprintf("; %d optional programs are not installed.", n)
	}
}

// lacksProgram reports whether a try failed because a program is not installed.
func (t *attempt) lacksProgram() bool { return t.failed() && strings.HasPrefix(t.Missing, "program ") }

// lacksProgram reports whether a part does not work because a program is not installed. Some tries may lack something
// else as well, such as the network below a filter: that is not this part's fault.
func (p *diagnosed) lacksProgram() bool {
	lacks := false
	for _, t := range p.Tried {
		if t.Works || t.failed() && t.Missing == "" {
			return false
		}
		lacks = lacks || t.lacksProgram()
	}
	return lacks
}

// under precedes the network that a filter was tried on.
const under = "under "

// mark is the sign at the start of a part's line.
func (p *diagnosed) mark() string {
	switch {
	case p.Works:
		return fine
	case slices.ContainsFunc(p.Tried, func(t *attempt) bool { return t.Works }):
		return adverse
	case p.NotInstalled:
		return absent
	}
	return broken
}

// by is the implementation of the part in all tries; "" if it is unknown or differs.
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

// summary says in a few words which ways to use a part work.
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
	if p.NotInstalled {
		said = []string{"not installed"}
	} else if said == nil {
		said = []string{"does not work"}
	} else if len(fails) > 0 {
		said = append(said, "not "+ways(fails))
	}
	if len(out) > 0 {
		said = append(said, "left out: "+ways(out))
	}
	return strings.Join(said, "; ")
}

// ways lists ways to use a part: "under bridge, routed" if each is under a network.
func ways(list []string) string {
	text := strings.Join(list, ", ")
	if !strings.HasPrefix(text, under) {
		return text
	}
	return under + strings.ReplaceAll(strings.TrimPrefix(text, under), ", "+under, ", ")
}

// page collects text and wraps its lines.
type page struct {
	text  strings.Builder
	width int
	color bool
}

// why is the reason why an attempt failed or was left out, for people; "" if it works. The JSON has the full error.
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

// problems writes why parts do not work. Parts with the same reason share a paragraph.
func (p *page) problems(parts []*diagnosed) {
	var reasons []string
	whose, times := map[string][]string{}, map[string]int{}
	out := map[string][]string{} // by filter and reason: the networks under which it is left out
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

// advice writes how to make results steadier.
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

// label returns the name of a fact for people.
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

// wrap writes a text after a prefix. Further lines are indented to the end of the prefix.
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

// flush writes the page, and colours its marks if the terminal allows colours.
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

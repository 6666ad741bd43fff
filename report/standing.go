package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nettoll/nettoll/measure"
)

// What to do about records that cannot be trusted, and about a run that did not end.
const (
	restore = "Restore the file from a copy, or measure again."
	goOn    = " nettoll run --resume continues it."
)

// standing returns the sentences that every view begins with: the run did not end, its records were changed, or the
// machine did other work.
func standing(run measure.Run, a measure.Analysis) []string {
	s, again := a.Standing, goOn
	if run.V < measure.Version { // another program is refused anyway
		again = ""
	}
	var list []string
	if s.RunChanged {
		list = append(list, runFile+
			" was changed after the run began: names, settings and facts may not be those of the run. "+restore)
	}
	if n := len(s.Changed); n > 0 {
		text := "The records were changed after the run: " + Printable(s.Changed[0])
		if n > 1 {
			text += fmt.Sprintf("; %s more", Count(n-1, "place", "places"))
		}
		list = append(list, text+". "+restore)
	}
	switch {
	case s.Old(run.V):
	case s.End == nil:
		list = append(list, "This run did not end: it was killed, or its records are cut short. "+extentOf(run, a)+again)
	case s.End.Why == measure.EndInterrupted:
		list = append(list, "This run was interrupted. "+extentOf(run, a)+again)
	case s.End.Why == measure.EndFailed:
		list = append(list, "This run failed: "+strings.TrimSuffix(Printable(s.End.Detail), ".")+". "+extentOf(run, a)+again)
	}
	for _, w := range a.Warnings {
		if w.Machine {
			list = append(list, sentence(Printable(w.Text)))
		}
	}
	return list
}

// Standing returns the sentences that every view of the run begins with: the run did not end, its records were changed,
// or the machine did other work.
func (d *Data) Standing() []string { return standing(d.Run, d.Analysis) }

// sentence returns a warning as a sentence.
func sentence(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[size:] + "."
}

// Standing returns the first sentences of both runs.
func (c *Compared) Standing() []string {
	var list []string
	for _, s := range c.sides() {
		for _, text := range s.data.Standing() {
			list = append(list, s.word+": "+text)
		}
	}
	return list
}

// extentOf returns the extent of a run that ended too soon.
func extentOf(run measure.Run, a measure.Analysis) string {
	if a.Trials == 0 {
		return "Nothing was measured."
	}
	text := fmt.Sprintf("It has %s in %s", Count(a.Blocks, "block", "blocks"),
		Count(a.Generations, "generation", "generations"))
	if n := a.Generations - a.Standing.Complete; n > 0 {
		text += fmt.Sprintf(", %d of them incomplete", n)
	}
	if wanted := run.Design.Generations; wanted > 0 {
		text += fmt.Sprintf("; the experiment asks for at least %d generations", wanted)
	}
	return text + "."
}

// resumed returns how often a run was resumed; "" if never.
func resumed(list []measure.Resume) string {
	if len(list) == 0 {
		return ""
	}
	var each []string
	for _, r := range list {
		each = append(each, fmt.Sprintf("%s, went on with generation %d", map[string]string{
			measure.EndInterrupted: "interrupted", measure.EndFailed: "failed", measure.Killed: "killed",
		}[r.After], r.Generation))
	}
	return fmt.Sprintf("Resumed %s (%s).", Count(len(list), "time", "times"), strings.Join(each, "; "))
}

// TooFew returns the number of generations, out of those that a verdict needs: "3 of 5 generations".
func TooFew(generations int) string {
	return fmt.Sprintf("%d of %d generations", generations, measure.LeastGenerations)
}

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/suite"
)

// registerPaper adds the flags that choose which figures, tables and claims of a paper are measured.
func (f *experimentFlags) registerPaper(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.paper.Figures, "figure", nil,
		"with a suite: measure only what this figure of the paper needs, such as 4 or 4,5 (nettoll plan suite:NAME lists "+
			"them)")
	flags.StringSliceVar(&f.paper.Tables, "table", nil, "with a suite: measure only what this table of the paper needs")
	flags.StringSliceVar(&f.paper.Claims, "claim", nil,
		"with a suite: measure only what this claim needs, by its number in the report, such as 7; may be combined with "+
			"--figure")
}

// runOf returns the run that the records of this experiment will have.
func runOf(r *experiment.Resolved) *measure.Run {
	text, _ := json.Marshal(r.Experiment) //nolint:errchkjson // without it, claims about links are not tried
	run := &measure.Run{Cells: make([]measure.Cell, len(r.Cells)), Experiment: text}
	for i, c := range r.Cells {
		run.Cells[i] = c.Cell
	}
	return run
}

// least is the shortest measuring time of an experiment: one block in each generation.
func least(r *experiment.Resolved) time.Duration {
	return time.Duration(r.Experiment.Design.Generations) * r.Forecast(experiment.DefaultSpread).Block
}

// narrow keeps the cells of a suite's experiment that the flags ask for. If they ask for nothing, and the user's time
// is both shorter than that of the suite and too short for all cells, it keeps the claims that the time is long enough
// for.
func (x experiments) narrow(s *suite.Suite, r *experiment.Resolved, asked suite.Choice) (*experiment.Resolved, error) {
	items := s.Items(runOf(r))
	chosen, err := s.Pick(items, asked)
	switch {
	case err != nil:
		return nil, usageError{err}
	case asked.Empty():
		own, err := experiment.Read(s.Name, s.Experiment, nil, x.catalogue.Parts())
		if err != nil {
			return nil, err
		}
		if allowed := r.Experiment.Design.Time; allowed >= own.Design.Time || least(r) <= allowed {
			return r, nil
		}
		chosen = suite.Within(only(items, suite.ClaimKind),
			func(cells []string) bool { return least(r.Keep(cells)) <= r.Experiment.Design.Time },
			func(cells []string) float64 { return least(r.Keep(cells)).Seconds() })
	}
	var cells []string
	for _, i := range chosen {
		for _, id := range i.Cells {
			if !slices.Contains(cells, id) {
				cells = append(cells, id)
			}
		}
	}
	if cells == nil {
		var missing []string
		for _, i := range chosen {
			missing = append(missing, i.Missing...)
		}
		return nil, usageError{fmt.Errorf("nothing is left to measure: the experiment has no cell for %s",
			strings.Join(missing, "; "))}
	}
	return r.Keep(cells), nil
}

func only(items []suite.Item, kind string) []suite.Item {
	return slices.DeleteFunc(slices.Clone(items), func(i suite.Item) bool { return i.Kind != kind })
}

// paperOf returns the suite of an experiment, or nil if it has none.
func (l library) paperOf(r *experiment.Resolved) *suite.Suite {
	if r.Experiment.Suite == "" {
		return nil
	}
	s, err := suite.Find(r.Experiment.Suite, l.catalogue.Parts().Metrics)
	if err != nil {
		return nil // another nettoll version has this suite; the run does not need it
	}
	return s
}

// tried describes which figures, tables and claims of a paper an experiment measures, and which claims it does not. It
// is "" if it measures all.
func (l library) tried(r *experiment.Resolved) string {
	s := l.paperOf(r)
	if s == nil {
		return ""
	}
	in, out, partly := map[string][]string{}, []string(nil), []string(nil)
	for _, i := range s.Items(runOf(r)) {
		switch {
		case len(i.Missing) == 0:
			in[i.Kind] = append(in[i.Kind], i.Name)
		case i.Kind != suite.ClaimKind:
		case len(i.Cells) > 0:
			partly = append(partly, i.Name)
		default:
			out = append(out, i.Name)
		}
	}
	if out == nil && partly == nil {
		return ""
	}
	var list []string
	for _, kind := range []string{suite.FigureKind, suite.TableKind, suite.ClaimKind} {
		if in[kind] != nil {
			list = append(list, kind+" "+suite.Numbers(in[kind]))
		}
	}
	for _, x := range []struct {
		how    string
		claims []string
	}{{"in part", partly}, {"not tried", out}} {
		if x.claims != nil {
			list = append(list, x.how+": claim "+suite.Numbers(x.claims))
		}
	}
	text := "measured from the paper: " + strings.Join(list, "; ")
	if r.Experiment.Only != nil && least(r) > r.Experiment.Design.Time {
		text += fmt.Sprintf(" (it takes at least %v: %d generations of one block)", round(least(r)),
			r.Experiment.Design.Generations)
	}
	return text
}

// plannedItem is a figure, table or claim of a paper, and the cost of a run for it alone.
type plannedItem struct {
	suite.Item
	Labs  int     `json:"labs"`
	Block float64 `json:"block"`    // s, of one block
	Least float64 `json:"least"`    // s, the shortest measuring time
	Build float64 `json:"building"` // s, to build and remove everything in all generations
}

// plannedItems returns the figures, tables and claims of the experiment's paper, with their cost.
func (l library) plannedItems(r *experiment.Resolved) []plannedItem {
	s := l.paperOf(r)
	if s == nil {
		return nil
	}
	var list []plannedItem
	for _, i := range s.Items(runOf(r)) {
		if r.Experiment.Only != nil && (len(i.Cells) == 0 || len(i.Missing) > 0) {
			continue // not chosen
		}
		p := plannedItem{Item: i}
		if len(i.Cells) > 0 {
			kept := r.Keep(i.Cells)
			f := kept.Forecast(experiment.DefaultSpread)
			p.Labs, p.Block, p.Least = f.Labs, f.Block.Seconds(), least(kept).Seconds()
			p.Build = f.Building.Seconds() / float64(max(1, f.Generations)) * float64(r.Experiment.Design.Generations)
		}
		list = append(list, p)
	}
	return list
}

// printItems prints the figures, tables and claims that can be chosen.
func printItems(out io.Writer, items []plannedItem) error {
	if items == nil {
		return nil
	}
	fmt.Fprint(out, "\nfigures, tables and claims of the paper, and how long one alone takes at least\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	seconds := func(s float64) time.Duration { return round(time.Duration(s * float64(time.Second))) }
	for _, i := range items {
		what := "not measured by this experiment"
		if len(i.Cells) > 0 {
			what = fmt.Sprintf("%s in %s\t%v, building %v", several(len(i.Cells), "cell"), several(i.Labs, "lab"),
				seconds(i.Least), seconds(i.Build))
			if len(i.Missing) > 0 {
				what += ", in part"
			}
		} else if len(i.Missing) == 1 {
			what += ": " + i.Missing[0]
		}
		fmt.Fprintf(w, "  --%s %s\t%s\t%s\n", i.Kind, i.Name, i.Title, what)
	}
	return w.Flush()
}

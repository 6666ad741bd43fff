package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
)

// methodPart returns the part about the method, and the meaning of the words.
func (v *Reading) methodPart() Part {
	d := v.Run.Design
	p := Part{Title: "How it was measured", ID: "method"}
	asked := "at least " + Count(d.Generations, "generation", "generations") + ", at most " + duration(d.Time) +
		" of measuring"
	if d.Precision > 0 {
		asked += ", until the half-width of every interval is " + strconv.FormatFloat(100*d.Precision, 'g', 3, 64) + " %"
	}
	if d.Decided {
		asked += " or its verdict is decided"
		if v.Run.Suite != "" {
			asked = strings.TrimSuffix(asked, "its verdict is decided") + "all claims that need it are decided"
		}
	}
	p.Blocks = []Block{
		{Text: "All networks exist at the same time. A block visits every cell (a stack under a workload) once, in a new " +
			"random order; one visit is a trial. A ratio compares two trials of the same block, so drift that is slower than " +
			"a block cancels out. Each generation rebuilds every network, process and socket."},
		{Text: fmt.Sprintf("Requested: %s; stacks count as equal within %s. The order, ports and MAC addresses "+
			"come from seed %d.", asked, within(d.Equal(), measure.Metric{}), d.Seed)},
	}
	if share := v.Analysis.Proving; share > 0 {
		p.Blocks = append(p.Blocks, Block{Text: "Proofs and audits took " + strconv.FormatFloat(100*share, 'f', 1, 64) +
			" % of the measuring time."})
	}
	if text := v.spoiled(); text != "" {
		p.Blocks = append(p.Blocks, Block{Text: text})
	}
	if lengths := v.trialLengths(); lengths != "" {
		p.Blocks = append(p.Blocks, Block{Text: "Trial length: " + lengths + "."})
	}
	p.Parts = []Part{{Title: "Words", Folded: true, Tables: []Block{{Table: &Table{
		Columns: []Column{{"word", false}, {"meaning", false}},
		Rows: [][]Field{
			{{Text: "baseline"}, {Text: "the cell with which its group (same workload, placement and pairs) is compared; " +
				"“loopback” is the network “host” on one host"}},
			{{Text: "twin, floor"}, {Text: "a twin is a second copy of the baseline, built and measured like any other cell. " +
				"The floor is the farther end of its interval: equal stacks differ by that much, so no smaller difference counts"}},
			{{Text: "change"}, {Text: "the ratio of a cell to its baseline, which is both twins: the center over the blocks " +
				"of each generation (a mean on which few blocks have little influence), then the mean over generations, on a " +
				"logarithmic scale. Shares and counts, which are often 0, are compared by difference"}},
			{{Text: "95 % interval"}, {Text: "Student's t over generations, which are independent; computed at an error rate " +
				drawnAt(d)}},
			{{Text: "faster, slower, higher, lower"}, {Text: "the interval, widened for the number of comparisons (Holm), " +
				"excludes no change, and the change is larger than the floor"}},
			{{Text: "no difference"}, {Text: "the whole interval lies within the margin of " +
				within(d.Equal(), measure.Metric{}) + ", and so does the floor"}},
			{{Text: "too noisy to tell"}, {Text: "the floor is larger than the margin: two equal stacks differ by more here"}},
			{{Text: "not precise enough"}, {Text: "the interval allows both; measure for longer"}},
		},
	}}}}}
	return p
}

// drawnAt says at which error rate intervals are drawn, and why.
func drawnAt(d measure.Design) string {
	if d.Decided {
		return "of 3 %, because stopping when a verdict is decided costs up to two and a half points of coverage"
	}
	return "of 4 %, because stopping when the result looks precise costs a point of coverage"
}

// trialLengths returns the length of the trials of each workload.
func (v *Reading) trialLengths() string {
	var order []string
	lengths := map[string][]float64{}
	for i := range v.Run.Cells {
		c := &v.Run.Cells[i]
		s, ok := v.Run.Design.TrialSeconds[c.ID]
		if !ok || !(s > 0) || math.IsInf(s, 0) {
			continue
		}
		what := load(c)
		if _, ok := lengths[what]; !ok {
			order = append(order, what)
		}
		if !slices.Contains(lengths[what], s) {
			lengths[what] = append(lengths[what], s)
		}
	}
	for i, what := range order {
		slices.Sort(lengths[what])
		var list []string
		for _, s := range lengths[what] {
			list = append(list, measure.Format(s, measure.UnitSecond))
		}
		order[i] = what + " " + strings.Join(list, ", ")
	}
	return strings.Join(order, "; ")
}

// changedBefore is a line that older versions put after the experiment of a run that the command line had changed. Such
// a text is not the experiment that was measured.
const changedBefore = "\n# changed on the command line: "

// experimentPart returns the part with the experiment as it was measured, or as resolved if there was no file.
func (v *Reading) experimentPart() Part {
	p := Part{Title: "The experiment", ID: "experiment", Folded: true, Code: v.Run.Source}
	if p.Code != "" && !strings.Contains(p.Code, changedBefore) {
		again := "nettoll run FILE.yaml measures it again."
		if v.Run.Suite != "" {
			again = "nettoll run suite:" + Printable(v.Run.Suite) + " measures it again, and compares it with its paper."
		}
		p.Blocks = []Block{{Text: "Put this into a file: " + again}}
	}
	if p.Code == "" && len(v.Run.Experiment) > 0 {
		var b bytes.Buffer
		if json.Indent(&b, v.Run.Experiment, "", "  ") == nil {
			p.Code = b.String()
		} else {
			p.Code = string(v.Run.Experiment)
		}
	}
	if p.Code == "" {
		p.Folded, p.Blocks = false, []Block{{Text: "The experiment was not recorded.", Tone: Doubt}}
	}
	return p
}

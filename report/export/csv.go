package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/report"
)

// cellColumns are the columns that identify the cell of a row, one for each kind of parts among them.
func cellColumns(kinds []string) []string {
	return slices.Concat([]string{"cell"}, kinds, []string{
		"placement", "pairs", "family", "affinity", "workload", "payload", "mode",
	})
}

func cellFields(c *measure.Cell, kinds []string) []string {
	fields := []string{c.ID}
	for _, kind := range kinds {
		fields = append(fields, c.Part(kind))
	}
	return append(fields, c.Placement, strconv.Itoa(c.Pairs), c.Family, c.Affinity, c.Workload, c.Params["payload"],
		c.Params["mode"])
}

// columns are the columns of [CSV]. Their order is fixed, because other programs read them; new ones are added at the
// end.
func columns(kinds []string) []string {
	return append(cellColumns(kinds),
		"metric", "unit", "value", "ratio", "ratio_lo", "ratio_hi", "verdict", "blocks", "generations",
		"difference", "difference_lo", "difference_hi", "adjusted_lo", "adjusted_hi", "floor", "spread", "primary",
		"baseline", "parameters", "implementation", "limit", "limit_share",
		"probe", "unprobed", "probe_ratio", "probe_ratio_lo", "probe_ratio_hi", "probe_difference", "probe_difference_lo",
		"probe_difference_hi",
		"mix", "lab_pairs", "enforced", "ended", "value_lo", "value_hi", "over", "idle", "rights", "container")
}

// A sheet writes CSV that a spreadsheet program cannot take for formulas.
type sheet struct{ *csv.Writer }

func newSheet(w io.Writer) sheet { return sheet{csv.NewWriter(w)} }

// Write writes a row. A text that a spreadsheet program would take for a formula gets a single quote before it (OWASP,
// "CSV Injection"). Control characters other than ends of lines are replaced, because anyone may have written the names
// and messages in a file. Numbers stay as they are.
func (s sheet) Write(fields []string) error {
	for i, f := range fields {
		lines := strings.Split(f, "\n") // quoted fields may contain ends of lines
		for k, line := range lines {
			lines[k] = report.Printable(line)
		}
		f = strings.Join(lines, "\n")
		if start := strings.TrimSpace(f); start != "" && strings.ContainsRune("=+-@", rune(start[0])) {
			if _, err := strconv.ParseFloat(f, 64); err != nil {
				f = "'" + f
			}
		}
		fields[i] = f
	}
	return s.Writer.Write(fields)
}

// CSV writes a row for each cell and metric, as RFC 4180 with a header. Numbers are bare and in base units; unknown
// ones are empty.
//
//	ratio, ratio_lo, ratio_hi     cell / baseline and its 95 % interval; empty for shares and counts
//	difference, …_lo, …_hi        cell − baseline of a share or count, in its unit
//	adjusted_lo, adjusted_hi      the interval at the level of Holm's procedure, as ratios or as differences
//	floor, spread                 the noise floor, and the standard deviation between generations: as shares of the value
//	                              (0.006 = 0.6 %), or in the unit of a difference
//	primary                       whether the metric is the one that governed stopping: true or false
//	parameters, implementation    KEY=VALUE, separated by spaces
//	limit, limit_share            the part that kept the figure from being higher, and the share of trials that name it
//	probe, unprobed               the probe that was on during the cell's trials, and the same cell without it; empty if
//	                              there was none
//	probe_ratio, …                the cost of the probe, in the row of the primary metric: the cell / unprobed, or the
//	                              cell − unprobed, with its 95 % interval
//	mix, lab_pairs                in a mix: its members with their shares, separated by spaces, and the pairs of all of
//	                              them together; else empty
//	enforced                      the place where the filter stands, and its limits: "in the host's forward path; …";
//	                              empty if there is no filter
//	value_lo, value_hi            the 95 % interval of the value itself
//	over                          in rows of a cell against another one that is not its baseline: that other cell. For a
//	                              member of a mix, it is the same member alone. Such rows have no value and no baseline
//	idle                          whether CPUs slept while they waited during its trials: awake, deep; empty if its
//	                              records do not say so
//	rights                        what root may do in the containers; empty if those have no processes of their own
//	container                     in rows of one container of a lab: its host and its name, "host1/src0"
//	ended                         why the run ended: "precise", "time", "interrupted", …; "no" if it did not; empty if
//	                              its records do not say so (version 1)
//
// The cost of building a lab and of changing it follows in rows of its own, with the lab as the cell and no workload:
// the median over generations, without labs that had to be built once more. What single containers used in trials comes
// next. Then come rows with the metric "proof" about what each lab protects: the parameter says which claim, the
// verdict what became of it.
func CSV(w io.Writer, d *report.Data) error {
	run, a := d.Run, d.Analysis
	out, kinds := newSheet(w), run.Kinds()
	if err := out.Write(columns(kinds)); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	costs := map[string]measure.ProbeCost{}
	for _, p := range a.Probes {
		costs[p.Cell.ID] = p
	}
	for _, r := range a.Rows {
		l := newRowLine(r)
		if err := out.Write(slices.Concat(rowFields(r.Cell, l, kinds), probeFields(r, costs), mixFields(r.Cell),
			[]string{ended(run, a)}, optional(l.ValueLo, l.ValueHi),
			[]string{"", r.Cell.Idle, a.Rights[r.Cell.Lab], ""})); err != nil {
			return fmt.Errorf("write csv: %w", err)
		}
	}
	for _, direct := range slices.Concat(d.Direct(), a.Beside) {
		l := newDirectLine(direct)
		if err := out.Write(slices.Concat(rowFields(direct.Cell, l, kinds), probeFields(direct.Row, nil),
			mixFields(direct.Cell), []string{ended(run, a)}, optional(nil, nil),
			[]string{l.Over, direct.Cell.Idle, a.Rights[direct.Cell.Lab], ""})); err != nil {
			return fmt.Errorf("write csv: %w", err)
		}
	}
	for _, f := range slices.Concat(a.Labs, a.Containers) {
		if err := out.Write(labFields(f, ended(run, a), kinds)); err != nil {
			return fmt.Errorf("write csv: %w", err)
		}
	}
	for _, p := range a.Proved() {
		for _, fields := range provedFields(p, ended(run, a), kinds) {
			if err := out.Write(fields); err != nil {
				return fmt.Errorf("write csv: %w", err)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

func rowFields(c *measure.Cell, l rowLine, kinds []string) []string {
	share := ""
	if l.Limit != "" {
		share = bare(l.LimitShare)
	}
	return slices.Concat(cellFields(c, kinds), []string{l.Metric, l.Unit}, optional(l.Value), l.ratios(),
		[]string{string(l.Verdict), strconv.Itoa(l.Blocks), strconv.Itoa(l.Generations)}, l.differences(),
		optional(l.AdjustedLo, l.AdjustedHi, l.Floor, l.Spread),
		[]string{strconv.FormatBool(l.Primary), l.Baseline, pairs(c.Params), pairs(c.Implementation), l.Limit, share})
}

// labFields returns the row of a cost of a lab.
func labFields(f measure.LabFigure, ended string, kinds []string) []string {
	values := map[string]string{
		"cell": f.Lab, "metric": f.Metric, "unit": f.Unit, "value": bare(f.Value), "generations": strconv.Itoa(f.Generations),
		"ended": ended, "container": f.Container,
	}
	var fields []string
	for _, c := range columns(kinds) {
		fields = append(fields, values[c])
	}
	return fields
}

// ended returns the reason why a run ended, in a word.
func ended(run measure.Run, a measure.Analysis) string {
	switch s := a.Standing; {
	case s.Old(run.V):
		return ""
	case s.End == nil:
		return "no"
	default:
		return s.End.Why
	}
}

// mixFields returns the columns of a row after those of probes.
func mixFields(c *measure.Cell) []string {
	if c.Mix == nil {
		return []string{"", "", c.Enforced}
	}
	return []string{strings.Join(c.Mix, " "), strconv.Itoa(c.LabPairs), c.Enforced}
}

// probeFields returns the columns of a row about its probe.
func probeFields(r measure.Row, costs map[string]measure.ProbeCost) []string {
	var e effect
	if p, ok := costs[r.Cell.ID]; ok && p.Metric == r.Metric {
		e = newEffect(p.Effect)
	}
	return slices.Concat([]string{r.Cell.Probe, r.Cell.Unprobed}, e.ratios(), e.differences())
}

// optional returns numbers as [bare] does, and "" for nil.
func optional(numbers ...*float64) []string {
	fields := make([]string, len(numbers))
	for i, x := range numbers {
		if x != nil {
			fields[i] = bare(*x)
		}
	}
	return fields
}

// bare returns a number without a unit that reads back as the same number; "" if it is not finite.
func bare(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func pairs(m map[string]string) string {
	list := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+m[k])
	}
	return strings.Join(list, " ")
}

// Trials writes a row for each trial, as RFC 4180 with a header. It has the columns of its cell; its generation, from
// 1, and its block, from 0, as in the records; start and length of its window in seconds; and a column for each metric
// that any trial has. Last come the reason for which it failed, its warnings separated by "; ", its limit, whether
// other programs took the CPU from it (empty if that is not known), and whether its block was set aside for that. A
// cell that run.json does not name has only its id.
func Trials(w io.Writer, d *report.Data) error {
	run, log := d.Run, d.Log
	cells, kinds := make(map[string][]string, len(run.Cells)), run.Kinds()
	for i := range run.Cells {
		cells[run.Cells[i].ID] = cellFields(&run.Cells[i], kinds)
	}
	metrics := seen(run.Vocabulary(), log)
	out := newSheet(w)
	header := append(append(append(cellColumns(kinds), "gen", "block", "start", "dur"), metrics...), "failed", "warn",
		"limit", "spoiled", "aside")
	if err := out.Write(header); err != nil {
		return fmt.Errorf("write csv of trials: %w", err)
	}
	fields := make([]string, 0, len(header))
	for i := range log.Trials {
		t := &log.Trials[i]
		cell, ok := cells[t.Cell]
		if !ok {
			cell = make([]string, len(cellColumns(kinds)))
			cell[0] = t.Cell
		}
		fields = append(fields[:0], cell...)
		fields = append(fields, strconv.Itoa(t.Generation), strconv.Itoa(t.Block), bare(t.Start), bare(t.Duration))
		for _, m := range metrics {
			x, ok := t.Metrics[m]
			if !ok {
				x = math.NaN()
			}
			fields = append(fields, bare(x))
		}
		fields = append(fields, t.Failed, strings.Join(t.Warnings, "; "), t.Limit)
		spoiled, judged, aside := d.Analysis.SpoiledTrial(t)
		said := ""
		if judged {
			said = strconv.FormatBool(spoiled)
		}
		if err := out.Write(append(fields, said, strconv.FormatBool(aside))); err != nil {
			return fmt.Errorf("write csv of trials: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write csv of trials: %w", err)
	}
	return nil
}

// seen returns the metrics of the trials in the order of reports, with unknown ones at the end.
func seen(known measure.Vocabulary, log *measure.Log) []string {
	names := map[string]bool{}
	for i := range log.Trials {
		for name := range log.Trials[i].Metrics {
			names[name] = true
		}
	}
	return known.Sorted(maps.Keys(names))
}

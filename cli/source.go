package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/byhand"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/workload"
)

// sourceFlags are the flags of `source`.
type sourceFlags struct {
	time, interval time.Duration
	ipv4, ipv6     bool
	output         outputFlags
	token          string
	options        byhand.Options
}

func sourceCommand(std Streams, lib library, of build) *cobra.Command {
	f := &sourceFlags{}
	cmd := &cobra.Command{
		Use:   "source WORKLOAD ADDRESS",
		Short: "Run a workload against nettoll sink, by hand",
		Long: `Runs any workload between this machine, or container, and another one on which nettoll sink waits. It prints
a line of results for each interval and one for all of them. ADDRESS is an address or a name, with :PORT if the sink
does not use the default port. It needs no privilege and builds nothing.

Write WORKLOAD as for nettoll run, with its parameters in parentheses (nettoll list workload shows them); in a shell,
quote it. ping needs no sink: the kernel of the other machine answers.

Each interval is a trial: a warm-up, which does not count, a window, and a drain. Between two intervals nothing is sent
for a few round trips. Over all intervals, rates are means, losses are shares of everything sent, and percentiles are
those of all samples. A percentile q is shown if there are 100/(1-q) samples.

A sink normally serves one source after another. A source that has to wait shows how many are ahead of it, and starts
by itself. If the sink was started with --token, give the same token here.

CPU placement can matter more than the network: set --cpu on both ends. One run by hand is one sample; use nettoll run
to find out which of two networks costs more.

With --output json it prints one object at the end: workload, params, source, sink, pairs, versions, round_trip,
granted, cpus, interval, warm_up, intervals (each with start, duration, window, metrics, limit, failure, warnings),
metrics, limit and warnings, all in base units, and error if it ended with one. With --output jsonl each interval is a
line, and the rest is the last one. With --output csv each metric of each interval is a row. In the rows
for all intervals together, the interval is empty.`,
		Example: `  nettoll source udp-rr 10.0.0.2                                round trips, both ends sleep in between
  nettoll source 'udp-rr(mode=spin,payload=100)' 10.0.0.2       both ends spinning
  nettoll source tcp-stream server.example --ipv6 --time 30s
  nettoll source 'tcp-stream(direction=reverse,congestion=bbr)' 10.0.0.2
  nettoll source 'udp-rate(payload=1400)' '[fd00::2]:7000' --pairs 4
  nettoll source ping 10.0.0.3
  nettoll source udp-rr 10.0.0.2 --output json | jq .metrics.latency_p99`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("nettoll source takes two arguments, the workload and the address of a sink, got %d "+
					"(see nettoll source --help)", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := f.output.choose(cmd)
			if err != nil {
				return err
			}
			if err := f.complement(lib, of, args); err != nil {
				return err
			}
			return f.byHand(cmd.Context(), std, format)
		},
	}
	cmd.Flags().DurationVar(&f.time, "time", 10*time.Second, "how long to measure; whole intervals")
	cmd.Flags().DurationVar(&f.interval, "interval", 0,
		"length of each interval (default 1s, up to 10s if a sound trial of the workload takes that long)")
	cmd.Flags().IntVar(&f.options.Pairs, "pairs", 1, "number of pairs of source and sink at once, a thread each")
	cmd.Flags().IntSliceVar(&f.options.CPUs, "cpu", nil,
		"CPUs for the threads of the source, used in turn (default any)")
	cmd.Flags().Uint64Var(&f.options.Seed, "seed", 1, "seed of arrivals and sizes")
	cmd.Flags().BoolVar(&f.ipv4, "ipv4", false, "use IPv4 if a name has both")
	cmd.Flags().BoolVar(&f.ipv6, "ipv6", false, "use IPv6 if a name has both")
	cmd.Flags().StringVar(&f.token, "token", "", "`TEXT` that the sink was started with; @FILE reads it from a file")
	f.output.register(cmd)
	cmd.ValidArgsFunction = first(1, single(lib.ownChoices()))
	numbers(cmd, "interval", "cpu", "token")
	return cmd
}

// ownChoices are the workloads with the parameters of nettoll's own engine.
func (l library) ownChoices() []choice {
	var choices []choice
	for _, w := range l.catalogue.Workloads {
		d := w.Describe()
		choices = append(choices, choice{d.Name, d.Summary, d.Params})
	}
	return choices
}

// complement checks arguments and flags and completes the options.
func (f *sourceFlags) complement(lib library, of build, args []string) error {
	o := &f.options
	if experiment.IsMix(args[0]) {
		return usageError{errors.New("by hand, one workload runs at a time (start a source and a sink for each member " +
			"of a mix, or use nettoll run)")}
	}
	name, given, err := part.Parse("workload", args[0])
	if err != nil {
		return usageError{err}
	}
	if d, foreign := given["driver"]; foreign {
		return usageError{fmt.Errorf("driver=%s: by hand, only nettoll's own engine is available (start the program itself, "+
			"or use nettoll run)", d)}
	}
	for _, w := range lib.catalogue.Workloads {
		if w.Describe().Name == name {
			o.Workload = w
		}
	}
	if o.Workload == nil {
		return usageError{fmt.Errorf("unknown workload %q (known: %s)", name, strings.Join(lib.workloads(), ", "))}
	}
	if o.Params, err = o.Workload.Describe().Resolve(given); err != nil {
		return usageError{err}
	}
	if err := o.Workload.Describe().AcrossTrust(o.Params); err != nil {
		return usageError{err}
	}
	if o.Sink, err = endpoint(args[1]); err != nil {
		return usageError{err}
	}
	if o.Token, err = token(f.token); err != nil {
		return usageError{fmt.Errorf("--token: %w", err)}
	}
	if strings.HasPrefix(o.Sink, ":") || strings.HasSuffix(o.Sink, ":0") {
		return usageError{fmt.Errorf("invalid address of a sink %q (valid: values such as 10.0.0.2, 10.0.0.2:7000 or "+
			"[fd00::2]:7000)", args[1])}
	}
	if f.interval == 0 {
		f.interval = max(time.Second, min(o.Workload.Describe().Trial(o.Params), 10*time.Second))
	}
	switch {
	case f.ipv4 && f.ipv6:
		return usageError{errors.New("--ipv4 and --ipv6 exclude each other")}
	case f.interval < byhand.ShortestTrial || f.interval > byhand.LongestTrial:
		return usageError{fmt.Errorf("--interval %v: out of range (valid: %v to %v)", f.interval, byhand.ShortestTrial,
			byhand.LongestTrial)}
	case f.time <= 0:
		return usageError{fmt.Errorf("--time %v: out of range (valid: more than 0)", f.time)}
	case o.Pairs < 1 || o.Pairs > byhand.MostPairs:
		return usageError{fmt.Errorf("--pairs %d: out of range (valid: 1 to %d)", o.Pairs, byhand.MostPairs)}
	}
	o.Network = "tcp"
	if f.ipv4 {
		o.Network = "tcp4"
	} else if f.ipv6 {
		o.Network = "tcp6"
	}
	o.Length = min(f.interval, max(f.time, byhand.ShortestTrial))
	o.Trials = int((f.time + o.Length - 1) / o.Length)
	o.Version = of.versionText()
	return onCPUs(o.CPUs)
}

func (f *sourceFlags) byHand(ctx context.Context, std Streams, format string) error {
	t := &byHandTable{
		Streams: std, known: f.options.Workload.Describe().Vocabulary(),
		primary: byhand.Primary(f.options.Workload, f.options.Params),
	}
	f.options.Begun, f.options.Interval = t.begin, t.interval
	f.options.Waiting = func(before int) {
		fmt.Fprintf(std.Err, "nettoll: waiting for %s\n", several(before, "other source"))
	}
	if format != "text" {
		f.options.Begun, f.options.Interval = func(byhand.Session) {}, func(byhand.Interval) {}
	}
	r, err := byhand.Source(ctx, f.options)
	interrupted := ctx.Err() != nil
	if r == nil {
		if interrupted {
			fmt.Fprintln(std.Err, "nettoll: nothing was measured yet")
			return status(exitInterrupted)
		}
		return err
	}
	failed := 0
	for _, in := range r.Intervals {
		if in.Failure != "" {
			failed++
		}
	}
	if err == nil && failed == len(r.Intervals) {
		err = fmt.Errorf("no usable interval: %s", r.Intervals[0].Failure)
	}
	if format != "text" {
		out := byHandResult{Result: r}
		if r.Warnings == nil {
			r.Warnings = []string{}
		}
		if err != nil {
			out.Error = err.Error()
		}
		if err := out.write(std.Out, format); err != nil {
			return err
		}
	} else {
		t.end(r)
	}
	switch {
	case interrupted:
		return status(exitInterrupted)
	case err != nil:
		return err
	case failed > 0:
		return status(exitPartly)
	}
	return nil
}

// byHandResult is what json and jsonl print.
type byHandResult struct {
	*byhand.Result
	Error string `json:"error,omitempty"`
}

func (r byHandResult) write(w io.Writer, format string) error {
	if format == "json" {
		return writeJSON(w, r)
	}
	s := sheet{columns: []string{"interval", "start", "duration", "metric", "value", "failure"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	end := 0.0
	for i, in := range r.Intervals {
		s.objects = append(s.objects, line{"interval", in})
		at := []string{strconv.Itoa(i + 1), number(in.Start), number(in.Duration)}
		end = in.Start + in.Duration
		if in.Failure != "" {
			s.rows = append(s.rows, append(at, "", "", in.Failure))
		}
		for _, name := range slices.Sorted(maps.Keys(in.Metrics)) {
			s.rows = append(s.rows, append(slices.Clone(at), name, number(in.Metrics[name]), ""))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		s.rows = append(s.rows, []string{"", "0", number(end), name, number(r.Metrics[name]), ""})
	}
	s.objects = append(s.objects, line{"source", struct {
		byHandResult
		Intervals int `json:"intervals"` // number of intervals
	}{r, len(r.Intervals)}})
	return s.write(w, format)
}

// byHandTable prints results for people: a line for each interval, and one for all of them.
type byHandTable struct {
	Streams
	known   measure.Vocabulary // the metrics of the workload
	primary string
	columns []measure.Metric
	widths  []int
}

// spanWidth fits "3599.0–3600.0 s".
const spanWidth = 16

func (t *byHandTable) begin(s byhand.Session) {
	w := t.Out
	fmt.Fprintf(w, "%s  %s → %s", s.Workload, s.Source, s.Sink)
	if s.Pairs > 1 {
		fmt.Fprintf(w, "  %d pairs", s.Pairs)
	}
	if s.RoundTrip > 0 {
		fmt.Fprintf(w, "  (TCP round trip %s)", report.Number(s.RoundTrip, measure.UnitSecond))
	}
	if s.Granted.Congestion != "" {
		fmt.Fprintf(w, "  %s", s.Granted.Congestion)
	}
	if s.Granted.MSS > 0 {
		fmt.Fprintf(w, ", MSS %d", s.Granted.MSS)
	}
	fmt.Fprintln(w)
	if v := s.Versions; v["sink"] != "" && v["sink"] != v["source"] {
		fmt.Fprintf(t.Err, "nettoll: this source is nettoll %s, and the sink %s\n", v["source"], v["sink"])
	}
}

// choose chooses the columns from the metrics of an interval: the primary metric and those that explain it.
func (t *byHandTable) choose(in byhand.Interval) {
	_, latency := in.Metrics["latency_mean"]
	wanted := []string{
		"goodput", "goodput_forward", "goodput_reverse", "packet_rate", "transaction_rate",
		"connection_rate", "connect_latency_p50",
	}
	durations := []string{"latency_p50", "latency_p99", "latency_max"}
	if strings.HasPrefix(t.primary, "latency") {
		wanted = slices.Concat([]string{t.primary}, durations, wanted)
	} else {
		wanted = slices.Concat([]string{t.primary}, wanted, durations)
	}
	wanted = append(wanted, "loss", "retransmits", "cpu_source", "cpu_sink")
	fmt.Fprintf(t.Out, "%-*s", spanWidth, "")
	for i, name := range wanted {
		_, has := in.Metrics[name]
		has = has || i == 0 || latency && slices.Contains(durations, name) // later intervals may have more samples
		if !has || i > 0 && name == t.primary {
			continue
		}
		m, _ := t.known.Lookup(name)
		head := report.Label(m)
		t.columns, t.widths = append(t.columns, m), append(t.widths, max(len(head), columnWidth))
		fmt.Fprintf(t.Out, "  %*s", t.widths[len(t.widths)-1], head)
	}
	fmt.Fprintln(t.Out)
}

// columnWidth fits "999 kpacket/s".
const columnWidth = 13

func (t *byHandTable) interval(in byhand.Interval) {
	if in.Failure != "" {
		fmt.Fprintf(t.Out, "%s  failed: %s\n", span(in.Start, in.Start+in.Duration), in.Failure)
		return
	}
	if t.columns == nil {
		t.choose(in)
	}
	t.line(span(in.Start, in.Start+in.Duration), in.Metrics)
}

func span(from, to float64) string {
	return fmt.Sprintf("%*s", spanWidth, fmt.Sprintf("%.1f–%.1f s", from, to))
}

func (t *byHandTable) line(head string, metrics map[string]float64) {
	fmt.Fprint(t.Out, head)
	for i, m := range t.columns {
		value := "–"
		if v, ok := metrics[m.Name]; ok {
			value = report.Number(v, m.Unit)
		}
		fmt.Fprintf(t.Out, "  %*s", t.widths[i], value)
	}
	fmt.Fprintln(t.Out)
}

// end prints the results of all intervals, the limit and the warnings.
func (t *byHandTable) end(r *byhand.Result) {
	w := t.Out
	if t.columns != nil {
		width := spanWidth
		for _, n := range t.widths {
			width += 2 + n
		}
		fmt.Fprintln(w, strings.Repeat("─", width))
		last := r.Intervals[len(r.Intervals)-1]
		t.line(span(0, last.Start+last.Duration), r.Metrics)
		fmt.Fprintln(w)
		t.rest(r)
	}
	if r.Limit != "" {
		fmt.Fprintf(w, "limited by the %s\n", limited(r.Limit))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "! %s\n", warning)
	}
}

// rest prints the metrics that have no column.
func (t *byHandTable) rest(r *byhand.Result) {
	var list []string
	for _, m := range t.known.All() {
		v, has := r.Metrics[m.Name]
		shown := false
		for _, c := range t.columns {
			shown = shown || c.Name == m.Name
		}
		if has && !shown {
			list = append(list, report.Label(m)+" "+report.Number(v, m.Unit))
		}
	}
	const width = 100 // as the default of text reports
	line := ""
	for _, one := range list {
		switch {
		case line == "":
			line = one
		case utf8.RuneCountInString(line)+utf8.RuneCountInString(one) > width-3:
			fmt.Fprintln(t.Out, line)
			line = one
		default:
			line += " · " + one
		}
	}
	if line != "" {
		fmt.Fprintln(t.Out, line)
	}
}

// limited names the limit in words.
func limited(by workload.Limit) string {
	switch by {
	case workload.BySender:
		return "sender: the sink waited, and nothing was lost"
	case workload.ByPath:
		return "path"
	case workload.ByReceiver:
		return "receiver: the sink never had to wait"
	}
	return string(by)
}

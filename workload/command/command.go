package command

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
	"github.com/nettoll/nettoll/workload"
)

// Workload is the workload command.
type Workload struct {
	// metrics that a figure can be; nil stands for those that all workloads share, and its own. It is a pointer because
	// workloads can be compared.
	declared *func() measure.Vocabulary
}

var (
	_ workload.Workload = Workload{}
	_ workload.Reporter = Workload{}
)

// Reporting implements [workload.Reporter].
func (Workload) Reporting(declared func() measure.Vocabulary) workload.Workload {
	return Workload{declared: &declared}
}

// known returns the metrics that a figure can be, and others.
func (w Workload) known() measure.Vocabulary {
	if w.declared != nil {
		return (*w.declared)()
	}
	return workload.Description{Declares: own()}.Vocabulary()
}

// own declares the metric that no other workload has.
func own() []measure.Metric {
	return []measure.Metric{{
		Name: "memory", Unit: measure.UnitByte, Better: measure.LowerBetter, Kind: measure.KindMemory, Order: 650,
		Summary: "memory that a program reports",
	}}
}

const (
	// Limits of the time that programs take to start and to end, in addition to their traffic.
	leastOverhead, overhead, mostOverhead = 100 * time.Millisecond, time.Second, 30 * time.Second

	shortest, longest = time.Second + leastOverhead, time.Minute // of a trial

	// Limits of the time until a sink's command is ready: the other threads of its trial wait no longer
	// (traffic/program).
	fastest, slowest = time.Millisecond, 700 * time.Millisecond

	longestName = 40 // characters
)

// auto is the name that is derived from the command, and the unit of the metric.
const auto = "auto"

// The defaults are an example that works on any machine.
const (
	pings      = "ping -n -i 0.01 -w {seconds} {remote}"
	pingFigure = `regexp:= [0-9.]+/(?P<number>[0-9.]+)/[0-9./]+ (?P<unit>[a-z]+)`
)

// Describe implements [workload.Workload].
func (w Workload) Describe() workload.Description {
	names, means := w.figures()
	return workload.Description{
		Name:       "command",
		Summary:    "any pair of commands; the figure is read from the output of one by JSON path or regular expression",
		Reproduces: "any program; by default the mean round trip of ping (iputils), one request every 10 ms",
		Primary:    func(p part.Params) string { return p["metric"] },
		Trial:      trial,
		Why: "programs count whole seconds and take time to start and end: one second each. Longer trials show less of a " +
			"program's start-up",
		Whole: true,
		Spins: func(part.Params) bool { return false },
		Params: part.List{
			{Name: "name", Default: auto, Summary: "name in ids and tables; auto: the source's program", Check: name},
			{
				Name: "metric", Default: "latency_mean", Summary: "what the figure is: " + strings.Join(families(names), ", "),
				Values: names,
			},
			{Name: "source", Default: pings, Long: true, Summary: "the source's command; {local}, {remote}, {port}, {seconds} " +
				"and {pair} are replaced by this end's address, the other end's, the sink's port, the whole seconds it has, and " +
				"the number of the pair"},
			{
				Name: "sink", Long: true,
				Summary: "the sink's command, started first; none: no program, at most the kernel answers",
			},
			{
				Name: "shell", Default: "false", Long: true, Summary: "true: sh -c runs the commands; false: words are split at " +
					"spaces and quotes are honoured, as in a shell, but nothing is expanded",
				Values: []string{"true", "false"},
			},
			{Name: "figure", Default: pingFigure, Long: true, Check: figureCheck, Summary: "position of the number in the " +
				"output: json:PATH, such as json:end.sum_received.bits_per_second or json:runs[-1]['p 99'] (singular queries of " +
				"RFC 9535); or regexp:RE: in its last match the group named number, or the only group, is the number, and a " +
				"group named unit is its unit"},
			{
				Name: "unit", Default: auto, Long: true,
				Summary: "unit of the number, such as ms, Mbit/s or MiB/s; auto: the base unit of the metric",
			},
			{
				Name: "output", Default: "source", Long: true, Summary: "end whose standard output is read",
				Values: []string{string(workload.Source), string(workload.Sink)},
			},
			{Name: "ready", Default: "tcp", Quiet: true, Summary: "when the sink is ready: tcp or udp: as soon as it has such " +
				"a socket at {port}; or a time after its start, 1ms to 700ms", Check: ready},
			{
				Name: "overhead", Default: overhead.String(), Quiet: true,
				Summary: "time that the source's command takes to start and to end, in addition to {seconds}, 100ms to 30s",
				Check:   part.DurationBetween(leastOverhead, mostOverhead),
			},
			{Name: "time", Default: auto, Quiet: true, Summary: "length of a trial, 1.1s to 1m; {seconds} is this without the " +
				"overhead; auto: the overhead and one second", Check: length},
		},
		Derive:   derive,
		Refuse:   w.refuse,
		Programs: programs,
		ByHand: func(part.Params) error {
			return errors.New("it starts any program, and by hand neither end trusts the other")
		},
		Declares: own(),
		Metrics:  slices.Concat(names, means, workload.CPUMetrics()),
	}
}

// figures returns the metrics that a figure can be. They are compared by ratio, as the metric that governs a run must
// be. They are not CPU time, which is always measured. Means are those of rates that are sums over pairs.
func (w Workload) figures() (names, means []string) {
	for _, m := range w.known().All() {
		switch {
		case m.Differs() || m.Better == measure.Neither || m.Kind == measure.KindCPU:
		case strings.HasSuffix(m.Name, "_per_pair"):
			means = append(means, m.Name)
		default:
			names = append(names, m.Name)
		}
	}
	return names, means
}

// families shortens a list of metrics for people: for the percentiles of a latency, it names the mean, which comes
// before them.
func families(names []string) []string {
	var list []string
	for _, n := range names {
		if before, _, ok := strings.Cut(n, "_p"); ok && slices.Contains(list, before+"_mean") {
			continue
		}
		list = append(list, n)
	}
	return list
}

func name(s string) (string, error) {
	if s == "" || plain(s) != s {
		return "", fmt.Errorf("invalid name %q (valid: letters, digits, dots, hyphens and underscores, at most %d)", s,
			longestName)
	}
	return s, nil
}

// plain returns the characters of a text that are valid in an id, up to a length.
func plain(s string) string {
	end := strings.IndexFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	})
	if end < 0 {
		end = len(s)
	}
	return s[:min(end, longestName)]
}

// derive names a command without a name after its program.
func derive(p part.Params) {
	if p["name"] != auto {
		return
	}
	p["name"] = "command"
	if words := strings.Fields(p["source"]); len(words) > 0 {
		if n := plain(path.Base(words[0])); n != "" && n != "." {
			p["name"] = n
		}
	}
}

// trial returns the length of a trial; the default is one second more than the overhead.
func trial(p part.Params) time.Duration {
	if d := p.Duration("time"); d > 0 {
		return d
	}
	return time.Second + p.Duration("overhead")
}

func length(s string) (string, error) {
	if s == auto {
		return s, nil
	}
	v, err := part.DurationBetween(shortest, longest)(s)
	if err != nil {
		return "", fmt.Errorf("%w, or %s", err, auto)
	}
	return v, nil
}

func ready(s string) (string, error) {
	if s == "tcp" || s == "udp" {
		return s, nil
	}
	v, err := part.DurationBetween(fastest, slowest)(s)
	if err != nil {
		return "", fmt.Errorf("%w, or tcp or udp", err)
	}
	return v, nil
}

func (w Workload) refuse(p part.Params) error {
	for _, side := range []string{"source", "sink"} {
		if _, err := parse(p, side); err != nil {
			return fmt.Errorf("%s: %w", side, err)
		}
	}
	f, err := parseFigure(p["figure"])
	if err != nil {
		return fmt.Errorf("figure: %w", err)
	}
	if p["unit"] != auto {
		m, _ := w.known().Lookup(p["metric"])
		if _, err := unitFactor(m, p["unit"]); err != nil {
			return fmt.Errorf("unit: %w", err)
		}
	}
	switch {
	case trial(p) < time.Second+p.Duration("overhead"):
		return fmt.Errorf("time=%s: an overhead of %s leaves less than one second for {seconds}", p["time"], p["overhead"])
	case strings.TrimSpace(p["source"]) == "":
		return errors.New("source: no command is given")
	case strings.TrimSpace(p["sink"]) == "" && p["output"] == string(workload.Sink):
		return errors.New("output=sink: the sink has no command")
	case p["figure"] == pingFigure && !strings.HasPrefix(strings.TrimSpace(p["source"]), "ping "):
		return errors.New("figure is missing; its default only fits the default command (valid: json:PATH or regexp:RE)")
	case p["unit"] != auto && f.unit > 0:
		return fmt.Errorf("unit=%s conflicts with the group named unit in the regular expression", p["unit"])
	}
	return nil
}

// programs returns the program with which the command of a side begins.
func programs(p part.Params, side workload.Side) []program.Needed {
	c, err := parse(p, string(side))
	if err != nil || len(c.words) == 0 {
		return nil
	}
	return []program.Needed{{By: "command " + p["name"], Program: c.words[0], Unasked: true}}
}

// Open implements [workload.Workload].
func (w Workload) Open(s workload.Spec) (traffic.Endpoint, error) {
	c, err := parse(s.Params, string(s.Side))
	if err != nil {
		return nil, fmt.Errorf("open command: %s: %w", s.Side, err)
	}
	granted, err := sock.Grants(s.Local.Addr(), false, sock.Options{})
	if err != nil {
		return nil, err
	}
	r := program.Role{
		By:     "command " + s.Params["name"],
		Called: fmt.Sprintf("the %s's command (%s)", s.Side, s.Params["name"]), Local: s.Local, Granted: granted,
	}
	if s.Side == workload.Sink && len(c.words) == 0 {
		return r.Open()
	}
	r.Program, r.End, r.Lifelong = c.words[0], s.Params.Duration("overhead"), true
	at := places{local: s.Local.Addr(), remote: s.Remote.Addr(), port: s.Remote.Port(), pair: s.Pair}
	if s.Side == workload.Sink {
		at.port = s.Local.Port()
		r.Stop, r.Listens = program.Asked, s.Params["ready"]
		if r.Settle = s.Params.Duration("ready"); r.Settle > 0 {
			r.Listens = ""
		}
	}
	r.Args = func(seconds int) []string {
		at.seconds = seconds
		return c.fill(at)[1:]
	}
	if s.Params["output"] == string(s.Side) {
		f, err := parseFigure(s.Params["figure"])
		if err != nil {
			return nil, fmt.Errorf("open command: figure: %w", err)
		}
		m, _ := w.known().Lookup(s.Params["metric"])
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			x, err := f.find(said.Stdout, m, s.Params["unit"])
			sample.Foreign.Figure = x
			lasted(said, sample)
			return err
		}
	} else if s.Side == workload.Source {
		r.Read = func(said program.Said, sample *traffic.Sample, _ *traffic.Recorder) error {
			lasted(said, sample)
			return nil
		}
	}
	return r.Open()
}

// lasted sets how long traffic flowed, if it is known.
func lasted(said program.Said, s *traffic.Sample) {
	s.Window = int64(said.Seconds) * int64(time.Second)
	s.Span = s.Window
}

// Metrics implements [workload.Workload].
func (w Workload) Metrics(t workload.Trial) workload.Result {
	r := workload.Result{Metrics: map[string]float64{}, PerPair: map[string][]float64{}, Warnings: t.Doubts()}
	t.PutCPU(r.Metrics)
	name := t.Params["metric"]
	known := w.known()
	m, _ := known.Lookup(name)
	told := t.Sources
	if t.Params["output"] == string(workload.Sink) {
		told = t.Sinks
	}
	list, sum := make([]float64, len(told)), 0.0
	for i, s := range told {
		list[i] = s.Foreign.Figure
		sum += list[i]
	}
	mean := sum / float64(len(list))
	r.Metrics[name] = mean
	switch m.Kind {
	case measure.KindRate, measure.KindMemory:
		r.Metrics[name] = sum
	case measure.KindMax:
		r.Metrics[name] = slices.Max(list)
	}
	if len(list) > 1 {
		r.PerPair[name] = list
		if _, declared := known.Lookup(name + "_per_pair"); declared {
			r.Metrics[name+"_per_pair"] = mean
		}
	}
	return r
}

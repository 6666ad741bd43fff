package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/suite"
)

// experimentFlags are the flags of commands that take an experiment. Each flag changes a value of the file, so that one
// place checks and explains values.
type experimentFlags struct {
	parts      []*partsFlag
	workloads  []string
	placements []string
	pairs      string
	lists      []*listFlag
	values     []*valueFlag
	set        []string
	more       []experiment.Setting // changes by flags of a single command
	paper      suite.Choice         // which figures, tables and claims of a paper are measured
}

// partsFlag is a flag for the factor of one kind.
type partsFlag struct {
	kind  string
	usual string // the part of a stack that names none; "" if every stack names one
	given []string
}

// valueFlag is a flag for one value of the file.
type valueFlag struct {
	name, path, value string
}

// listFlag is a flag for a factor, with values separated by commas.
type listFlag struct {
	name, path string
	given      []string
}

// listFlag registers a [listFlag].
func (f *experimentFlags) listFlag(flags *pflag.FlagSet, name, path, usage string) {
	one := &listFlag{name: name, path: path}
	flags.StringSliceVar(&one.given, name, nil, usage)
	f.lists = append(f.lists, one)
}

func (f *experimentFlags) register(flags *pflag.FlagSet, l library) {
	for _, kind := range l.catalogue.Kinds {
		d := kind.Describe()
		if len(stack.Choices(kind)) < 2 {
			continue // nothing to choose from
		}
		one := &partsFlag{kind: d.Name, usual: d.Default}
		usage := d.Plural + " to compare with the baseline, separated by commas; NAME, NAME(parameter=value,…) or " +
			"NAME(parameter=[value,value]) (known: "
		if d.Default != "" {
			usage = d.Plural + " on each of the " + l.catalogue.Kinds[0].Describe().Plural + ", and " + d.Default +
				" beside them, separated by commas; NAME, NAME(parameter=value,…) or NAME(parameter=[value,value]) (known: "
		}
		flags.StringArrayVar(&one.given, d.Name, nil, usage+strings.Join(stack.Names(kind), ", ")+")")
		f.parts = append(f.parts, one)
	}
	flags.StringArrayVar(&f.workloads, "workload", nil, "workloads, separated by commas; NAME, NAME(parameter=value,…) "+
		"or NAME(parameter=[value,value]), or several at once as mix(NAME*share,NAME(…)*share,…); may be given more than "+
		"once (known: "+strings.Join(l.workloads(), ", ")+")")
	flags.StringSliceVar(&f.placements, "placement", nil, "placement of the two ends of a pair: same-host, cross-host")
	flags.StringVar(&f.pairs, "pairs", "",
		"number of pairs that communicate at the same time; with a list such as 1,10 each number is measured")
	f.listFlag(flags, "mtu", "factors.mtu", "MTU of every link in bytes, loopback included; with a list such as "+
		"1500,9000 each stack is measured with each, and the first is the baseline's")
	f.listFlag(flags, "attacks", "proof.attacks", "attacks on each lab after its last proof, separated by commas: all, "+
		"inside, wire, none, or names that nettoll list attacks explains (default: none; nettoll prove makes them "+
		"without measuring)")
	f.listFlag(flags, "congestion-control", "factors.congestion-control", "TCP congestion control: auto (the first of "+
		"cubic, reno, bbr that all cells can set), cubic, reno, bbr; with a list such as cubic,bbr each stack is measured "+
		"with each, and the first is the baseline's")
	for _, v := range []struct{ name, path, usage string }{
		{
			"baseline", "baseline", "stack that the others are compared with, as cells name it, such as bridge or " +
				"'bridge+nftables(rules=10)' (default: that of the experiment, or no container network; with a single network " +
				"and filters, MTUs or congestion controls to compare, that network without them)",
		},
		{"time", "design.time", "maximum measuring time, such as 30s; building and removing are not included"},
		{"precision", "design.precision", "stop measuring a cell when its 95 % interval has this half-width, such as 2%"},
		{"until", "design.until", "when a cell gives its time to the others: precise (its interval has --precision), " +
			"decided (that, or its verdict is decided; in a suite, every claim that needs it); the run ends when none is left"},
		{"margin", "design.margin", "change within which two stacks count as equal, such as 5%; default: 5%, or twice the " +
			"precision if that is more"},
		{"spoiled", "design.spoiled", "set blocks aside in which other programs had the CPU of a measuring thread for more " +
			"than this share of a trial, such as 5%; 0: keep all"},
		{"proof-budget", "proof.budget", "share of the measuring time for trying who reaches whom, such as 5%; 0: do not"},
		{"generations", "design.generations", "minimum number of times that everything is rebuilt"},
		{"trial", "design.trial", "length of a trial, such as 100ms; auto: the shortest sound length for each workload"},
		{"seed", "design.seed", "seed of the order, the ports and the MAC addresses"},
		{
			"probe", "design.probe",
			"also measure every cell with a probe, in separate trials, and report what the probe costs: " + l.probes() +
				"none",
		},
		{"affinity", "factors.affinity", "CPUs that sources and sinks run on: split, same, free"},
		{"idle", "factors.idle", "how CPUs wait for work during trials: auto, awake, deep (they sleep); auto: awake if the " +
			"machine allows it"},
	} {
		one := &valueFlag{name: v.name, path: v.path}
		flags.StringVar(&one.value, v.name, "", v.usage)
		f.values = append(f.values, one)
	}
	flags.StringArrayVar(&f.set, "set", nil, "KEY=VALUE: change any value of the experiment, such as "+
		"factors.pairs=[1,10] or workloads.0.udp-rr.payload=1KiB; may be given more than once")
}

// settings returns the changes of the file that the given flags stand for.
func (f *experimentFlags) settings(flags *pflag.FlagSet) ([]experiment.Setting, error) {
	var list []experiment.Setting
	add := func(flag, path, value string) {
		list = append(list, experiment.Setting{Flag: "--" + flag, Path: path, Value: value})
	}
	for _, crossed := range f.parts {
		if !flags.Changed(crossed.kind) {
			continue
		}
		var names []string
		for _, given := range crossed.given {
			for _, one := range part.Split(given) {
				text, err := experiment.Flow(crossed.kind, one)
				if err != nil {
					return nil, fmt.Errorf("--%s: %w", crossed.kind, err)
				}
				names = append(names, text)
			}
		}
		if usual := strconv.Quote(crossed.usual); crossed.usual != "" && !slices.Contains(names, usual) {
			names = slices.Insert(names, 0, usual) // to compare the others with
		}
		add(crossed.kind, "factors."+crossed.kind, "["+strings.Join(names, ", ")+"]")
	}
	if flags.Changed("workload") {
		var all []string
		for _, given := range f.workloads {
			for _, one := range part.Split(given) {
				text, err := experiment.FlowLoad(one)
				if err != nil {
					return nil, fmt.Errorf("--workload: %w", err)
				}
				all = append(all, text)
			}
		}
		add("workload", "workloads", "["+strings.Join(all, ", ")+"]")
	}
	if flags.Changed("placement") {
		add("placement", "factors.placement", "["+quoted(f.placements)+"]")
	}
	if flags.Changed("pairs") {
		add("pairs", "factors.pairs", "["+quoted(strings.Split(f.pairs, ","))+"]")
	}
	for _, l := range f.lists {
		if flags.Changed(l.name) {
			add(l.name, l.path, "["+quoted(l.given)+"]")
		}
	}
	for _, v := range f.values {
		if flags.Changed(v.name) {
			add(v.name, v.path, strconv.Quote(v.value))
		}
	}
	for _, s := range f.set {
		path, value, ok := strings.Cut(s, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("invalid --set %q (valid: KEY=VALUE, such as design.time=30s)", s)
		}
		add("set", path, value)
	}
	return append(list, f.more...), nil
}

func quoted(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = strconv.Quote(strings.TrimSpace(s))
	}
	return strings.Join(q, ", ")
}

// experiments reads experiments from files, from standard input, or from those that are part of nettoll.
type experiments struct {
	library
	in io.Reader
	// anywhere says that hosts may be nodes of a cluster.
	anywhere bool
	// cpus, if not nil, returns how many CPUs the hosts of an experiment have; nil: as many as this machine.
	cpus func(e experiment.Experiment) (int, error)
}

// resolve reads the experiment that the argument names (the default one if there is no argument), changes it by the
// flags, and expands it for this machine.
func (x experiments) resolve(cmd *cobra.Command, args []string, f *experimentFlags) (*experiment.Resolved, error) {
	settings, err := f.settings(cmd.Flags())
	if err != nil {
		return nil, usageError{err}
	}
	name, text, err := x.source(args)
	if err != nil {
		return nil, err
	}
	e, err := experiment.Read(name, text, settings, x.catalogue.Parts())
	if err != nil {
		return nil, usageError{err}
	}
	if !x.anywhere {
		if err := onlyHere(e, cmd.CommandPath()); err != nil {
			return nil, err
		}
	}
	paper, err := x.suiteOf(args)
	if err == nil && paper != nil {
		e.Suite = paper.Name
	}
	if paper == nil && !f.paper.Empty() {
		return nil, usageError{fmt.Errorf("--figure, --table and --claim need a suite (valid: suite:NAME, such as "+
			"%s%s; suites: %s)", suite.Prefix, suite.Names()[0], strings.Join(suite.Names(), ", "))}
	}
	count := x.cpus
	if count == nil {
		count = cpusHere
	}
	cpus, err := count(e)
	if err != nil {
		return nil, err
	}
	resolved, err := experiment.Resolve(e, x.catalogue.Parts(), cpus)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	if paper == nil {
		return resolved, nil
	}
	return x.narrow(paper, resolved, f.paper)
}

// cpusHere is how many CPUs this machine has for workers.
func cpusHere(experiment.Experiment) (int, error) {
	cpus, err := thread.CPUs()
	return len(cpus), err
}

// onlyHere refuses an experiment on a cluster for what needs hosts of this machine.
func onlyHere(e experiment.Experiment, what string) error {
	if e.Clusters == nil {
		return nil
	}
	return usageError{fmt.Errorf("%s needs hosts of this machine, and those of the experiment are nodes of a cluster "+
		"(hint: without kind: kubernetes in hosts)", what)}
}

// source returns the name of an experiment in errors, and its text.
func (x experiments) source(args []string) (string, []byte, error) {
	if len(args) == 0 {
		e, err := experiment.FindExample(experiment.DefaultExample)
		return "the default experiment", e.Text, err
	}
	if s, err := x.suiteOf(args); err != nil || s != nil {
		if err != nil {
			return "", nil, err
		}
		return args[0], s.Experiment, nil
	}
	if args[0] == "-" {
		text, err := io.ReadAll(io.LimitReader(x.in, experiment.MaxSize+1))
		if err != nil {
			return "", nil, fmt.Errorf("read experiment from standard input: %w", err)
		}
		return "standard input", text, nil
	}
	// Opening or reading anything but a file could block forever.
	if info, err := os.Stat(args[0]); err == nil && !info.Mode().IsRegular() && !handed(args[0], info.Mode()) {
		return "", nil, usageError{
			fmt.Errorf("read experiment: %q is %s, not a file (hint: - reads standard input)", args[0], kindOf(info.Mode())),
		}
	}
	f, err := os.Open(args[0])
	if err != nil {
		return "", nil, usageError{fmt.Errorf("read experiment: %w%s", err, hint(args[0], err))}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, experiment.MaxSize+1))
	if err != nil {
		return "", nil, usageError{fmt.Errorf("read experiment: %w", err)}
	}
	if info, err := f.Stat(); err == nil && len(text) > experiment.MaxSize {
		return "", nil, usageError{experiment.TooLarge(args[0], max(info.Size(), int64(len(text))))}
	}
	return args[0], text, nil
}

// handed reports whether a path is a pipe that nettoll was started with: /dev/stdin, or the path that a shell passes
// for <(command). Another process has its other end.
func handed(path string, m fs.FileMode) bool {
	dir := filepath.Dir(path)
	return m&fs.ModeNamedPipe != 0 && (path == "/dev/stdin" || dir == "/dev/fd" || dir == "/proc/self/fd")
}

// kindOf names the type of a file that is not a regular one.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// hint returns what the user may have meant if the file does not exist.
func hint(name string, err error) string {
	if !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if _, err := experiment.FindExample(name); err == nil {
		return fmt.Sprintf(" (%s is an example: nettoll init %s writes it to a file)", name, name)
	}
	if slices.Contains(suite.Names(), name) {
		return fmt.Sprintf(" (%s is a suite: nettoll run %s%s)", name, suite.Prefix, name)
	}
	return " (give a file, or none for the default experiment; nettoll init writes a file to start from)"
}

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

// experimentFlags are the flags of commands that take an experiment. Each changes a value of the file, so that what
// they say is checked and explained in one place.
type experimentFlags struct {
	parts      []*partsFlag
	workloads  []string
	placements []string
	pairs      string
	values     []*valueFlag
	set        []string
	more       []experiment.Setting // by flags of one command alone
}

// partsFlag is a flag that stands for the factor of one kind.
type partsFlag struct {
	kind  string
	given []string
}

// valueFlag is a flag that stands for one value of the file.
type valueFlag struct {
	name, path, value string
}

func (f *experimentFlags) register(flags *pflag.FlagSet, l library) {
	for _, kind := range l.catalogue.Kinds {
		d := kind.Describe()
		if len(stack.Choices(kind)) < 2 {
			continue // there is nothing to choose
		}
		one := &partsFlag{kind: d.Name}
		usage := d.Plural + " to compare with the baseline, separated by commas; NAME or NAME(parameter=value,…) " +
			"(known: "
		if d.Default != "" {
			usage = d.Plural + " on each of the " + l.catalogue.Kinds[0].Describe().Plural + ", separated by commas; " +
				d.Default +
				", NAME or NAME(parameter=value,…) (known: "
		}
		flags.StringArrayVar(&one.given, d.Name, nil, usage+strings.Join(stack.Names(kind), ", ")+")")
		f.parts = append(f.parts, one)
	}
	flags.StringArrayVar(&f.workloads, "workload", nil, "workload, as NAME or NAME(parameter=value,…), or several at "+
		"once as mix(NAME*share,NAME(…)*share,…); may be given more than once (known: "+strings.Join(l.workloads(), ", ")+")")
	flags.StringSliceVar(&f.placements, "placement", nil, "placement of the two ends of a pair: same-host, cross-host")
	flags.StringVar(&f.pairs, "pairs", "",
		"number of pairs that communicate at the same time; with a list such as 1,10 each number is measured")
	for _, v := range []struct{ name, path, usage string }{
		{"time", "design.time", "maximum measuring time, such as 30s; building and removing are not included"},
		{"precision", "design.precision", "stop measuring a cell when its 95 % interval has this half-width, such as 2%"},
		{"generations", "design.generations", "minimum number of times that everything is rebuilt"},
		{"trial", "design.trial", "length of a trial, such as 100ms; auto: the shortest sound length for each workload"},
		{"seed", "design.seed", "seed of the order, the ports and the MAC addresses"},
		{
			"probe", "design.probe",
			"also measure every cell with a probe, in separate trials, and report what the probe costs: " + l.probes() +
				"none",
		},
		{"affinity", "factors.affinity", "CPUs that sources and sinks run on: split, same, free"},
		{
			"congestion-control", "tune.congestion-control",
			"TCP congestion control of all cells; auto: the first of cubic, reno, bbr that all can set",
		},
		{"mtu", "tune.mtu", "MTU of every link in bytes, loopback included"},
	} {
		one := &valueFlag{name: v.name, path: v.path}
		flags.StringVar(&one.value, v.name, "", v.usage)
		f.values = append(f.values, one)
	}
	flags.StringArrayVar(&f.set, "set", nil, "KEY=VALUE: change any value of the experiment, such as "+
		"factors.pairs=[1,10] or workloads.0.udp-rr.payload=1KiB; may be given more than once")
}

// settings turns the flags that were given into changes of the file.
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
				text, err := flow(crossed.kind, one)
				if err != nil {
					return nil, fmt.Errorf("--%s: %w", crossed.kind, err)
				}
				names = append(names, text)
			}
		}
		add(crossed.kind, "factors."+crossed.kind, "["+strings.Join(names, ", ")+"]")
	}
	if flags.Changed("workload") {
		var all []string
		for _, given := range f.workloads {
			text, err := flowLoad(given)
			if err != nil {
				return nil, fmt.Errorf("--workload: %w", err)
			}
			all = append(all, text)
		}
		add("workload", "workloads", "["+strings.Join(all, ", ")+"]")
	}
	if flags.Changed("placement") {
		add("placement", "factors.placement", "["+quoted(f.placements)+"]")
	}
	if flags.Changed("pairs") {
		add("pairs", "factors.pairs", "["+quoted(strings.Split(f.pairs, ","))+"]")
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

// flow writes NAME(parameter=value) as YAML.
func flow(kind, s string) (string, error) {
	name, given, err := part.Parse(kind, strings.TrimSpace(s))
	if err != nil || len(given) == 0 {
		return strconv.Quote(name), err
	}
	return "{" + flowPart(name, given) + "}", nil
}

// flowLoad writes a workload as YAML, or a mix of several.
func flowLoad(s string) (string, error) {
	s = strings.TrimSpace(s)
	if !experiment.IsMix(s) {
		return flow("workload", s)
	}
	l, err := experiment.ParseLoad(s)
	if err != nil {
		return "", err
	}
	var members []string
	for _, m := range l.Mix {
		members = append(members, fmt.Sprintf("{%s, share: %d}", flowPart(m.Name, m.Params), m.Share))
	}
	return "{mix: [" + strings.Join(members, ", ") + "]}", nil
}

func flowPart(name string, given map[string]string) string {
	var inside []string
	for k, v := range given {
		inside = append(inside, strconv.Quote(k)+": "+strconv.Quote(v))
	}
	slices.Sort(inside)
	return strconv.Quote(name) + ": {" + strings.Join(inside, ", ") + "}"
}

func quoted(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = strconv.Quote(strings.TrimSpace(s))
	}
	return strings.Join(q, ", ")
}

// experiments are what can be measured: read from files, from standard input, or from what comes with nettoll.
type experiments struct {
	library
	in io.Reader
}

// resolve reads the experiment that an argument names (none: the default one), changed by the flags, and expands it for
// this machine.
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
	if s, err := x.suiteOf(args); err == nil && s != nil {
		e.Suite = s.Name
	}
	cpus, err := thread.CPUs()
	if err != nil {
		return nil, err
	}
	resolved, err := experiment.Resolve(e, x.catalogue.Parts(), len(cpus))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	return resolved, nil
}

// source returns the text of an experiment and what errors call it.
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
	// opening or reading it could take for ever
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

// handed says whether a path is a pipe that nettoll was started with: /dev/stdin, or what a shell writes for
// <(command). Somebody has its other end.
func handed(path string, m fs.FileMode) bool {
	dir := filepath.Dir(path)
	return m&fs.ModeNamedPipe != 0 && (path == "/dev/stdin" || dir == "/dev/fd" || dir == "/proc/self/fd")
}

// kindOf says what something is that is no regular file.
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

// hint says what could have been meant by the name of a file that is not there.
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

package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/machine"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/userns"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/stack"
)

// diagnosis is the result of doctor. `doctor --output json` prints it: keys may be added, but not renamed.
type diagnosis struct {
	Default       string `json:"default_experiment"` // canRun, inPart or cannotRun
	UserNamespace bool   `json:"user_namespace"`     // whether parts were tried inside one
	// what the machine's root may do and this process may not, as sentences
	NotGranted []string     `json:"not_granted"`
	Parts      []*diagnosed `json:"parts"`
	Machine    []aboutThere `json:"machine"`
	Verdict    string       `json:"verdict"` // what can be measured, as a sentence
}

const (
	canRun    = "can run"
	inPart    = "can run in part"
	cannotRun = "cannot run"
)

// diagnosed is the result for one part.
type diagnosed struct {
	Kind           string     `json:"kind"`
	Name           string     `json:"name"`
	Implementation string     `json:"implementation,omitempty"`
	Works          bool       `json:"works"`                   // at least one try worked, and none failed
	NotInstalled   bool       `json:"not_installed,omitempty"` // it lacks a program, and nothing else is wrong
	Tried          []*attempt `json:"tried"`
}

// attempt is one way to use a part, and its result.
type attempt struct {
	What    string `json:"what"`                     // the way, such as "one host"
	By      string `json:"implementation,omitempty"` // who did the work, if only the try showed it
	Works   bool   `json:"works"`
	LeftOut string `json:"left_out,omitempty"` // why this way means nothing; it was not tried
	Reason  string `json:"reason,omitempty"`   // why it does not work
	Missing string `json:"missing,omitempty"`  // what is missing, if that is known
	Hint    string `json:"hint,omitempty"`     // what would help
}

// aboutThere is a fact of the machine.
type aboutThere struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Known  bool   `json:"known"`
	Advice string `json:"advice,omitempty"`
}

func doctorCommand(std Streams, lib library, rights *privileges) *cobra.Command {
	var f outputFlags
	var cluster, namespace string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what works on this machine or on a cluster, and what would make results steadier",
		Long: `Tries each part of the catalogue in the smallest possible lab, in the same way as run. It builds the lab,
proves that full-size packets pass, measures for some milliseconds, and removes the lab. It also switches the probe
on and off. The first line is the verdict. For each part the output shows the implementation that works, or why none
does and what would help; a dash stands before parts that need a program which is not installed. Then doctor checks
the machine: its CPUs, other running programs, and the limits of its kernel. It gives advice if something makes
results scatter. Facts that the machine does not show are listed as not known. It takes a few seconds. As an ordinary
user it works in a user namespace, as run does.

With --output json it prints one object:
  default_experiment  "can run", "can run in part" or "cannot run"
  user_namespace      whether parts were tried inside a user namespace
  not_granted         what the machine's root may do and this process may not, as sentences
  parts               kind, name, implementation, works, not_installed, and tried: what, works, left_out, reason,
                      missing, hint
  machine             name, value, known, advice
  verdict             what can be measured, as a sentence
With --output jsonl it prints a line for each part and for each fact of the machine, and one with the rest. With
--output csv there is a row for each way in which a part was tried.

The exit status is 0 if the default experiment can run, 3 if it cannot because some part does not work here, and 1 if
nothing can be measured here.

With --cluster it asks a Kubernetes cluster which rights you have there, and says what cannot be measured without those
that are missing. It makes nothing there. The exit status is 1 if no run is possible. With --output json it prints one
object: cluster, version, namespace, rights (what, without, needed, granted), verdict.`,
		Example: `  nettoll doctor
  nettoll doctor --cluster                                the cluster of the current context
  nettoll doctor --cluster=kind-kind --namespace measure  for runs in a namespace that exists
  nettoll doctor --output json | jq -r '.parts[] | select(.works | not).name'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := f.choose(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("cluster") {
				return doctorCluster(cmd.Context(), std, strings.TrimPrefix(cluster, currentContext), namespace, format)
			}
			if namespace != "" {
				return usageError{errors.New("--namespace is one of a cluster (hint: --cluster)")}
			}
			if ended, err := rights.rootless(); ended {
				return err
			}
			d, err := diagnose(cmd.Context(), std, lib, rights.refused)
			if err != nil {
				return err
			}
			switch format {
			case "json":
				err = writeJSON(std.Out, d)
			case "jsonl", "csv":
				err = d.sheet().write(std.Out, format)
			default:
				o := std.textOptions()
				err = d.write(std.Out, o.Width, o.Color)
			}
			switch {
			case err != nil:
				return err
			case d.Default == canRun:
				return nil
			case !d.anything():
				return status(exitFailed)
			}
			return status(exitPartly)
		},
	}
	f.register(cmd)
	registerCluster(cmd, &cluster, "ask the cluster of this context of the kubeconfig which rights you have; without a "+
		"value, the current one")
	cmd.Flags().StringVar(&namespace, "namespace", "", "with --cluster: the namespace of the runs (default: one that is "+
		"made)")
	return cmd
}

// sheet has a line for each part and each fact, and a row for each way in which a part was tried.
func (d *diagnosis) sheet() sheet {
	s := sheet{columns: []string{
		"kind", "name", "implementation", "what", "works", "left_out", "reason", "missing", "hint",
	}}
	for _, p := range d.Parts {
		s.objects = append(s.objects, line{"part", p})
		for _, t := range p.Tried {
			s.rows = append(s.rows, []string{
				p.Kind, p.Name, cmp.Or(t.By, p.Implementation), t.What, strconv.FormatBool(t.Works), t.LeftOut, t.Reason,
				t.Missing, t.Hint,
			})
		}
	}
	for _, m := range d.Machine {
		s.objects = append(s.objects, line{"machine", m})
	}
	s.objects = append(s.objects, line{"doctor", map[string]any{
		"default_experiment": d.Default, "user_namespace": d.UserNamespace, "not_granted": d.NotGranted,
		"verdict": d.Verdict,
	}})
	return s
}

// sampled is how long doctor watches the CPUs.
const sampled = 200 * time.Millisecond

// modes returns how many cores are now in each mode, by the names of procfs.Cores. It returns nil if the kernel does
// not say.
func modes(ctx context.Context) map[string]float64 {
	before, err := procfs.ReadCPUTime()
	if err != nil {
		return nil
	}
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(sampled):
	}
	after, err := procfs.ReadCPUTime()
	if err != nil {
		return nil
	}
	return procfs.Cores(before, after, time.Since(began).Seconds())
}

func diagnose(ctx context.Context, std Streams, lib library, refused error) (*diagnosis, error) {
	d := &diagnosis{UserNamespace: userns.Inside() && refused == nil, NotGranted: userns.Refused()}
	var options machine.Options
	options.Modes = modes(ctx) // before doctor itself uses the CPUs
	sources, sinks, err := control.CPUs(ctx, &local.Deployment{})
	if err != nil {
		return nil, err
	}
	options.Sources, options.Sinks = sources, sinks
	if sleep, err := (&local.Deployment{}).Awake(); err != nil {
		options.Asleep = err.Error()
	} else {
		_, err = sleep()
		options.Awake = err == nil
	}
	if missing, ok := errors.AsType[*linux.UnsupportedError](runtime.Limitable()); ok {
		options.Unlimited, options.LimitHelp = missing.Missing, missing.Hint
	}
	for _, b := range stack.PartsOf[runtime.Borrower](lib.catalogue.Kinds) {
		if options.Docker, err = b.Daemon(ctx); err == nil {
			continue
		}
		options.NoDocker = err.Error()
		if missing, ok := errors.AsType[*linux.UnsupportedError](err); ok {
			options.NoDocker, options.DockerHelp = missing.Missing, missing.Hint
		}
	}
	for _, n := range stack.PartsOf[network.Plugged](lib.catalogue.Kinds) {
		options.Plugins, options.PluginFolders = n.Plugins()
	}
	d.Parts = tryAll(ctx, std.Err, lib, refused)
	if ctx.Err() != nil {
		return nil, status(exitInterrupted)
	}
	for _, f := range machine.Look(os.DirFS("/"), options) {
		d.Machine = append(d.Machine, aboutThere(f))
	}
	cpus := slices.Concat(sources, sinks)
	slices.Sort(cpus)
	if d.Default, err = d.defaultExperiment(lib.catalogue.Parts(), len(slices.Compact(cpus))); err != nil {
		return nil, err
	}
	d.judge()
	return d, nil
}

// explain stores the result of a try.
func (t *attempt) explain(err error) {
	*t = attempt{What: t.What, Works: err == nil}
	if err == nil {
		return
	}
	t.Reason = err.Error()
	if u, ok := errors.AsType[*linux.UnsupportedError](err); ok {
		t.Missing, t.Hint = u.Missing, u.Hint
		t.Reason = strings.ReplaceAll(t.Reason, " (hint: "+u.Hint+")", "")
	}
}

// failed reports whether the attempt was tried and does not work.
func (t *attempt) failed() bool { return !t.Works && t.LeftOut == "" }

// works reports whether the part works in this way.
func (p *diagnosed) works(what string) bool {
	return slices.ContainsFunc(p.Tried, func(t *attempt) bool { return t.What == what && t.Works })
}

// works reports whether the part works in this way, or in all ways if what is "".
func (d *diagnosis) works(kind, name, what string) bool {
	return slices.ContainsFunc(d.Parts, func(p *diagnosed) bool {
		return p.Kind == kind && p.Name == name && (p.Works || what != "" && p.works(what))
	})
}

// anything reports whether something can be measured: at least one network, one runtime and one workload work.
func (d *diagnosis) anything() bool {
	for _, kind := range []string{"network", "runtime", "workload"} {
		if !slices.ContainsFunc(d.Parts, func(p *diagnosed) bool { return p.Kind == kind && p.mark() != broken }) {
			return false
		}
	}
	return true
}

// defaultExperiment returns whether `nettoll run` works here, as canRun, inPart or cannotRun.
func (d *diagnosis) defaultExperiment(parts experiment.Parts, cpus int) (string, error) {
	e, err := experiment.Default(parts)
	if err != nil {
		return "", err
	}
	r, err := experiment.Resolve(e, parts, cpus)
	if err != nil {
		return "", err
	}
	all := true
	for _, l := range r.Labs {
		what := oneHost
		if l.Hosts > 1 {
			what = twoHosts
		}
		for _, c := range l.Stack {
			all = all && (c.Part.Value == nil || d.works(c.Kind.Describe().Name, c.Part.Name, what))
		}
	}
	for _, c := range r.Cells {
		all = all && d.works("workload", c.Workload.Describe().Name, "")
	}
	baseline := e.Baseline.Parts[0]
	switch {
	case all:
		return canRun, nil
	case d.anything() && d.works(baseline.Kind.Describe().Name, baseline.Part.Name, oneHost):
		return inPart, nil
	}
	return cannotRun, nil
}

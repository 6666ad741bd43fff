package cli

import (
	"context"
	"errors"
	"os"
	"slices"
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
)

// diagnosis is what doctor finds. Its JSON is what `doctor --json` prints: keys are added, and never renamed.
type diagnosis struct {
	Default       string `json:"default_experiment"` // canRun, inPart or cannotRun
	UserNamespace bool   `json:"user_namespace"`     // whether parts were tried inside one
	// what root of the machine has and this process does not, in words
	NotGranted []string     `json:"not_granted"`
	Parts      []*diagnosed `json:"parts"`
	Machine    []aboutThere `json:"machine"`
}

const (
	canRun    = "can run"
	inPart    = "can run in part"
	cannotRun = "cannot run"
)

// diagnosed is one part.
type diagnosed struct {
	Kind           string     `json:"kind"`
	Name           string     `json:"name"`
	Implementation string     `json:"implementation,omitempty"`
	Works          bool       `json:"works"` // in everything that was tried
	Tried          []*attempt `json:"tried"`
}

// attempt is one way to use a part.
type attempt struct {
	What    string `json:"what"`                     // "one host"
	By      string `json:"implementation,omitempty"` // who did the work, where that is found out only then
	Works   bool   `json:"works"`
	LeftOut string `json:"left_out,omitempty"` // why it means nothing; it was not tried then
	Reason  string `json:"reason,omitempty"`   // why it does not work
	Missing string `json:"missing,omitempty"`  // what is not there, where that is known
	Hint    string `json:"hint,omitempty"`     // what would help
}

// aboutThere is one finding about the machine.
type aboutThere struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Known  bool   `json:"known"`
	Advice string `json:"advice,omitempty"`
}

func doctorCommand(std Streams, lib library, rights *privileges) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what works on this machine, and what would make results steadier",
		Long: `Tries each part of the catalogue in the smallest possible lab, in the same way as run. It builds the lab,
proves that full-size packets pass, measures for some milliseconds, and removes the lab. It also switches the probe
on and off. For each part the output shows the implementation that works, or why none does and what would help. Then
doctor checks the machine: its CPUs, other running programs, and the limits of its kernel. It gives advice if
something makes results scatter. Facts that the machine does not show are listed as not known. It takes a few
seconds. As an ordinary user it works in a user namespace, as run does.

With --json it prints one object:
  default_experiment  "can run", "can run in part" or "cannot run"
  user_namespace      whether parts were tried inside a user namespace
  not_granted         what the machine's root may do and this process may not, as sentences
  parts               kind, name, implementation, works, and tried: what, works, left_out, reason, missing, hint
  machine             name, value, known, advice

The exit status is 0 if the default experiment can run, 3 if it cannot because some part does not work here, and 1 if
nothing can be measured here.`,
		Example: `  nettoll doctor
  nettoll doctor --json | jq -r '.parts[] | select(.works | not).name'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ended, err := rights.rootless(); ended {
				return err
			}
			d, err := diagnose(cmd.Context(), std, lib, rights.refused)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(std.Out, d)
			} else {
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// sampled is for how long the CPUs are watched.
const sampled = 200 * time.Millisecond

// modes returns how many cores are in each mode just now, nil if the kernel does not say.
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
	options.Modes = modes(ctx) // before anything of ours runs
	sources, sinks, err := control.CPUs(&local.Deployment{})
	if err != nil {
		return nil, err
	}
	options.Sources, options.Sinks = sources, sinks
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
	return d, nil
}

// explain takes what came of a try.
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

// failed says whether it was tried and does not work.
func (t *attempt) failed() bool { return !t.Works && t.LeftOut == "" }

// works says whether a part works in one way of using it.
func (p *diagnosed) works(what string) bool {
	return slices.ContainsFunc(p.Tried, func(t *attempt) bool { return t.What == what && t.Works })
}

// works says whether there is a part that works in one way of using it, or in all where what is "".
func (d *diagnosis) works(kind, name, what string) bool {
	return slices.ContainsFunc(d.Parts, func(p *diagnosed) bool {
		return p.Kind == kind && p.Name == name && (p.Works || what != "" && p.works(what))
	})
}

// anything says whether something can be measured: there is a network, a runtime and a workload that works.
func (d *diagnosis) anything() bool {
	for _, kind := range []string{"network", "runtime", "workload"} {
		if !slices.ContainsFunc(d.Parts, func(p *diagnosed) bool { return p.Kind == kind && p.mark() != broken }) {
			return false
		}
	}
	return true
}

// defaultExperiment says whether `nettoll run` works here.
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

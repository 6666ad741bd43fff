package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/lab"
	"github.com/nettoll/nettoll/proof/attack"
)

// ownLab runs the process that owns a lab, until the lab ends.
func ownLab(ctx context.Context, args []string, log io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, ends()...)
	defer stop()
	return lab.Own(ctx, args, func(ctx context.Context, spec lab.Spec, text []byte) (*control.LiveLab, lab.Judge, error) {
		parts := catalogue.New().Parts()
		e, err := experiment.Read("the experiment", text, spec.Settings, parts)
		if err != nil {
			return nil, nil, err
		}
		cpus, err := thread.CPUs()
		if err != nil {
			return nil, nil, err
		}
		r, err := experiment.Resolve(e, parts, len(cpus))
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(r.Labs, func(l experiment.Lab) bool { return l.ID == spec.Lab })
		if i < 0 {
			return nil, nil, fmt.Errorf("the experiment has no lab %q", spec.Lab)
		}
		only, at := r.Only(i), func() deploy.Deployment { return here(os.Geteuid()) }
		judge := func(ctx context.Context, got control.Attacked, attacks []attack.Attack, say func(string)) (control.Fate,
			error,
		) {
			with := &control.Attacker{Parts: parts, CPUs: len(cpus), Attacks: attacks, Deploy: at}
			return with.Judge(ctx, only, got, say)
		}
		l, err := control.Stand(ctx, only, at())
		return l, judge, err
	}, log)
}

const (
	// labTime is how long a lab runs by default, at most.
	labTime = time.Hour
	// labLoad replaces the workloads of the experiment, which a live lab does not run. All stacks and placements allow it.
	labLoad = "workloads=[udp-rr]"
)

func (l labs) upCommand() *cobra.Command {
	f := &experimentFlags{}
	var stack, name, placement string
	var set []string
	var limit time.Duration
	out := outputFlags{formats: graphFormats()}
	cmd := &cobra.Command{
		Use:   "up [EXPERIMENT.yaml | suite:NAME] --stack NAME",
		Short: "Build a lab of an experiment and keep it running",
		Long: `Builds the hosts and containers of one stack of an experiment as run would, verifies them against the
kernel, proves that the pairs pass full-size packets, and keeps them running in the background. Without an argument
it uses the default experiment.

The name of the stack is that in the cells that nettoll plan lists: bridge, bridge+nftables(rules=1000), or the name
that the experiment gives it. Without an experiment it can be any network, with any filter. For an ordinary user the
lab is built in a user namespace, as with run.`,
		Example: `  nettoll lab up --stack bridge
  nettoll lab up --stack 'routed+nftables(match=set,rules=1000)'
  nettoll lab up my.yaml --stack calico-like --placement cross-host --pairs 4 --time 8h
  nettoll lab up --stack bridge+vxlan --placement cross-host --set underlay.hops=1
  nettoll lab up suite:ji2019 --stack macvlan --name other      a second lab at the same time`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := out.choose(cmd)
			if err != nil {
				return err
			}
			if _, _, err := l.registry(); err != nil { // fails early: a user namespace hides that a directory is root's
				return err
			}
			if ended, err := l.rootless(); ended {
				return err
			}
			if limit <= 0 {
				return usageError{fmt.Errorf("--time %v: out of range (valid: more than 0)", limit)}
			}
			f.placements, f.set = []string{placement}, append(slices.Clip(set), labLoad)
			chosen, err := l.labOf(cmd, args, f, stack, placement)
			if err != nil {
				return err
			}
			stack := chosen.Labs[0].Named // resolving may have reordered its parameters
			if name == "" {
				name = lab.Name(stack)
			}
			if err := lab.CheckName(name); err != nil {
				return usageError{err}
			}
			if err := fits(chosen); err != nil {
				return err
			}
			if l.refused != nil {
				return l.refused
			}
			settings, err := f.settings(cmd.Flags())
			if err != nil {
				return err
			}
			return l.up(cmd.Context(), name, chosen, lab.Spec{
				Lab: chosen.Labs[0].ID, Stack: stack, Settings: settings, Time: limit,
			}, format)
		},
	}
	cmd.Flags().StringVar(&stack, "stack", "", "the stack, as in the cells of the experiment; without an experiment "+
		"NETWORK+FILTER, each with its parameters")
	cmd.Flags().StringVar(&placement, "placement", "", "placement of the two ends of a pair: same-host, cross-host "+
		"(default: the first in the experiment that the stack has)")
	cmd.Flags().StringVar(&f.pairs, "pairs", "",
		"number of pairs (default: the first number in the experiment)")
	f.listFlag(cmd.Flags(), "mtu", "factors.mtu", "MTU of every link in bytes, loopback included")
	cmd.Flags().StringArrayVar(&set, "set", nil, "KEY=VALUE: change any value of the experiment, such as "+
		"underlay.hops=1; may be given more than once")
	cmd.Flags().DurationVar(&limit, "time", labTime, "how long the lab runs, at most")
	cmd.Flags().StringVar(&name, "name", "", "name of the lab (default: the stack, with hyphens for slashes)")
	out.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("stack",
		func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			resolved, err := l.resolve(cmd, args, &experimentFlags{set: []string{labLoad}})
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return plainly(stackNames(resolved))(cmd, args, typed)
		})
	_ = cmd.RegisterFlagCompletionFunc("placement", single(words(experiment.Placements())))
	_ = cmd.RegisterFlagCompletionFunc("name", cobra.NoFileCompletions)
	cmd.ValidArgsFunction = first(1, suitesOr(found(isExperiment)))
	return cmd
}

// up has the lab built, and prints its graph and, as text, commands to try.
func (l labs) up(ctx context.Context, name string, resolved *experiment.Resolved, spec lab.Spec, format string) error {
	labs, err := l.open()
	if err != nil {
		return err
	}
	ctx, stop := l.ownInterrupts(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- labs.Up(ctx, name, spec, []byte(resolved.Experiment.Source)) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = l.removed(name, ended)
	}
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(l.Err, "nettoll: interrupted: lab %q is taken down\n", name)
			return status(exitInterrupted)
		}
		if taken, ok := errors.AsType[*lab.TakenError](err); ok {
			return taken
		}
		return err
	}
	e, err := labs.Choose(name)
	if err != nil {
		return err
	}
	g, err := labs.Lab(e).Graph(ctx)
	if err != nil {
		return err
	}
	if err := writeGraph(l.Out, g, format, true); err != nil || format != "text" {
		return err
	}
	all, err := labs.Entries()
	if err != nil {
		return err
	}
	which := ""
	if len(all) > 1 {
		which = " --lab " + lab.Quote(name)
	}
	pair := g.Links[0]
	ping := "ping -c 3"
	fmt.Fprintf(l.Out, "\nlook around:\n")
	for _, line := range [][2]string{
		{fmt.Sprintf("nettoll lab exec%s %s -- %s %s", which, pair.Source, ping, pair.SinkAddresses[0]), ""},
		{fmt.Sprintf("nettoll lab exec%s h1", which), "a shell on host 1"},
		{"nettoll lab graph" + which, "links, addresses, routes and rules"},
		{"nettoll lab down " + lab.Quote(name), "otherwise it ends at " + e.Until.Format(time.TimeOnly)},
	} {
		fmt.Fprintln(l.Out, strings.TrimRight(fmt.Sprintf("  %-50s  %s", line[0], line[1]), " "))
	}
	return nil
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/linux/userns"
	"github.com/nettoll/nettoll/lab"
)

func (a *app) labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Build a network without measuring it, and look around in it",
		Long: `Builds the hosts and containers of one stack and keeps them without measuring them, so that you can look
around: run programs in them, see what is connected to what, change something and find out what breaks.

A process in the background owns the lab. The lab ends with nettoll lab down, when its time is over (one hour unless
--time is given), and when its owner dies, even if it is killed. Nothing is left of it. The machine's own network is
never touched.`,
		Example: `  nettoll lab up --stack bridge
  nettoll lab exec h1/src0 -- ping -c 3 10.1.1.1
  nettoll lab exec h1                           a shell on host 1
  nettoll lab graph --format svg -o lab.svg
  nettoll lab down`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.labUpCommand(), a.labExecCommand(), a.labGraphCommand(), a.labDownCommand(), a.labListCommand())
	return cmd
}

// labs opens the registry of the user's labs, and says where that is if it is not where the user may look for it.
func (a *app) labs() (*lab.Registry, error) {
	r, note, err := a.registry()
	if note != "" {
		fmt.Fprintf(a.Err, "nettoll: %s\n", note)
	}
	return r, err
}

// registry opens the registry of the user's labs. The note is as of [lab.Home].
func (a *app) registry() (r *lab.Registry, note string, err error) {
	uid, err := a.user()
	if err != nil {
		return nil, "", err
	}
	dir, note := lab.Home(uid, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	r, err = lab.OpenRegistry(dir)
	return r, note, err
}

// user is the number of the user who runs this, outside of a user namespace made for it.
func (a *app) user() (int, error) {
	if a.inner != nil { // root, in there
		return userns.Parent()
	}
	return os.Geteuid(), nil
}

// ownLab is the life of a lab's owner.
func ownLab(ctx context.Context, args []string, log io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, ends()...)
	defer stop()
	return lab.Own(ctx, args, func(ctx context.Context, spec lab.Spec, text []byte) (*control.LiveLab, error) {
		parts := catalogue.New().Parts()
		e, err := experiment.Read("the experiment", text, spec.Settings, parts)
		if err != nil {
			return nil, err
		}
		cpus, err := thread.CPUs()
		if err != nil {
			return nil, err
		}
		r, err := experiment.Resolve(e, parts, len(cpus))
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(r.Labs, func(l experiment.Lab) bool { return l.ID == spec.Lab })
		if i < 0 {
			return nil, fmt.Errorf("the experiment has no lab %q", spec.Lab)
		}
		return control.Stand(ctx, r.Only(i), here(os.Geteuid()))
	}, log)
}

const (
	// labTime is how long a lab stands where nothing else is said.
	labTime = time.Hour
	// labLoad stands for the workloads of the experiment, which a lab has none of: it is defined for every stack and
	// everywhere.
	labLoad = "workloads=[udp-rr]"
)

func (a *app) labUpCommand() *cobra.Command {
	f := &experimentFlags{}
	var stack, name, placement string
	var limit time.Duration
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
  nettoll lab up suite:ji2019 --stack macvlan --name other      a second lab at the same time`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, _, err := a.registry(); err != nil { // in a user namespace it is not to be seen what is root's
				return err
			}
			if ended, err := a.rootless(); ended {
				return err
			}
			if limit <= 0 {
				return usageError{fmt.Errorf("--time %v: want more than 0 (when the lab ends by itself)", limit)}
			}
			f.placements, f.set = []string{placement}, []string{labLoad}
			resolved, err := a.resolve(cmd, args, f)
			if err != nil {
				return err
			}
			if len(args) == 0 && !slices.Contains(stackNames(resolved), stack) {
				if f.more, err = a.written(stack); err != nil {
					return usageError{err}
				}
			}
			if f.more != nil {
				if resolved, err = a.resolve(cmd, args, f); err != nil {
					return err
				}
				if names := stackNames(resolved); len(names) == 2 { // its parameters may be in another order
					stack = names[1]
				}
			}
			chosen, err := chooseLab(resolved, stack, placement)
			if err != nil {
				return err
			}
			if name == "" {
				name = stack
			}
			if err := lab.CheckName(name); err != nil {
				return usageError{err}
			}
			if err := a.fits(chosen); err != nil {
				return err
			}
			if a.refused != nil {
				return a.refused
			}
			settings, err := f.settings(cmd.Flags())
			if err != nil {
				return err
			}
			return a.labUp(cmd.Context(), name, chosen, lab.Spec{
				Lab: chosen.Labs[0].ID, Stack: stack, Settings: settings, Time: limit,
			})
		},
	}
	cmd.Flags().StringVar(&stack, "stack", "", "the stack, as in the cells of the experiment; without an experiment "+
		"NETWORK+FILTER, each with its parameters")
	cmd.Flags().StringVar(&placement, "placement", "", "placement of the two ends of a pair: same-host, cross-host "+
		"(default: the first in the experiment that the stack has)")
	cmd.Flags().StringVar(&f.pairs, "pairs", "",
		"number of pairs (default: the first number in the experiment)")
	cmd.Flags().DurationVar(&limit, "time", labTime, "how long the lab runs, at most")
	cmd.Flags().StringVar(&name, "name", "", "name of the lab (default: the stack)")
	_ = cmd.RegisterFlagCompletionFunc("stack",
		func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			resolved, err := a.resolve(cmd, args, &experimentFlags{set: []string{labLoad}})
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

// plainly completes words that may have parentheses in them.
func plainly(all []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) }),
			cobra.ShellCompDirectiveNoFileComp
	}
}

// labUp has the lab built, and says what is where.
func (a *app) labUp(ctx context.Context, name string, resolved *experiment.Resolved, spec lab.Spec) error {
	labs, err := a.labs()
	if err != nil {
		return err
	}
	ctx, stop := a.ownInterrupts(ctx)
	defer stop()
	if err := labs.Up(ctx, name, spec, []byte(resolved.Experiment.Source)); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(a.Err, "nettoll: interrupted: lab %q is taken down\n", name)
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
	g.Text(a.Out, true)
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
	fmt.Fprintf(a.Out, "\nlook around:\n")
	for _, line := range [][2]string{
		{fmt.Sprintf("nettoll lab exec%s %s -- %s %s", which, pair.Source, ping, pair.SinkAddresses[0]), ""},
		{fmt.Sprintf("nettoll lab exec%s h1", which), "a shell on host 1"},
		{"nettoll lab graph" + which, "links, addresses, routes and rules"},
		{"nettoll lab down " + lab.Quote(name), "otherwise it ends at " + e.Until.Format(time.TimeOnly)},
	} {
		fmt.Fprintln(a.Out, strings.TrimRight(fmt.Sprintf("  %-50s  %s", line[0], line[1]), " "))
	}
	return nil
}

// ownInterrupts leaves interrupts to the caller: the first one ends the context, and says nothing.
func (a *app) ownInterrupts(ctx context.Context) (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, ends()...)
	a.release()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-signals:
			a.inner.interrupted()
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// labFlag adds the flag that says which lab is meant.
func (a *app) labFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "lab", "", "name of the lab, if there are several")
	_ = cmd.RegisterFlagCompletionFunc("lab", a.labNames)
}

// labNames completes the names of labs that stand.
func (a *app) labNames(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	labs, _, err := a.registry()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := labs.Entries() // none where they cannot be read
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return plainly(names)(cmd, args, typed)
}

// labOf returns the lab of that name, or the only one.
func (a *app) labOf(name string) (*lab.Lab, error) {
	labs, err := a.labs()
	if err != nil {
		return nil, err
	}
	return labNamed(labs, name)
}

func labNamed(labs *lab.Registry, name string) (*lab.Lab, error) {
	e, err := labs.Choose(name)
	if err != nil {
		return nil, err
	}
	return labs.Lab(e), nil
}

func (a *app) labGraphCommand() *cobra.Command {
	var name, format, output string
	var briefly bool
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Show what a lab looks like: hosts, links, addresses, routes, rules",
		Long: `Reads from the kernel what a lab consists of: hosts, containers, links and their other ends, addresses,
routes, and the rules of packet filters as nft, iptables-save, ipset and bpftool list them (if installed). For each
host it shows whether the kernel still agrees with the plan that the host was built from, and lists the differences.`,
		Example: `  nettoll lab graph
  nettoll lab graph --format svg -o lab.svg     a picture
  nettoll lab graph --format json | jq '.hosts[].drift'`,
		Args: noLabArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(graphFormats(), format) {
				return usageError{fmt.Errorf("--format: %w", &experiment.UnknownError{
					Kind: "format", Name: format, Known: graphFormats(),
				})}
			}
			of, err := a.labOf(name)
			if err != nil {
				return err
			}
			g, err := of.Graph(cmd.Context())
			if err != nil {
				return err
			}
			return a.to(output, func(w io.Writer) error {
				switch format {
				case "json":
					e := json.NewEncoder(w)
					e.SetIndent("", "  ")
					return e.Encode(g)
				case "svg":
					return g.SVG(w)
				}
				g.Text(w, briefly)
				return nil
			})
		},
	}
	a.labFlag(cmd, &name)
	cmd.Flags().StringVar(&format, "format", "text", "one of "+strings.Join(graphFormats(), ", "))
	cmd.Flags().BoolVar(&briefly, "brief", false, "as text, without routes, rules and link-layer addresses")
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write to (default: standard output)")
	return cmd
}

func graphFormats() []string { return []string{"text", "svg", "json"} }

// to writes to a file, or to standard output where its name is "".
func (a *app) to(path string, show func(io.Writer) error) error {
	if path == "" {
		return show(a.Out)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(show(f), f.Close())
}

func noLabArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, got %q (hint: --lab names the lab; see %s --help)",
			cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

func (a *app) labDownCommand() *cobra.Command {
	var every bool
	cmd := &cobra.Command{
		Use:   "down [LAB]...",
		Short: "Take a lab down",
		Long:  "Takes labs down and returns when nothing is left of them. Without an argument, it takes down the only lab.",
		Example: `  nettoll lab down
  nettoll lab down --all`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if every && len(args) > 0 {
				return usageError{fmt.Errorf("--all and %q exclude each other", args[0])}
			}
			labs, err := a.labs()
			if err != nil {
				return err
			}
			var chosen []lab.Entry
			if every {
				if chosen, err = labs.Entries(); err != nil {
					return err
				}
				chosen = slices.DeleteFunc(chosen, func(e lab.Entry) bool { return e.Building })
			} else {
				if len(args) == 0 {
					args = []string{""}
				}
				for _, name := range args {
					e, err := labs.Choose(name)
					if err != nil {
						return err
					}
					chosen = append(chosen, e)
				}
			}
			for _, e := range chosen {
				if err := labs.Down(cmd.Context(), e); err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "lab %s is taken down\n", e.Name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&every, "all", false, "take down every lab")
	cmd.ValidArgsFunction = a.labNames
	return cmd
}

func (a *app) labListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the running labs",
		Long:    "Lists the running labs and when they end. It removes what is left of a lab whose owner was killed.",
		Example: "  nettoll lab list",
		Args:    noLabArguments,
		RunE: func(*cobra.Command, []string) error {
			labs, err := a.labs()
			if err != nil {
				return err
			}
			all, err := labs.Entries()
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(a.Out)
				e.SetIndent("", "  ")
				return e.Encode(append([]lab.Entry{}, all...)) // none are []
			}
			if len(all) == 0 {
				fmt.Fprintln(a.Err, "no lab is running (nettoll lab up --stack NAME starts one)")
				return nil
			}
			w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "lab\tstack\tplacement\tpairs\tsince\tuntil\towner")
			for _, e := range all {
				if e.Building {
					fmt.Fprintf(w, "%s\tis being built\n", e.Name)
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%d\n", e.Name, e.Stack, e.Placement, e.Pairs, e.Since.Format(time.TimeOnly),
					e.Until.Format(time.TimeOnly), e.PID)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return cmd
}

package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/lab"
)

// labs implements `lab`: it builds live labs and inspects them.
type labs struct {
	Streams
	experiments
	*privileges
}

func (l labs) command() *cobra.Command {
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
  nettoll lab graph --output svg -o lab.svg
  nettoll lab down`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(l.upCommand(), l.execCommand(), l.graphCommand(), l.downCommand(), l.listCommand())
	return cmd
}

// open opens the registry of the user's labs. It prints the note of [labs.registry], if there is one.
func (l labs) open() (*lab.Registry, error) {
	r, note, err := l.registry()
	if note != "" {
		fmt.Fprintf(l.Err, "nettoll: %s\n", note)
	}
	return r, err
}

// registry opens the registry of the user's labs, and returns the note of [lab.Home] about its directory.
func (l labs) registry() (r *lab.Registry, note string, err error) {
	uid, err := l.user()
	if err != nil {
		return nil, "", err
	}
	dir, note := lab.Home(uid, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	r, err = lab.OpenRegistry(dir)
	return r, note, err
}

// plainly completes words that may contain parentheses.
func plainly(all []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) }),
			cobra.ShellCompDirectiveNoFileComp
	}
}

// flag adds --lab.
func (l labs) flag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "lab", "", "name of the lab, if there are several")
	_ = cmd.RegisterFlagCompletionFunc("lab", l.names)
}

// names completes the names of running labs.
func (l labs) names(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	labs, _, err := l.registry()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := labs.Entries() // none if they cannot be read
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return plainly(names)(cmd, args, typed)
}

// of returns the lab with this name, or the only lab if the name is "".
func (l labs) of(name string) (*lab.Lab, error) {
	labs, err := l.open()
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

func noLabArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, got %q (hint: --lab names the lab; see %s --help)",
			cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

// removed waits until a lab is removed. If that takes long, it says what it waits for.
func (l labs) removed(name string, ended <-chan error) error {
	const long = 2 * time.Second
	select {
	case err := <-ended:
		return err
	case <-time.After(long):
		fmt.Fprintf(l.Err, "lab %s: waiting until its owner has removed everything\n", name)
		return <-ended
	}
}

func (l labs) downCommand() *cobra.Command {
	var every bool
	var f outputFlags
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
			format, err := f.choose(cmd)
			if err != nil {
				return err
			}
			labs, err := l.open()
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
				ended := make(chan error, 1)
				go func() { ended <- labs.Down(cmd.Context(), e) }()
				if err := l.removed(e.Name, ended); err != nil {
					return err
				}
				if format == "text" {
					fmt.Fprintf(l.Out, "lab %s is taken down\n", e.Name)
				}
			}
			return writeEntries(l.Out, chosen, format)
		},
	}
	cmd.Flags().BoolVar(&every, "all", false, "take down every lab")
	f.register(cmd)
	cmd.ValidArgsFunction = l.names
	return cmd
}

func (l labs) listCommand() *cobra.Command {
	var f outputFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the running labs",
		Long:    "Lists the running labs and when they end. It removes what is left of a lab whose owner was killed.",
		Example: "  nettoll lab list",
		Args:    noLabArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := f.choose(cmd)
			if err != nil {
				return err
			}
			labs, err := l.open()
			if err != nil {
				return err
			}
			all, err := labs.Entries()
			if err != nil {
				return err
			}
			if format != "text" {
				return writeEntries(l.Out, all, format)
			}
			if len(all) == 0 {
				fmt.Fprintln(l.Err, "no lab is running (nettoll lab up --stack NAME starts one)")
				return nil
			}
			w := tabwriter.NewWriter(l.Out, 0, 0, 2, ' ', 0)
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
	f.register(cmd)
	return cmd
}

// writeEntries writes labs for scripts; as text it writes nothing.
func writeEntries(w io.Writer, all []lab.Entry, format string) error {
	switch format {
	case "json":
		return writeJSON(w, append([]lab.Entry{}, all...)) // no labs are [], not null
	case "jsonl", "csv":
		return labsSheet(all).write(w, format)
	}
	return nil
}

// labsSheet has a line and a row for each lab.
func labsSheet(all []lab.Entry) sheet {
	s := sheet{columns: []string{
		"name", "id", "stack", "experiment", "placement", "pairs", "pid", "since", "until", "building",
	}}
	for _, e := range all {
		s.objects = append(s.objects, e)
		s.rows = append(s.rows, []string{
			e.Name, e.ID, e.Stack, e.Experiment, e.Placement, strconv.Itoa(e.Pairs), strconv.Itoa(e.PID),
			e.Since.Format(time.RFC3339), e.Until.Format(time.RFC3339), strconv.FormatBool(e.Building),
		})
	}
	return s
}

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// helpCommand makes `help [COMMAND]`, which prints the same as COMMAND --help.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long: "Shows the help of a command, as COMMAND --help does. Without a command, it describes nettoll and lists " +
			"its commands.",
		Example:           "  nettoll help run",
		ValidArgsFunction: topics(root),
		RunE: func(_ *cobra.Command, args []string) error {
			at, err := below(root, args)
			if err != nil {
				return err
			}
			at.InitDefaultHelpFlag() // cobra adds it only to the command that is executed
			return at.Help()
		},
	}
}

// topics completes the name of one command.
func topics(root *cobra.Command) cobra.CompletionFunc {
	return first(1, func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		var topics []choice
		for _, c := range root.Commands() {
			if c.IsAvailableCommand() {
				topics = append(topics, choice{name: c.Name(), summary: c.Short})
			}
		}
		return single(topics)(cmd, args, typed)
	})
}

// below returns the command that the names lead to, from at downwards.
func below(at *cobra.Command, names []string) (*cobra.Command, error) {
	for _, name := range names {
		next := named(at, name)
		if next == nil {
			return nil, unknownCommand(at, name)
		}
		at = next
	}
	return at, nil
}

// misnamed returns an error if the command line asks for the help of an unknown command. Cobra would show the help of
// the command above it.
func misnamed(root *cobra.Command, args []string) error {
	asked := slices.ContainsFunc(args, func(a string) bool { return a == "--help" || a == "-h" })
	if !asked || strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	root.InitDefaultHelpCmd()
	at, rest, err := root.Find(args)
	if err != nil || !at.HasSubCommands() {
		return nil
	}
	for _, a := range rest {
		if !strings.HasPrefix(a, "-") {
			return unknownCommand(at, a)
		}
	}
	return nil
}

func named(parent *cobra.Command, name string) *cobra.Command {
	for _, c := range parent.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// near is the edit distance within which an unknown command is taken for a known one: the default of cobra.
const near = 2

// unknownCommand returns a usage error with the known commands and the one that was probably meant.
func unknownCommand(parent *cobra.Command, name string) error {
	parent.SuggestionsMinimumDistance = near
	meant := ""
	if like := parent.SuggestionsFor(name); len(like) > 0 && name != "" {
		meant = fmt.Sprintf("did you mean %q? ", like[0])
	}
	return usageError{fmt.Errorf("unknown command %q (%sknown: %s)", name, meant, strings.Join(commands(parent), ", "))}
}

// commands lists the commands that help shows.
func commands(parent *cobra.Command) []string {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// usage adds the exit statuses to the help of nettoll itself. It uses no template, which would link a template engine
// into every worker.
func usage(otherwise func(*cobra.Command) error) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		if err := otherwise(c); err != nil || c.HasParent() {
			return err
		}
		w := c.OutOrStderr()
		fmt.Fprintln(w, "\nExit status:")
		for _, s := range exitStatuses() {
			fmt.Fprintf(w, "  %-3d  %s\n", s.code, s.meaning)
		}
		return nil
	}
}

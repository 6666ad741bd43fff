package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// helpCommand is `help [COMMAND]`, the same as COMMAND --help.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long: "Shows the help of a command, as COMMAND --help does. Without a command, it describes nettoll and lists " +
			"its commands.",
		Example: "  nettoll help run",
		ValidArgsFunction: first(1,
			func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				var topics []choice
				for _, c := range root.Commands() {
					if c.IsAvailableCommand() {
						topics = append(topics, choice{name: c.Name(), summary: c.Short})
					}
				}
				return single(topics)(cmd, args, typed)
			}),
		RunE: func(_ *cobra.Command, args []string) error {
			at := root
			for _, name := range args {
				next := named(at, name)
				if next == nil {
					return unknownCommand(at, name)
				}
				at = next
			}
			at.InitDefaultHelpFlag() // as it is there when the command itself is asked
			return at.Help()
		},
	}
}

func named(parent *cobra.Command, name string) *cobra.Command {
	for _, c := range parent.Commands() {
		if c.Name() == name {
			return c
		}
	}
	return nil
}

// near is within how many changed letters a word is taken for another: cobra's own default.
const near = 2

// unknownCommand says which commands there are, and which one was probably meant.
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

// usage adds the exit statuses to the help of nettoll itself. (A template would do, and link a template engine into
// every worker.)
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

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrongFlag returns a usage error of one line: what is wrong with a flag, and what is valid.
func wrongFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		err = fmt.Errorf("unknown flag %q of %s (known: %s)", name, cmd.CommandPath(), strings.Join(flagNames(cmd), ", "))
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		if valid := valid(f); valid != "" {
			err = fmt.Errorf("invalid value %q for --%s (valid: %s)", invalid.GetValue(), f.Name, valid)
		} else {
			err = fmt.Errorf("invalid value %q for --%s: %w", invalid.GetValue(), f.Name, invalid.Unwrap())
		}
	case errors.As(err, &bare):
		err = fmt.Errorf("--%s: missing value: %s", bare.GetFlag().Name, bare.GetFlag().Usage)
	}
	return usageError{fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
}

// valid describes the values that a flag accepts, "" if its type does not say.
func valid(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a number with a unit (ns, us, ms, s, m or h), such as 500ms, 30s or 1m30s"
	case "durationSlice":
		return "numbers with a unit (ns, us, ms, s, m or h), separated by commas, such as 50ms,200ms"
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number, 0 or more"
	case "intSlice":
		return "whole numbers, separated by commas, such as 1,10"
	}
	return ""
}

// flagNames lists the flags of a command in alphabetical order.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("nettoll %s takes no argument, got %q (see nettoll %s --help)", cmd.Name(), args[0],
			cmd.Name())}
	}
	return nil
}

// oneExperiment checks the arguments of commands that take at most one experiment.
func oneExperiment(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("nettoll %s takes one experiment, got %q and %q", cmd.Name(), args[0], args[1])}
	}
	return nil
}

// numbers turns off completion for flags whose values nobody can guess.
func numbers(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // it fails only if there is no such flag
	}
}

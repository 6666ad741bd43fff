package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// onLinux lists the commands that need Linux. The others, such as report, work on every system.
func onLinux() []string { return []string{"run", "doctor", "lab", "clean", "study", "sink", "source"} }

// elsewhere replaces the commands that need Linux by an error if the system is another one. The error comes after the
// check of the arguments.
func elsewhere(root *cobra.Command, system string) {
	if system == "linux" {
		return
	}
	var here []string
	for _, name := range commands(root) {
		if !slices.Contains(onLinux(), name) {
			here = append(here, name)
		}
	}
	for _, c := range root.Commands() {
		if !slices.Contains(onLinux(), c.Name()) {
			continue
		}
		each(c, func(c *cobra.Command) {
			c.PersistentPreRunE, c.PersistentPreRun, c.PreRunE, c.PreRun, c.Run = nil, nil, nil, nil, nil
			c.RunE = func(c *cobra.Command, _ []string) error {
				return fmt.Errorf("%s needs the kernel of Linux, and this is %s (what works here: %s)", c.CommandPath(), system,
					strings.Join(here, ", "))
			}
		})
	}
}

// each calls f for a command and for all its subcommands, at every depth.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, below := range c.Commands() {
		each(below, f)
	}
}

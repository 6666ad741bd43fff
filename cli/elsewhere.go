package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// onLinux lists the commands that need the kernel of Linux. The others work on every system: reports are read where one
// writes.
func onLinux() []string { return []string{"run", "doctor", "lab", "clean", "study", "sink", "source"} }

// elsewhere makes the commands that need Linux say so on another system, once their arguments are found to be right.
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

// each calls f with a command and everything below it.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, below := range c.Commands() {
		each(below, f)
	}
}

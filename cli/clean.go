package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/linux/owned"
)

// journals returns the journals of a user's runs. Runs write to them before they take what outlives them.
func journals(uid int) journal.Place {
	dir, _ := owned.Runtime(uid, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	return journal.Place{Dir: filepath.Join(dir, "journals"), Steps: catalogue.New().Steps}
}

func cleanCommand(std Streams, rights *privileges) *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs left on the machine",
		Long: `Remove what killed runs left on the machine.

Hosts and containers end when nettoll ends, even if it is killed. A few things outlive them, such as a network card
that was moved into a container (network passthrough, nic=…). nettoll writes each of them to a journal before it takes
it. This command reads the journals of your runs and gives back what dead runs still hold. It touches nothing else:
runs and labs that are alive keep what they have. A run that takes such things does the same before it starts.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			uid, err := rights.user()
			if err != nil {
				return err
			}
			results, err := journals(uid).Clean(cmd.Context())
			if err != nil {
				return err
			}
			failed, said := false, false
			for _, r := range results {
				for _, text := range r.Removed {
					said = true
					fmt.Fprintf(std.Out, "undid a step of run %d: %s\n", r.PID, text)
				}
				switch {
				case r.Err != nil:
					failed = true
					fmt.Fprintf(std.Err, "nettoll: %v\n", r.Err)
				case r.Left != "":
					said = true
					fmt.Fprintf(std.Out, "left run %d alone: %s\n", r.PID, r.Left)
				}
			}
			if failed {
				return status(exitFailed)
			}
			if !said {
				fmt.Fprintln(std.Out, "nothing to clean up")
			}
			return nil
		},
	}
}

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

// journals is where the runs of a user note what outlives them.
func journals(uid int) journal.Place {
	dir, _ := owned.Runtime(uid, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	return journal.Place{Dir: filepath.Join(dir, "journals"), Steps: catalogue.New().Steps}
}

func (a *app) cleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Give back what runs that were killed had taken from the machine",
		Long: `Give back what runs that were killed had taken from the machine.

Hosts and containers end with nettoll, however that ends. What outlives them, such as a network card that was moved
into a container (network passthrough, nic=…), is written to a journal before it is taken. This command reads the
journals of your runs. What a run that is dead has not given back is given back, and nothing else is touched. Runs and
labs that live are left alone. A run that takes such things itself does the same before it begins.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			uid, err := a.user()
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
					fmt.Fprintf(a.Out, "removed, of run %d: %s\n", r.PID, text)
				}
				switch {
				case r.Err != nil:
					failed = true
					fmt.Fprintf(a.Err, "nettoll: %v\n", r.Err)
				case r.Left != "":
					said = true
					fmt.Fprintf(a.Out, "left alone, run %d: %s\n", r.PID, r.Left)
				}
			}
			if failed {
				return status(exitFailed)
			}
			if !said {
				fmt.Fprintln(a.Out, "there is nothing to clean up")
			}
			return nil
		},
	}
}

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/linux/owned"
)

// journals returns the journals of a user's runs. Runs write to them before they take what outlives them.
func journals(uid int) journal.Place {
	dir, _ := owned.Runtime(uid, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	return journal.Place{Dir: filepath.Join(dir, "journals"), Steps: catalogue.New().Steps()}
}

func cleanCommand(std Streams, rights *privileges) *cobra.Command {
	var f outputFlags
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs left on the machine",
		Long: `Remove what killed runs left on the machine.

Hosts and containers end when nettoll ends, even if it is killed. A few things outlive them, such as a network card
that was moved into a container (network passthrough, nic=…). nettoll writes each of them to a journal before it takes
it. This command reads the journals of your runs and gives back what dead runs still hold. It touches nothing else:
runs and labs that are alive keep what they have. A run that takes such things does the same before it starts.

With --output json it prints one list of objects, one for each run: pid, removed (steps, as sentences), left (why
nothing was touched) and error. With --output jsonl each object is a line. With --output csv each removed step is a
row.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := f.choose(cmd)
			if err != nil {
				return err
			}
			uid, err := rights.user()
			if err != nil {
				return err
			}
			results, err := journals(uid).Clean(cmd.Context())
			if err != nil {
				return err
			}
			if format != "text" {
				return writeCleaned(std.Out, results, format)
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
	f.register(cmd)
	return cmd
}

// cleaned is the result of clean for one run.
type cleaned struct {
	PID     int      `json:"pid"`
	Removed []string `json:"removed"`
	Left    string   `json:"left,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// writeCleaned writes what was cleaned up for scripts. It fails if something is left.
func writeCleaned(w io.Writer, results []journal.Result, format string) error {
	s := sheet{columns: []string{"pid", "removed", "left", "error"}}
	all, failed := []cleaned{}, false
	for _, r := range results {
		c := cleaned{PID: r.PID, Removed: append([]string{}, r.Removed...), Left: r.Left}
		if r.Err != nil {
			c.Error, failed = r.Err.Error(), true
		}
		all, s.objects = append(all, c), append(s.objects, c)
		for _, text := range c.Removed {
			s.rows = append(s.rows, []string{strconv.Itoa(c.PID), text, "", ""})
		}
		if c.Left != "" || c.Error != "" {
			s.rows = append(s.rows, []string{strconv.Itoa(c.PID), "", c.Left, c.Error})
		}
	}
	var err error
	if format == "json" {
		err = writeJSON(w, all)
	} else {
		err = s.write(w, format)
	}
	if err == nil && failed {
		err = status(exitFailed)
	}
	return err
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/linux/owned"
)

// journals returns the journals of a user's runs. Runs write to them before they take what outlives them.
func journals(uid int) journal.Place {
	dir, _ := owned.Runtime(uid, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
	return journal.Place{Dir: filepath.Join(dir, "journals"), Steps: catalogue.New().Steps()}
}

func cleanCommand(std Streams, rights *privileges) *cobra.Command {
	var f outputFlags
	var cluster string
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs left on the machine, or in a cluster",
		Long: `Remove what killed runs left on the machine, or in a cluster.

Hosts and containers end when nettoll ends, even if it is killed. A few things outlive them, such as a network card
that was moved into a container (network passthrough, nic=…). nettoll writes each of them to a journal before it takes
it. This command reads the journals of your runs and gives back what dead runs still hold. It touches nothing else:
runs and labs that are alive keep what they have. Each run does the same before it builds its first lab.

A Kubernetes cluster removes the pods of a killed run by itself, within minutes, if they have started. The namespace
that was made for the run stays, and so do policies of the whole cluster (networkpolicy, kind=admin) and pods that never
started. With --cluster this command removes such namespaces and policies, and the Jobs of dead runs in other
namespaces. A run is dead if none of its pods runs and its newest Job or pod is at least three minutes old. The command
touches nothing on the machine.

With --output json it prints one list of objects, one for each run: pid, removed (steps, as sentences), left (why
nothing was touched) and error; with --cluster one for each namespace, policy, Job and run: cluster, kind, removed or
left. With --output jsonl each object is a line. With --output csv each removed step is a row.`,
		Example: `  nettoll clean
  nettoll clean --cluster              the cluster of the current context of the kubeconfig
  nettoll clean --cluster=kind-kind    that of another context`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := f.choose(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("cluster") {
				return cleanCluster(cmd.Context(), std, strings.TrimPrefix(cluster, currentContext), format)
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
	registerCluster(cmd, &cluster, "remove namespaces, policies and Jobs that killed runs left in the cluster of this "+
		"context of the kubeconfig; without a value, the current one")
	return cmd
}

// currentContext is the value of --cluster without one, which no context has.
const currentContext = " "

// registerCluster adds the flag --cluster, which needs no value.
func registerCluster(cmd *cobra.Command, of *string, usage string) {
	cmd.Flags().StringVar(of, "cluster", "", usage)
	cmd.Flags().Lookup("cluster").NoOptDefVal = currentContext
	_ = cmd.RegisterFlagCompletionFunc("cluster", cobra.NoFileCompletions)
}

// cleanCluster removes what runs have left in a cluster.
func cleanCluster(ctx context.Context, std Streams, of, format string) error {
	done, err := kubernetes.Clean(ctx, kubectl.Options{Context: of})
	if err != nil && done.Cluster == "" {
		return err
	}
	if format == "text" {
		for _, r := range done.Removed {
			fmt.Fprintf(std.Out, "removed %s %s of cluster %s\n", r.Kind, r.Name, done.Cluster)
		}
		for _, r := range done.Left {
			fmt.Fprintf(std.Out, "left %s %s of cluster %s alone: %s\n", r.Kind, r.Name, done.Cluster, r.Why)
		}
		if err == nil && len(done.Removed)+len(done.Left) == 0 {
			fmt.Fprintf(std.Out, "nothing to clean up in cluster %s\n", done.Cluster)
		}
		return err
	}
	s := sheet{columns: []string{"cluster", "removed", "left", "kind"}}
	all := []cleanedObject{}
	for _, r := range done.Removed {
		all = append(all, cleanedObject{Cluster: done.Cluster, Kind: r.Kind, Removed: r.Name})
	}
	for _, r := range done.Left {
		all = append(all, cleanedObject{Cluster: done.Cluster, Kind: r.Kind, Left: r.Name, Why: r.Why})
	}
	for _, c := range all {
		s.objects, s.rows = append(s.objects, c), append(s.rows, []string{c.Cluster, c.Removed, c.Left, c.Kind})
	}
	if format == "json" {
		return errors.Join(writeJSON(std.Out, all), err)
	}
	return errors.Join(s.write(std.Out, format), err)
}

// cleanedObject is the result of clean for an object of a cluster, or for a run in a namespace of a user.
type cleanedObject struct {
	Cluster string `json:"cluster"`
	Kind    string `json:"kind"`
	Removed string `json:"removed,omitempty"` // its name, if it was removed
	Left    string `json:"left,omitempty"`    // its name, if it was not
	Why     string `json:"why,omitempty"`
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

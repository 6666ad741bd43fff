package cli

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/study"
)

// studyLifecycle measures what it takes to make and remove containers.
func studyLifecycle(o *study.Options, std Streams) *cobra.Command {
	plan := study.DefaultLifecyclePlan()
	var format outputFlags
	cmd := &cobra.Command{
		Use: "lifecycle", Short: "What it takes to make and remove containers, by runtime", Args: noArguments,
		Long: `Builds labs of one host with each runtime, in random order, and measures:

  - the time from the beginning until a packet has come back in every pair, and how much of it is the daemon's, the
    runtime's, the network's and the worker's
  - the time until containers are gone
  - the memory of programs that stay beside containers, such as daemons, shims and monitors, and of workers
  - beside that, the runtime's own commands, such as docker run and docker rm: on the same host, without a network,
    with the same program in the container, three times in each lab one after another, and as many at the same time
    as the lab makes containers

A pair is two containers. With --pairs 0 a lab has one container, alone, which sends its packet to its host. This needs
a network whose host has an address in their range, such as bridge.

Each figure is the median over rounds, with the smallest and the largest. Times and memory are per container, but for
first_byte_time, daemon_time and rest_time, which are those of the whole lab. Where several containers are made at the
same time, container_time is the time of all of them, divided by their number. What cannot be tried is listed with the
reason. After an interrupt, the figures so far are printed.

Other work on the machine makes all of it slower: compare figures of one run with each other.`,
		Example: `  nettoll study lifecycle
  nettoll study lifecycle --runtime 'netns,oci,oci(command=crun)' --pairs 1,50 --rounds 5
  nettoll study lifecycle --pairs 0,5
  nettoll study lifecycle --runtime docker --network nat --pairs 10 --output csv`,
	}
	var runtimes []string
	joined := study.Different
	cmd.Flags().StringArrayVar(&runtimes, "runtime", nil, "runtimes to measure, separated by commas, each NAME or "+
		"NAME(parameter=value,…); may be given more than once (default: all that this machine has)")
	cmd.Flags().StringVar(&joined, "network", joined, "the network of the containers, NAME or NAME(parameter=value,…)")
	cmd.Flags().IntSliceVar(&plan.Pairs, "pairs", plan.Pairs, "numbers of pairs; a pair is two containers, and 0 is one")
	cmd.Flags().IntVar(&plan.Rounds, "rounds", plan.Rounds, "how often everything is measured")
	format.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		chosen, err := format.choose(cmd)
		if err != nil {
			return err
		}
		if plan.Network, err = chooseText(o.Parts.Kinds, "network", joined); err != nil {
			return usageError{err}
		}
		var texts []string
		if len(runtimes) > 0 {
			texts = part.Split(strings.Join(runtimes, ","))
		}
		for _, text := range texts {
			c, err := chooseText(o.Parts.Kinds, "runtime", text)
			if err != nil {
				return usageError{err}
			}
			plan.Runtimes = append(plan.Runtimes, c)
		}
		if err := plan.Check(); err != nil {
			return usageError{err}
		}
		lives, err := o.Lifecycle(cmd.Context(), plan)
		if lives == nil || len(lives.Values) == 0 && err != nil {
			return err
		}
		if perr := printLives(std.Out, lives, chosen); perr != nil {
			return errors.Join(err, perr)
		}
		if cmd.Context().Err() != nil {
			return status(exitInterrupted)
		}
		return err
	}
	return cmd
}

// chooseText reads "oci(command=crun)".
func chooseText(all stack.Kinds, kind, text string) (stack.Choice, error) {
	name, given, err := part.Parse(kind, text)
	if err != nil {
		return stack.Choice{}, err
	}
	return all.Choose(kind, name, given)
}

// printLives writes what the study found.
func printLives(w io.Writer, l *study.Lives, format string) error {
	if format == "text" {
		return l.Text(w)
	}
	all := struct {
		Rounds  int                `json:"rounds"`
		Metrics []study.Metric     `json:"metrics"`
		Lives   []study.Life       `json:"lives"`
		Values  []study.LifeValue  `json:"values"`
		Missing []study.Unmeasured `json:"not_tried,omitempty"`
		Failed  []string           `json:"failed,omitempty"`
	}{l.Rounds, study.LifecycleMetrics(), l.Lives(), l.Values, l.Missing, l.Failed}
	if format == "json" {
		return writeJSON(w, all)
	}
	s := sheet{columns: []string{"runtime", "containers", "metric", "unit", "median", "least", "most", "rounds"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, one := range all.Lives {
		s.rows = append(s.rows, []string{
			one.Runtime, strconv.Itoa(one.Containers), one.Metric, one.Unit, number(one.Median), number(one.Least),
			number(one.Most), strconv.Itoa(one.Rounds),
		})
		s.objects = append(s.objects, line{"life", one})
	}
	for _, m := range all.Missing {
		s.objects = append(s.objects, line{"not_tried", m})
	}
	return s.write(w, format)
}

package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/study"
)

// studyBetween measures what is between hosts besides packets.
func studyBetween(o *study.Options, std Streams) *cobra.Command {
	plan := study.DefaultBetweenPlan()
	var format outputFlags
	cmd := &cobra.Command{
		Use: "between", Short: "What tunnels and encryptions cost besides packets", Args: noArguments,
		Long: `Builds labs with each tunnel and each encryption, and without one, in random order, and measures:

  setup     seconds until a lab stands and is verified, and how much of that is the carrier's
  first     seconds from applying the carrier (its program is started) to the first round trip between containers
  idle      the round trip of the first packet after some seconds without any, against the next ones
  rekey     the longest time without an answer, and packets lost, at 1000 packets a second while keys are renewed,
            against the same without that
  restart   the same while the programs of host 2 are killed and its carrier is applied again
  use       memory (PSS) and CPU of the programs without traffic

Each figure is the median over rounds, with the smallest and the largest. A ratio is to direct routing in the same
round. What cannot be tried is listed with the reason. After an interrupt, the figures so far are printed.

load_pause and rekey_pause are the longest times in which the study itself did not send, because other work had its
CPU. A gap that is not longer than that says nothing about the carrier: run it on an idle machine.`,
		Example: `  nettoll study between
  nettoll study between --encryption wireguard,openvpn --hosts 2 --rounds 5
  nettoll study between --tunnel 'vxlan(outer=ipv6)' --only setup,first --output csv`,
	}
	kinds := carrierKinds(o.Parts.Kinds)
	names := make([][]string, len(kinds))
	for i, kind := range kinds {
		d := kind.Describe()
		cmd.Flags().StringArrayVar(&names[i], d.Name, nil, d.Plural+" to measure, separated by commas, each NAME or "+
			"NAME(parameter=value,…); may be given more than once (default: all that this machine has, of every kind)")
	}
	cmd.Flags().IntSliceVar(&plan.Hosts, "hosts", plan.Hosts, "numbers of hosts; packets are sent with the first")
	cmd.Flags().IntVar(&plan.Rounds, "rounds", plan.Rounds, "how often everything is measured")
	cmd.Flags().DurationVar(&plan.Idle, "idle", plan.Idle, "how long no packet is sent before the first after that")
	cmd.Flags().DurationVar(&plan.Load, "load", plan.Load, "how long the time around new keys is, and that without")
	cmd.Flags().DurationVar(&plan.Quiet, "quiet", plan.Quiet, "how long programs are watched without traffic")
	cmd.Flags().IntVar(&plan.Renewals, "renewals", plan.Renewals, "how often keys are renewed under load")
	cmd.Flags().StringSliceVar(&plan.Only, "only", nil, "measure only these: "+strings.Join(study.Items(), ", "))
	format.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		chosen, err := format.choose(cmd)
		if err != nil {
			return err
		}
		for i, kind := range kinds {
			if len(names[i]) == 0 {
				continue
			}
			for _, text := range part.Split(strings.Join(names[i], ",")) {
				c, err := chooseCarrier(o.Parts.Kinds, kind.Describe().Name, text)
				if err != nil {
					return usageError{err}
				}
				plan.Carriers = append(plan.Carriers, c)
			}
		}
		if err := plan.Check(); err != nil {
			return usageError{err}
		}
		costs, err := o.Between(cmd.Context(), plan)
		if costs == nil || len(costs.Values) == 0 && err != nil {
			return err
		}
		if perr := printCosts(std.Out, costs, chosen); perr != nil {
			return errors.Join(err, perr)
		}
		if cmd.Context().Err() != nil {
			return status(exitInterrupted)
		}
		return err
	}
	return cmd
}

// carrierKinds are the kinds of parts that carry packets between hosts.
func carrierKinds(all stack.Kinds) stack.Kinds {
	var list stack.Kinds
	for _, kind := range all {
		for _, p := range kind.Parts() {
			if _, ok := p.Value.(network.Carrier); ok {
				list = append(list, kind)
				break
			}
		}
	}
	return list
}

// chooseCarrier reads "vxlan(outer=ipv6)".
func chooseCarrier(all stack.Kinds, kind, text string) (stack.Choice, error) {
	c, err := chooseText(all, kind, text)
	if err == nil && c.Part.Value == nil {
		err = fmt.Errorf("--%s %s carries nothing (hint: labs without a carrier are measured in any case)", kind, c.Part.Name)
	}
	return c, err
}

// printCosts writes what the study found.
func printCosts(w io.Writer, c *study.Costs, format string) error {
	if format == "text" {
		return c.Text(w)
	}
	all := struct {
		Rounds   int             `json:"rounds"`
		Metrics  []study.Metric  `json:"metrics"`
		Costs    []study.Cost    `json:"costs"`
		Values   []study.Value   `json:"values"`
		Missing  []study.Missing `json:"not_tried,omitempty"`
		Warnings []string        `json:"warnings,omitempty"`
	}{c.Rounds, study.BetweenMetrics(), c.Costs(), c.Values, c.Missing, c.Warnings}
	if format == "json" {
		return writeJSON(w, all)
	}
	s := sheet{columns: []string{"carrier", "hosts", "metric", "unit", "median", "least", "most", "rounds", "ratio"}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, one := range all.Costs {
		ratio := ""
		if one.Ratio > 0 {
			ratio = number(one.Ratio)
		}
		s.rows = append(s.rows, []string{
			one.Carrier, strconv.Itoa(one.Hosts), one.Metric, one.Unit, number(one.Median), number(one.Least),
			number(one.Most), strconv.Itoa(one.Rounds), ratio,
		})
		s.objects = append(s.objects, line{"cost", one})
	}
	for _, m := range all.Missing {
		s.objects = append(s.objects, line{"not_tried", m})
	}
	return s.write(w, format)
}

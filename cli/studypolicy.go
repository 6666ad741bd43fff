package cli

import (
	"errors"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/study"
)

// studyPolicy measures what policies of a cluster do in time.
func studyPolicy(o *study.Options, std Streams) *cobra.Command {
	plan := study.DefaultPolicyPlan()
	var format outputFlags
	cmd := &cobra.Command{
		Use: "policy", Short: "When policies of a Kubernetes cluster take effect, and what gets through until then",
		Args: noArguments,
		Long: `Measures what NetworkPolicy does in time, on a real cluster. A pod on one of two nodes sends messages to a pod on the
other one at a steady rate. Meanwhile policies come and go, for ingress and for egress apart, with and without rules
that never match:

  deny_time    from the API's answer to a policy that refuses everything until new flows are refused
  allow_time   from the API's answer to a second policy that allows the flow until new flows pass
  revoke_time  from the API's answer to its removal until new flows are refused again
  open_time    from the API's answer to the removal of the first policy until new flows pass
  answer_time  how long the API's answer took: the cluster may have known of the policy so much earlier

Each message of a new flow has another port. A UDP flow with answers and a TCP connection that were there before the
policy show what becomes of established flows.

Then fresh pods are made that a policy selects before they exist. Each sends from its first instruction on, and another
pod sends to it from when the API knows its address. What arrives got through although the policy refuses it.

Figures are means over rounds with their 95 % intervals, and medians. The column "± at most" is how far the value of a
round may be off: half the time between two messages, and the error of the clock of the sending node. If a network
plugin does not enforce policies, the study says so. After an interrupt, the figures so far are printed.`,
		Example: `  nettoll study policy
  nettoll study policy --context kind-kind --namespace measure --count 10
  nettoll study policy --pods 0 --rules 0 --output csv
  nettoll study policy --late 1s --pods 4 --batch 1    # a policy that comes too late is seen`,
		// No right on this machine is needed: what is measured is elsewhere.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
	}
	flags := cmd.Flags()
	flags.StringVar(&plan.Context, "context", "",
		"context of the kubeconfig that names the cluster (default: the current one)")
	flags.StringVar(&plan.Namespace, "namespace", "",
		"namespace of the pods (default: one that is made, and removed again)")
	flags.StringVar(&plan.Image, "image", experiment.DefaultImage, "image of the pods, which holds nettoll")
	flags.IntVar(&plan.Rounds, "count", plan.Rounds, "how often everything is measured")
	flags.IntSliceVar(&plan.Rules, "rules", plan.Rules, "numbers of address ranges that policies allow and nobody has")
	flags.DurationVar(&plan.Every, "every", plan.Every, "time between two messages")
	flags.DurationVar(&plan.Patience, "patience", plan.Patience,
		"how long a policy may take; then it counts as not enforced")
	flags.DurationVar(&plan.Follow, "follow", plan.Follow, "how long established flows are watched")
	flags.IntVar(&plan.Pods, "pods", plan.Pods, "number of fresh pods; 0 for none")
	flags.IntVar(&plan.Batch, "batch", plan.Batch, "how many fresh pods are made at a time, on one node")
	flags.DurationVar(&plan.Life, "life", plan.Life, "how long a fresh pod lives")
	flags.DurationVar(&plan.Late, "late", plan.Late,
		"make the policy of fresh pods so long after they run, which shows that an exposure is seen")
	format.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		chosen, err := format.choose(cmd)
		if err != nil {
			return err
		}
		if err := plan.Check(); err != nil {
			return usageError{err}
		}
		found, err := o.Policy(cmd.Context(), plan)
		if found == nil || len(found.Values) == 0 && len(found.Unenforced) == 0 && err != nil {
			return err
		}
		if perr := printPolicies(std.Out, found, chosen); perr != nil {
			return errors.Join(err, perr)
		}
		if cmd.Context().Err() != nil {
			return status(exitInterrupted)
		}
		return err
	}
	return cmd
}

// printPolicies writes what the study found.
func printPolicies(w io.Writer, p *study.Policies, format string) error {
	if format == "text" {
		return p.Text(w)
	}
	all := struct {
		Cluster    map[string]any         `json:"cluster"`
		Nodes      []string               `json:"nodes"`
		Rounds     int                    `json:"rounds"`
		Every      float64                `json:"every"`    // s
		Patience   float64                `json:"patience"` // s
		Follow     float64                `json:"follow"`   // s
		Metrics    []study.Metric         `json:"metrics"`
		Figures    []study.PolicyFigure   `json:"figures"`
		Values     []study.PolicyValue    `json:"values"`
		Survivals  []study.Survival       `json:"established"`
		Exposures  []study.Exposure       `json:"exposures,omitempty"`
		Births     []kubernetes.Newborn   `json:"fresh,omitempty"`
		Controls   []kubernetes.Newborn   `json:"fresh_without_policy,omitempty"`
		Unenforced []kubernetes.Direction `json:"not_enforced,omitempty"`
		Failed     []string               `json:"failed,omitempty"`
	}{
		p.Cluster, p.Nodes, p.Rounds, p.Plan.Every.Seconds(), p.Plan.Patience.Seconds(), p.Plan.Follow.Seconds(),
		study.PolicyMetrics(), p.Figures(), p.Values, p.Survivals, p.Exposures(), p.Births, p.Controls, p.Unenforced,
		p.Failed,
	}
	if format == "json" {
		return writeJSON(w, all)
	}
	s := sheet{columns: []string{
		"direction", "rules", "metric", "unit", "mean", "lo", "hi", "median", "least", "most", "resolution", "rounds",
	}}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	bound := func(x *float64) string {
		if x == nil {
			return ""
		}
		return number(*x)
	}
	for _, f := range all.Figures {
		s.rows = append(s.rows, []string{
			string(f.Direction), strconv.Itoa(f.Rules), f.Metric, f.Unit, number(f.Mean), bound(f.Lo), bound(f.Hi),
			number(f.Median), number(f.Least), number(f.Most), number(f.Resolution), strconv.Itoa(f.Rounds),
		})
		s.objects = append(s.objects, line{"figure", f})
	}
	for _, one := range all.Survivals {
		s.objects = append(s.objects, line{"established", one})
	}
	for _, one := range all.Exposures {
		s.objects = append(s.objects, line{"exposure", one})
	}
	for _, d := range all.Unenforced {
		s.objects = append(s.objects, line{"not_enforced", struct {
			Direction kubernetes.Direction `json:"direction"`
		}{d}})
	}
	return s.write(w, format)
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/study"
)

// studyCommand is hidden from help: it gives the evidence for nettoll's defaults and compares no networks.
func studyCommand(std Streams, from experiments, rights *privileges) *cobra.Command {
	o := &study.Options{
		Parts: from.catalogue.Parts(), Open: func() deploy.Deployment { return here(os.Geteuid()) },
		Out: std.Out, Progress: std.Err,
	}
	cmd := &cobra.Command{
		Use:    "study",
		Short:  "Measure nettoll itself: the evidence for its defaults",
		Hidden: true,
		Long: `Measures nettoll with nettoll. Its tables are the evidence for the defaults in docs/method.md.

  nettoll study trial        how long a trial has to be, by discipline, mode and pairs
  nettoll study twins        how often the interval of two equal stacks holds 1
  nettoll study effect       whether a planted delay is found, with its sign and size
  nettoll study compare      how often a comparison of two equal runs finds a difference
  nettoll study proofs       whether a lab that is proved and watched has other figures than one that is not
  nettoll study efficiency   what each way to more precision in the same time is worth
  nettoll study between      what tunnels and encryptions cost besides packets
  nettoll study lifecycle    what it takes to make and remove containers, by runtime
  nettoll study policy       when policies of a Kubernetes cluster take effect`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf(
					"unknown study %q (known: trial, twins, effect, compare, proofs, efficiency, between, lifecycle, policy)", args[0],
				)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if ended, err := rights.rootless(); ended || rights.refused != nil {
				return errors.Join(err, rights.refused)
			}
			cpus, err := thread.CPUs()
			o.CPUs = len(cpus)
			return err
		},
	}
	cmd.PersistentFlags().Uint64Var(&o.Seed, "seed", 1, "seed of the first run; each further run adds 1")

	plan := study.DefaultTrialPlan()
	trial := &cobra.Command{
		Use: "trial", Short: "How long a trial has to be", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Trials(cmd.Context(), plan) },
	}
	trial.Flags().StringArrayVar(&plan.Loads, "workload", plan.Loads, "workloads to study")
	trial.Flags().IntSliceVar(&plan.Pairs, "pairs", plan.Pairs, "numbers of pairs")
	trial.Flags().DurationSliceVar(&plan.Lengths, "length", plan.Lengths, "lengths to compare; the last is the reference")
	trial.Flags().DurationVar(&plan.Time, "time", plan.Time, "measuring time for each length")
	trial.Flags().IntVar(&plan.Rounds, "rounds", plan.Rounds, "how often all lengths are visited")

	comparisons, twinTime := 400, 3*time.Second
	twins := &cobra.Command{
		Use: "twins", Short: "How often the interval of two equal stacks holds 1", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Twins(cmd.Context(), comparisons, twinTime) },
	}
	twins.Flags().IntVar(&comparisons, "comparisons", comparisons, "how many comparisons, at least")
	twins.Flags().DurationVar(&twinTime, "time", twinTime, "measuring time of each run, at most")

	runs, share, alpha, effectTime := 10, 0.05, measure.Level, 5*time.Second
	effect := &cobra.Command{
		Use: "effect", Short: "Whether a planted delay is found", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.Effect(cmd.Context(), runs, share, alpha, effectTime)
		},
	}
	effect.Flags().IntVar(&runs, "runs", runs, "how many runs")
	effect.Flags().Float64Var(&share, "share", share, "the delay, as a share of the baseline's median round trip")
	effect.Flags().Float64Var(&alpha, "alpha", alpha, "error rate of all runs' intervals together")
	effect.Flags().DurationVar(&effectTime, "time", effectTime, "measuring time of each run, at most")

	runPairs, runTime := 20, time.Duration(0)
	compare := &cobra.Command{
		Use: "compare [EXPERIMENT]", Short: "How often a comparison of two equal runs finds a difference",
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := from.timed(args, runTime)
			if err != nil {
				return err
			}
			return o.Compare(cmd.Context(), e, runPairs)
		},
	}
	compare.Flags().IntVar(&runPairs, "pairs", runPairs, "how many pairs of runs")
	compare.Flags().DurationVar(&runTime, "time", runTime,
		"measuring time of each run, at most (default: the experiment's)")

	proofRuns, proofTime := 20, 20*time.Second
	proofs := &cobra.Command{
		Use: "proofs", Short: "Whether proofs move figures", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Proofs(cmd.Context(), proofRuns, proofTime) },
	}
	proofs.Flags().IntVar(&proofRuns, "runs", proofRuns, "how many runs")
	proofs.Flags().DurationVar(&proofTime, "time", proofTime, "measuring time of each run")

	rounds, efficiencyTime := 5, 20*time.Second
	efficiency := &cobra.Command{
		Use: "efficiency [EXPERIMENT]", Short: "What each way to more precision in the same time is worth",
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := from.timed(args, efficiencyTime)
			if err != nil {
				return err
			}
			return o.Efficiency(cmd.Context(), e, rounds)
		},
	}
	efficiency.Flags().IntVar(&rounds, "rounds", rounds, "how often each way is left out")
	efficiency.Flags().DurationVar(&efficiencyTime, "time", efficiencyTime, "measuring time of each run, at most")
	cmd.AddCommand(trial, twins, effect, compare, proofs, efficiency, studyBetween(o, std), studyLifecycle(o, std),
		studyPolicy(o, std))
	return cmd
}

// timed reads an experiment and gives it another measuring time, 0 for its own.
func (x experiments) timed(args []string, limit time.Duration) (experiment.Experiment, error) {
	var settings []experiment.Setting
	if limit > 0 {
		settings = append(settings, experiment.Setting{Flag: "--time", Path: "design.time", Value: limit.String()})
	}
	name, text, err := x.source(args)
	if err != nil {
		return experiment.Experiment{}, err
	}
	e, err := experiment.Read(name, text, settings, x.catalogue.Parts())
	if err != nil {
		return e, usageError{err}
	}
	return e, onlyHere(e, "nettoll study")
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/lab"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/attack"
)

// proving implements `prove`: it attacks labs without measuring them.
type proving struct {
	Streams
	experiments
	*privileges
}

// provePairs is how many pairs a lab has that is attacked.
const provePairs = "2"

// bothFamilies has filters list what is allowed over IPv4 and IPv6: an attack shows nothing where nothing is allowed.
const bothFamilies = "factors.family=[ipv4,ipv6]"

func (p proving) command() *cobra.Command {
	f := &experimentFlags{}
	out := outputFlags{formats: append(dataFormats(), "junit")}
	var stacks, chosen []string
	var placement, standing string
	var exhaustive bool
	cmd := &cobra.Command{
		Use:   "prove [EXPERIMENT.yaml | suite:NAME] [--stack NAME]...",
		Short: "Attack stacks from inside their containers and from the wire, without measuring",
		Long: `Builds a lab of each stack, has its kernel verify it, makes the proofs of a run, and then attacks it as root in
its containers would: with packets that no honest socket sends, which are counted where they arrive. Across hosts it
attacks from the wire, too: a program takes the place of the underlay's bridge, and reads, changes, repeats, drops and
makes up frames (attacks wire-...). nettoll list attack explains the attacks. Nothing is measured, and nothing leaves
the lab.

Each attack on a stack with a filter is also made on the same stack without it, the control: if something arrives there,
the attack works, and it is the filter that stops it. For attacks from the wire, the control is the same stack without
its encryption. Some attacks need another control, which nettoll list attack names. Of each attack the table says how
many packets arrived of those that must not, and one of these verdicts:

  claimed and held       the stack claims that nothing arrives, and nothing does
  claimed and broken     the stack claims that nothing arrives, and something does
  not claimed and open   something arrives, and the stack does not claim otherwise, for the reason given
  not claimed, closed    nothing arrives, although the stack does not claim that
  cannot be told         what is allowed did not arrive either, nothing arrives on the control, or the attack failed or
                         took too long
  not tried              no packet of the attack was sent, for the reason given
  refused by the         no packet of the attack was sent: root in the containers lacks the right, such as CAP_NET_RAW,
  container's rights     so neither the network nor a filter was tried

Each part of a stack says what it claims, and a stack claims what one of its parts does. Other formats call the first
four withstood, broken, open and closed, and the last one refused by rights.

CSV and JSON lines have a row for each attack and family, after one for each other claim of the lab: that has no attack,
and column claim has the claim in words, verdict one of holds, broken and cannot be told, and why the reason. Column
family_verdict has the verdict of the family alone, and verdict that of both. If they differ, the table has both.
JUnit has a test case for each claim and each attack, an error if something failed after the attacks, and a skipped test
case for a control that was not attacked.

Containers of runtimes other than netns attack with their own rights, which the table begins with.

With --lab it proves and attacks a lab that nettoll lab up has built, as it stands now: what was changed in it since is
named.
Controls are built beside it. The last attacks leave the lab confused: addresses are taken over, and taken back.

Without --stack it proves all stacks of the experiment. Without an experiment a stack can be any network, with any
filter, tunnel and encryption.

Exit status: 0 every claim holds that was tried; 3 a lab could not be attacked, or something cannot be told; 4 a claim
does not hold.`,
		Example: `  nettoll prove --stack bridge+nftables
  nettoll prove --stack 'bridge+nftables(antispoof=on)' --stack bridge --placement cross-host
  nettoll prove --stack macvlan+nftables --attack guise,takeover
  nettoll prove --stack bridge+vxlan+wireguard --attack wire-flip,wire-plain
  nettoll prove --stack nat+ipsec --attack wire   those from the wire (inside: those from inside the containers)
  nettoll prove --lab bridge                    a lab of nettoll lab up, with what you have changed in it
  nettoll prove my.yaml --exhaustive            every port of every allowed pair
  nettoll prove my.yaml --output json | jq '.[].attacks[] | select(.verdict == "broken")'`,
		Args: oneExperiment,
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := out.choose(cmd)
			if err != nil {
				return err
			}
			attacks, err := chosenAttacks(chosen)
			if err != nil {
				return usageError{err}
			}
			if cmd.Flags().Changed("lab") {
				return p.standing(cmd, args, standing, lab.Attacks{Attacks: attacks, Exhaustive: exhaustive}, format)
			}
			if ended, err := p.rootless(); ended {
				return err
			}
			if placement != "" {
				f.placements = []string{placement}
			}
			f.set = []string{labLoad, bothFamilies}
			if !cmd.Flags().Changed("pairs") {
				f.set = append(f.set, "factors.pairs=["+provePairs+"]")
			}
			all, err := p.labs(cmd, args, f, stacks, placement)
			if err != nil {
				return err
			}
			if p.refused != nil {
				return p.refused
			}
			return p.prove(cmd.Context(), all, attacks, exhaustive, format)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&stacks, "stack", nil, "a stack, as in the cells of the experiment; without an experiment "+
		"NETWORK+FILTER, each with its parameters; may be repeated")
	flags.StringSliceVar(&chosen, "attack", nil, "make only these attacks: names of nettoll list attack, inside, wire or "+
		"none, separated by commas (default: all)")
	flags.StringVar(&placement, "placement", "", "placement of the two ends of a pair: same-host, cross-host "+
		"(default: the first in the experiment that the stack has)")
	flags.StringVar(&f.pairs, "pairs", "", "number of pairs (default "+provePairs+": each has a neighbour)")
	flags.BoolVar(&exhaustive, "exhaustive", false, "try every port of each allowed pair, not some of each range")
	flags.StringVar(&standing, "lab", "", "attack the live lab of this name instead")
	out.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("lab", labs(p).names)
	_ = cmd.RegisterFlagCompletionFunc("placement", single(words(experiment.Placements())))
	_ = cmd.RegisterFlagCompletionFunc("attack", listed(attackChoices()))
	_ = cmd.RegisterFlagCompletionFunc("stack", cobra.NoFileCompletions)
	cmd.ValidArgsFunction = first(1, suitesOr(found(isExperiment)))
	return cmd
}

// chosenAttacks returns the attacks with these names, all if there are none.
func chosenAttacks(names []string) ([]attack.Attack, error) {
	if len(names) == 0 {
		return control.KnownAttacks(), nil
	}
	list, err := experiment.ChosenAttacks(names)
	if err != nil {
		return nil, fmt.Errorf("--attack: %w", err)
	}
	return list, nil
}

// labs returns an experiment for each lab that is attacked.
func (p proving) labs(cmd *cobra.Command, args []string, f *experimentFlags, stacks []string, placement string,
) (list []*experiment.Resolved, err error) {
	for _, name := range stacks {
		own := *f
		one, err := p.labOf(cmd, args, &own, name, placement)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	if len(stacks) == 0 {
		all, err := p.resolve(cmd, args, f)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for i, l := range all.Labs {
			place := fmt.Sprintf("%s/%s", l.Named, l.Placement)
			if !seen[place] { // a twin is the same once more
				list = append(list, all.Only(i))
			}
			seen[place] = true
		}
	}
	for _, l := range list {
		if err := fits(l); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// standing attacks a live lab.
func (p proving) standing(cmd *cobra.Command, args []string, name string, with lab.Attacks, format string) error {
	wrong := ""
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"stack", "placement", "pairs"}, f.Name) {
			wrong = "--" + f.Name
		}
	})
	if len(args) > 0 {
		wrong = strconv.Quote(args[0])
	}
	if wrong != "" {
		return usageError{fmt.Errorf("--lab attacks a lab as it stands, and excludes %s", wrong)}
	}
	of, err := labs(p).of(name)
	if err != nil {
		return err
	}
	said := newLine(p.Err)
	got, err := of.Attack(cmd.Context(), with, func(what string) { said.proving(1, 1, of.Name, what) })
	said.done()
	if err != nil {
		return err
	}
	one := provedLab{
		Lab: got.Lab, Stack: got.Stack, Placement: string(got.Placement), Pairs: got.Pairs, Attacks: got.Results,
		NotTried: got.NotTried, Failed: got.Failed, Matrix: &got.Matrix, Rights: got.Rights,
		Proofs:  provedClaims(slices.Concat([]measure.Proof{got.Unchanged}, got.Proofs, got.Matrix.Proofs())),
		Control: got.Control, NoControl: got.NoControl, WireControl: got.WireControl, NoWireControl: got.NoWireControl,
	}
	list := []provedLab{one}
	if err := writeProved(p.Out, list, format); err != nil {
		return err
	}
	return provedStatus(list)
}

func (p proving) prove(ctx context.Context, all []*experiment.Resolved, attacks []attack.Attack, exhaustive bool,
	format string,
) error {
	cpus, err := thread.CPUs()
	if err != nil {
		return err
	}
	said := newLine(p.Err)
	defer said.done()
	list := []provedLab{}
	with := &control.Attacker{
		Parts: p.catalogue.Parts(), CPUs: len(cpus), Attacks: attacks, Exhaustive: exhaustive,
		Deploy: func() deploy.Deployment { return here(os.Geteuid()) },
	}
	for i, r := range all {
		one, err := attackLab(ctx, with, r, func(what string) { said.proving(i+1, len(all), r.Labs[0].ID, what) })
		if ctx.Err() != nil {
			said.done()
			fmt.Fprintln(p.Err, "nettoll: interrupted")
			break
		}
		if err != nil {
			one.NotTried, one.failed = err.Error(), true
		}
		list = append(list, one)
	}
	said.done()
	if err := writeProved(p.Out, list, format); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return status(exitInterrupted)
	}
	return provedStatus(list)
}

// attackLab attacks a lab, and its controls unless they were attacked before.
func attackLab(ctx context.Context, with *control.Attacker, r *experiment.Resolved, say func(string),
) (provedLab, error) {
	l := r.Labs[0]
	one := provedLab{Lab: l.ID, Stack: l.Named, Placement: string(l.Placement), Pairs: l.Pairs}
	if err := l.Stack.Check(); err != nil {
		return one, err
	}
	got, err := with.Attack(ctx, r, say)
	one.Proofs, one.Rights, one.Attacks, one.NotTried = provedClaims(got.Proofs), got.Rights, got.Results, got.NotTried
	one.Failed = got.Failed
	one.Control, one.NoControl, one.WireControl, one.NoWireControl = got.Control, got.NoControl, got.WireControl,
		got.NoWireControl
	if got.Matrix.Of != nil || got.Matrix.NotTried != "" {
		one.Matrix = &got.Matrix
	}
	return one, err
}

// proving shows which lab is attacked, and with what.
func (p *progress) proving(n, all int, id, what string) {
	line := fmt.Sprintf("lab %d of %d, %s: %s", n, all, id, what)
	if !p.terminal {
		if now := p.now(); now.Sub(p.last) >= proveEvery {
			p.last = now
			fmt.Fprintln(p.w, line)
		}
		return
	}
	width := cmp.Or(max(0, p.width()), usualWidth)
	p.show(line[:min(len(line), width-1)])
}

// proveEvery is the time between lines of progress where there is no terminal.
const proveEvery = 2 * time.Second

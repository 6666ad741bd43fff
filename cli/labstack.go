package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/stack"
)

// written returns the settings that turn the default experiment into one with this stack, which is written as its
// parts, such as "routed+nftables(rules=1000)". If the first part is unknown, the text is the name of a stack, and
// written returns none.
func (l library) written(text string) ([]experiment.Setting, error) {
	text, settings := stack.Settings(text)
	s, err := l.catalogue.Kinds.Parse(text)
	if unknown, ok := errors.AsType[*part.UnknownError](err); ok {
		if unknown.Kind == l.catalogue.Kinds[0].Describe().Name {
			return nil, nil
		}
		return nil, fmt.Errorf("--stack: %w%s", err, part.Meant(unknown.Name, unknown.Known))
	}
	if err != nil {
		return nil, fmt.Errorf("--stack: %w", err)
	}
	var written []experiment.Setting
	for _, c := range s {
		if kind := c.Kind.Describe().Name; !c.Standard() {
			written = append(written, experiment.Setting{
				Flag: "--stack", Path: "factors." + kind, Value: experiment.FlowChoice(c.Part.Name, c.Params),
			})
		}
	}
	for _, own := range settings {
		written = append(written, experiment.Setting{
			Flag: "--stack", Path: experiment.SettingPath(own), Value: strconv.Quote(own.Value),
		})
	}
	return written, nil
}

// labOf returns an experiment with only the first lab of a stack. Without an experiment in args the stack can be any.
func (x experiments) labOf(cmd *cobra.Command, args []string, f *experimentFlags, stack, placement string,
) (*experiment.Resolved, error) {
	resolved, err := x.resolve(cmd, args, f)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 && !slices.Contains(stackNames(resolved), stack) {
		stack = x.named(resolved, stack)
	}
	if len(args) == 0 && !slices.Contains(stackNames(resolved), stack) {
		if f.more, err = x.written(stack); err != nil {
			return nil, usageError{err}
		}
	}
	if f.more != nil {
		if resolved, err = x.resolve(cmd, args, f); err != nil {
			return nil, err
		}
		if names := stackNames(resolved); len(names) == 2 { // the other is the baseline
			stack = names[1]
		}
	}
	return chooseLab(resolved, stack, placement)
}

// named returns the name of the stack in an experiment that is written as its parts, such as "host@netns" for "host";
// the text itself if there is none.
func (l library) named(r *experiment.Resolved, text string) string {
	s, err := l.catalogue.Kinds.Parse(text)
	if err != nil {
		return text
	}
	i := slices.IndexFunc(r.Labs, func(of experiment.Lab) bool { return of.Stack.Equal(s) })
	if i < 0 {
		return text
	}
	return r.Labs[i].Named
}

func stackNames(r *experiment.Resolved) []string {
	var names []string
	for _, l := range r.Labs {
		if !slices.Contains(names, l.Named) {
			names = append(names, l.Named)
		}
	}
	return names
}

// chooseLab returns an experiment with only the first lab of this stack.
func chooseLab(r *experiment.Resolved, stack, placement string) (*experiment.Resolved, error) {
	names := stackNames(r)
	i := slices.IndexFunc(r.Labs, func(l experiment.Lab) bool { return l.Named == stack })
	if i >= 0 {
		return r.Only(i), nil
	}
	known := strings.Join(names, ", ")
	for _, o := range r.Omitted {
		if o.Stack == stack && stack != "" {
			return nil, usageError{fmt.Errorf("--stack %q: the experiment leaves it out: %s: %s (known: %s)", stack, o.What,
				o.Reason, known)}
		}
	}
	if stack == "" {
		return nil, usageError{fmt.Errorf("missing --stack, the stack to build (known: %s)",
			known)}
	}
	if placement != "" {
		known += "; at " + placement
	}
	return nil, usageError{fmt.Errorf("--stack: %w", &experiment.UnknownError{
		Kind: "stack", Name: stack, Known: []string{known},
	})}
}

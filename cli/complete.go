package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/report"
	"github.com/nettoll/nettoll/stack"
)

// shell is a shell for which nettoll can print a completion script.
type shell struct {
	name    string
	install string // how to install the script, for help
	script  func(root *cobra.Command, w io.Writer) error
}

func shells() []shell {
	return []shell{
		{
			"bash", `bash (needs the package bash-completion):
  nettoll completion bash > ~/.local/share/bash-completion/completions/nettoll`,
			func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		},
		{
			"zsh", `zsh (needs "autoload -U compinit; compinit" in ~/.zshrc):
  nettoll completion zsh > "${fpath[1]}/_nettoll"`,
			func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		},
		{
			"fish", `fish:
  nettoll completion fish > ~/.config/fish/completions/nettoll.fish`,
			func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		},
	}
}

func shellNames() []string {
	var names []string
	for _, s := range shells() {
		names = append(names, s.name)
	}
	return names
}

func completionCommand(std Streams) *cobra.Command {
	known := strings.Join(shellNames(), ", ")
	var installs []string
	for _, s := range shells() {
		installs = append(installs, s.install)
	}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script for shell completion",
		Long: `Prints a script that makes a shell (` + known + `) complete what is typed after nettoll: commands, flags, parts
and their parameters, experiments, and run directories. Install it once; it works in every new shell.

` + strings.Join(installs, "\n\n") + `

In bash and zsh, type a backslash before a parenthesis: --workload udp-rr\(mode=`,
		Example: `  source <(nettoll completion bash)     for this shell only`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("nettoll completion takes one argument, the shell, got %d (known: %s)", len(args),
					known)}
			}
			if !slices.Contains(shellNames(), args[0]) {
				return usageError{fmt.Errorf("unknown shell %q (known: %s)", args[0], known)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells()[slices.Index(shellNames(), args[0])].script(cmd.Root(), std.Out)
		},
	}
}

// complete registers how flags and arguments of every command are completed. It goes by their names, so a flag is
// completed in the same way at every command. It leaves alone what a command completes itself.
func (l library) complete(root *cobra.Command) {
	flags, arguments := l.flagValues(), l.arguments()
	each(root, func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			values, known := flags[f.Name]
			if _, has := c.GetFlagCompletionFunc(f.Name); known && !has {
				_ = c.RegisterFlagCompletionFunc(f.Name, values) // it fails only if one is registered
			}
		})
		if c.ValidArgsFunction == nil && c.ValidArgs == nil && !c.HasSubCommands() {
			c.ValidArgsFunction = cobra.NoFileCompletions
			if values := arguments[c.Name()]; values != nil && c.Parent() == root {
				c.ValidArgsFunction = values
			}
		}
	})
}

// flagValues returns the completion of each flag by its name. Other flags are completed with file names.
func (l library) flagValues() map[string]cobra.CompletionFunc {
	values := map[string]cobra.CompletionFunc{
		"workload":           mixed(l.workloadChoices(), l.ownChoices()),
		"placement":          listed(words(experiment.Placements())),
		"attacks":            listed(attackChoices()),
		"affinity":           single(words(experiment.Affinities())),
		"idle":               single(words(experiment.Idles())),
		"probe":              single(words(l.catalogue.Parts().ProbeNames())),
		"pilot":              found(isRun),
		"fail-on":            listed(words(report.GateWords())),
		"congestion-control": listed(words(control.CongestionControls())),
		"baseline":           single(partChoices(l.catalogue.Kinds[0])),
	}
	for _, kind := range l.catalogue.Kinds {
		values[kind.Describe().Name] = listed(partChoices(kind))
	}
	for _, number := range []string{
		"pairs", "time", "precision", "margin", "spoiled", "proof-budget", "generations", "trial", "seed", "mtu", "set",
	} {
		values[number] = cobra.NoFileCompletions
	}
	return values
}

// arguments returns the completion of arguments by the name of the command. Other commands take no arguments.
func (l library) arguments() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"run":        first(1, suitesOr(found(isExperiment))),
		"plan":       first(1, suitesOr(found(isExperiment))),
		"report":     first(1, found(isRun)),
		"compare":    first(mostCompared, found(isRun)),
		"list":       first(1, single(words(slices.Compact(append(l.kinds(), l.names()...))))),
		"completion": first(1, single(words(shellNames()))),
	}
}

// choice is a word that completion offers.
type choice struct {
	name, summary string
	params        part.List
}

func words[T ~string](names []T) []choice {
	choices := make([]choice, len(names))
	for i, n := range names {
		choices[i].name = string(n)
	}
	return choices
}

// attackChoices returns the words for several attacks, and the names of all.
func attackChoices() (list []choice) {
	for _, w := range experiment.AttackWords() {
		list = append(list, choice{name: w[0], summary: w[1]})
	}
	return append(list, words(experiment.Attacks())...)
}

// partChoices returns the parts of a kind that a stack can have.
func partChoices(kind stack.Kind) []choice {
	var choices []choice
	for _, p := range stack.Choices(kind) {
		choices = append(choices, choice{p.Name, p.Summary, p.Params})
	}
	return choices
}

func (l library) workloadChoices() []choice {
	driver := part.Param{
		Name: "driver", Default: "nettoll", Summary: "whose program drives the traffic",
		Values: []string{"nettoll"},
	}
	for _, d := range l.catalogue.Parts().Drivers {
		driver.Values = append(driver.Values, d.Describe().Name)
	}
	var choices []choice
	for _, w := range l.catalogue.Workloads {
		d := w.Describe()
		choices = append(choices, choice{d.Name, d.Summary, append(slices.Clip(d.Params), driver)})
	}
	return append(choices, choice{experiment.Mix, experiment.MixSummary, nil})
}

// single completes one choice, and the parameters in parentheses after it.
func single(choices []choice) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return complete("", typed, choices)
	}
}

// mixed completes one choice, or the members inside the parentheses of a mix.
func mixed(choices, members []choice) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if !strings.HasPrefix(typed, experiment.Mix+"(") {
			return complete("", typed, choices)
		}
		list := part.Split(strings.TrimPrefix(typed, experiment.Mix+"("))
		last := list[len(list)-1]
		can, directive := complete(strings.TrimSuffix(typed, last), last, members)
		return can, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// listed completes choices separated by commas. It offers each of them once.
func listed(choices []choice) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		given := part.Split(typed)
		last := given[len(given)-1]
		before := strings.TrimSuffix(typed, last)
		rest := slices.DeleteFunc(slices.Clone(choices), func(c choice) bool {
			return slices.Contains(strings.Split(before, ","), c.name)
		})
		return complete(before, last, rest)
	}
}

// complete returns the completions of the word typed. Each begins with before, the part of the line to its left.
func complete(before, typed string, choices []choice) ([]string, cobra.ShellCompDirective) {
	name, inside, open := strings.Cut(typed, "(")
	var can []string
	for _, c := range choices {
		if !open {
			if strings.HasPrefix(c.name, typed) {
				can = append(can, cobra.CompletionWithDesc(before+c.name, c.summary))
			}
			continue
		}
		if c.name == name {
			given, last := "", inside
			if comma := strings.LastIndexByte(inside, ','); comma >= 0 {
				given, last = inside[:comma+1], inside[comma+1:]
			}
			can = parameters(before+name+"("+given, given, last, c.params)
		}
	}
	if open {
		return can, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
	}
	return can, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// parameters returns the completions of the last parameter in a parenthesis. It does not offer those that given has,
// such as "payload=64,".
func parameters(before, given, typed string, params part.List) []string {
	name, value, valued := strings.Cut(typed, "=")
	var can []string
	for _, p := range params {
		switch {
		case !valued && strings.HasPrefix(p.Name, typed) && !strings.Contains(","+given, ","+p.Name+"="):
			can = append(can, cobra.CompletionWithDesc(before+p.Name+"=", p.Summary))
		case valued && p.Name == name:
			values := p.Values
			if values == nil {
				values = []string{p.Default}
			}
			for _, v := range values {
				if strings.HasPrefix(v, value) {
					can = append(can, before+name+"="+v)
				}
			}
		}
	}
	return can
}

// mostCompared is the largest number of run directories that completion offers for compare.
const mostCompared = 20

// first completes the first n arguments.
func first(n int, values cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(cmd, args, typed)
	}
}

// isRun reports whether a path is a run directory.
func isRun(path string) bool {
	info, err := os.Stat(filepath.Join(path, control.RunFile))
	return err == nil && info.Mode().IsRegular()
}

func isExperiment(path string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path))
}

// suitesOr completes suites, and then whatever others completes.
func suitesOr(others cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		named, _ := single(words(suites()))(cmd, args, typed)
		can, directive := others(cmd, args, typed)
		return append(named, can...), directive
	}
}

// found completes the paths that are wanted. If a directory has none, it offers the directories below it.
func found(wanted func(path string) bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		dir, start := filepath.Split(typed)
		entries, err := os.ReadDir(filepath.Clean(dir)) // "" becomes ".", the current directory
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var can, below []string
		for _, e := range entries {
			path := dir + e.Name()
			switch {
			case !strings.HasPrefix(e.Name(), start) || start == "" && strings.HasPrefix(e.Name(), "."):
			case wanted(path):
				if !slices.Contains(args, path) {
					can = append(can, path)
				}
			case e.IsDir():
				below = append(below, path+string(filepath.Separator))
			}
		}
		if can == nil {
			return below, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return can, cobra.ShellCompDirectiveNoFileComp
	}
}

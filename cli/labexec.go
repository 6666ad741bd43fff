package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/lab"
)

const (
	// exitNoProgram is the status of a shell if the program does not exist.
	exitNoProgram = 127
	// lastOutput is how long exec waits for the last output of a terminal after the command has ended. A process that the
	// command left behind may keep the terminal open.
	lastOutput = 100 * time.Millisecond
)

func (l labs) execCommand() *cobra.Command {
	var name string
	var more []string
	cmd := &cobra.Command{
		Use:   "exec PLACE [-- COMMAND [ARGUMENT]...]",
		Short: "Run a command on a host or in a container of a lab",
		Long: `Runs a command in a lab: on a host (h1, h2, …), in a container (h1/src0, h2/snk0, or just src0), or on the
underlay that joins the hosts. In a container the command sees the container's network and the host's processes and
mounts. Without a command, it starts a shell.

Standard input and output, signals and the exit status are those of the command. On a terminal the command has a
terminal of its own. The variables NETTOLL_LAB and NETTOLL_AT name the place. Of your environment
it gets only ` + strings.Join(environment(), ", ") + `,
and what --env names.`,
		Example: `  nettoll lab exec h1/src0 -- ping -c 3 10.1.1.1
  nettoll lab exec h1 -- nft list ruleset
  nettoll lab exec underlay -- tcpdump -ni host1                 what passes between host 1 and the underlay
  nettoll lab exec underlay/router1 -- ip route                  the router of host 1 (underlay.hops=2)
  nettoll lab exec --env TOKEN --env DEBUG=1 h1/src0 -- ./client
  nettoll lab exec h2                         a shell`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("nettoll lab exec: missing PLACE (valid: a host such as h1, a container " +
					"such as h1/src0, underlay)")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := l.of(name)
			if err != nil {
				return err
			}
			argv := args[1:]
			if len(argv) == 0 {
				argv = []string{"/bin/sh"}
				if shell := os.Getenv("SHELL"); shell != "" {
					argv[0] = shell
				}
			}
			env, err := environ(os.Environ(), more)
			if err != nil {
				return err
			}
			path, err := exec.LookPath(argv[0])
			if err != nil {
				fmt.Fprintf(l.Err, "nettoll: %v\n", err)
				return status(exitNoProgram)
			}
			dir, err := os.Getwd()
			if err != nil {
				dir = "/"
			}
			return l.exec(cmd.Context(), of, lab.Command{At: args[0], Path: path, Args: argv, Env: env, Dir: dir})
		},
	}
	l.flag(cmd, &name)
	cmd.Flags().StringArrayVar(&more, "env", nil,
		"also pass this variable: NAME with its value here, or NAME=VALUE; may be given more than once")
	_ = cmd.RegisterFlagCompletionFunc("env", cobra.NoFileCompletions)
	cmd.ValidArgsFunction = first(1,
		func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			labs, _, err := l.registry()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			of, err := labNamed(labs, name)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			places, _ := of.Places(cmd.Context()) // none if the owner does not answer
			return plainly(places)(cmd, args, typed)
		})
	return cmd
}

// environment lists the variables that a command in a lab gets: paths of programs and settings of the user's terminal
// and language, but no secrets. A star stands for any ending.
func environment() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE",
		"LC_*", "TZ", "EDITOR", "VISUAL", "PAGER",
	}
}

// environ selects from all the variables of [environment] and those that more names. An entry of more is "NAME" or
// "NAME=VALUE".
func environ(all, more []string) ([]string, error) {
	allowed := environment()
	var env []string
	for _, m := range more {
		name, _, given := strings.Cut(m, "=")
		if name == "" {
			return nil, usageError{fmt.Errorf("invalid value %q for --env (valid: NAME, NAME=VALUE)", m)}
		}
		if given {
			env = append(env, m)
		} else {
			allowed = append(allowed, name)
		}
	}
	var from []string
	for _, e := range all {
		name, _, _ := strings.Cut(e, "=")
		if slices.ContainsFunc(allowed, func(a string) bool {
			start, open := strings.CutSuffix(a, "*")
			return a == name || open && strings.HasPrefix(name, start)
		}) {
			from = append(from, e)
		}
	}
	return append(from, env...), nil
}

// exec runs a command to its end. If its exit status is not 0, the error is a [status].
func (l labs) exec(ctx context.Context, of *lab.Lab, c lab.Command) error {
	in, isFile := l.In.(*os.File)
	out, isFile2 := l.Out.(*os.File)
	said, isFile3 := l.Err.(*os.File)
	if !isFile || !isFile2 || !isFile3 {
		return errors.New("lab exec: standard input, output and error must be files")
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	ctx = context.WithoutCancel(ctx)
	l.release() // the command gets the interrupts
	var run *lab.Run
	var err error
	restore := func() {}
	if term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) {
		c.Terminal = true
		run, restore, err = onTerminal(ctx, of, c, in, out)
	} else {
		run, err = of.Run(ctx, c, [3]*os.File{in, out, said})
	}
	if err != nil {
		return err
	}
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				run.Signal(number)
			}
		}
	}()
	code, err := run.Wait()
	restore()
	if err != nil {
		return err
	}
	if code != exitDone {
		return status(code)
	}
	return nil
}

// onTerminal runs the command on a terminal of its own and joins that to the user's. The user's terminal belongs to a
// session outside and cannot be the command's (tty_ioctl(4), TIOCSCTTY). Without a terminal of its own, a shell can
// neither stop nor interrupt its jobs. Call restore when the command has ended.
func onTerminal(ctx context.Context, of *lab.Lab, c lab.Command, in, out *os.File) (_ *lab.Run, restore func(),
	err error,
) {
	terminal, theirs, err := process.NewTerminal()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	unfollow := terminal.Follow(out)
	run, err := of.Run(ctx, c, [3]*os.File{theirs, theirs, theirs})
	if err != nil {
		return nil, nil, err
	}
	before, err := term.MakeRaw(int(in.Fd())) // the other terminal interprets the keys
	if err != nil {
		return nil, nil, fmt.Errorf("set up the terminal: %w", err)
	}
	go func() { _, _ = io.Copy(terminal, in) }() // ends with this process
	drained := make(chan struct{})
	go func() {
		_, _ = io.Copy(out, terminal) // until the last process closes the other terminal
		close(drained)
	}()
	return run, func() {
		select {
		case <-drained:
		case <-time.After(lastOutput):
		}
		unfollow()
		_ = term.Restore(int(in.Fd()), before)
	}, nil
}

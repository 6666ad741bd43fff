package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/procfs"
)

const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartly      = 3  // done, but some cells failed or are unsupported here
	exitUnproven    = 4  // done, but a claim of a stack did not hold
	exitCrashed     = 70 // EX_SOFTWARE of sysexits.h
	exitInterrupted = 130
	exitAborted     = 134 // 128 + SIGABRT: the status that a shell reports for it
)

// exitStatus is an exit status and its meaning in help and manual.
type exitStatus struct {
	code    int
	meaning string
}

func exitStatuses() []exitStatus {
	return []exitStatus{
		{exitDone, "done"},
		{exitFailed, "failed"},
		{exitUsage, "wrong usage or an invalid experiment; nothing was built"},
		{exitPartly, "done, but some cells (with source: intervals) failed or are unsupported here"},
		{exitUnproven, "done, but a proof failed: a stack did not do what it claims"},
		{exitCrashed, "nettoll crashed: a bug, please report it"},
		{exitInterrupted, "interrupted (Ctrl-C, SIGTERM, SIGHUP); the report shows what was measured"},
		{exitAborted, "nettoll crashed, or the machine ran out of threads or memory"},
	}
}

// usageError is an error in the command line or in the experiment: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// unprovenError is why a run ended in which a proof failed: exit status 4.
type unprovenError struct{ error }

func (e unprovenError) Unwrap() error { return e.error }

// status is an error that carries only an exit status: its cause was already printed.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// app holds what commands share. Each command gets only the fields that it needs.
type app struct {
	Streams
	build
	experiments
	*privileges
	verbose bool // report progress on standard error
}

func newApp(parts catalogue.Catalogue, version string, s Streams, args []string) *app {
	return &app{
		Streams: s, build: build{version}, experiments: experiments{library: library{parts}, in: s.In},
		privileges: &privileges{Streams: s, args: args, release: func() {}},
	}
}

// Run executes one command line, args without the program name, and returns its exit status: 0 done, 1 failed, 2 wrong
// usage, 3 done in part, 4 a proof failed, 70 or 134 crashed, 130 interrupted; 'lab exec' returns that of its command.
// It prints errors on s.Err. Version is the one that was linked in, "" if none was.
func Run(ctx context.Context, version string, s Streams, args []string) int {
	return RunWith(ctx, catalogue.New(), version, s, args)
}

// RunWith is [Run] with the parts of another catalogue. The agents that it starts need the same catalogue: they know
// only the steps in it.
func RunWith(ctx context.Context, parts catalogue.Catalogue, version string, s Streams, args []string) int {
	return guarded(s.Err, func() int { return run(ctx, parts, version, s, args) })
}

func run(ctx context.Context, parts catalogue.Catalogue, version string, s Streams, args []string) int {
	// A crash in another goroutine then ends with SIGABRT. By default it ends with status 2, which means wrong usage here.
	debug.SetTraceback("crash")
	if code, ok := child(ctx, parts, args, s.In, s.Out, s.Err); ok {
		return code
	}
	if err := startable(); err != nil {
		fmt.Fprintf(s.Err, "nettoll: %v\n", err)
		return exitFailed
	}
	if procfs.IsRun(args) && runtime.GOOS == "linux" {
		if err := procfs.NameRun(); err != nil {
			fmt.Fprintf(s.Err, "nettoll: other runs on this machine will not notice this one: %v\n", err)
		}
	}
	inner, args, err := insideArguments(args)
	if err != nil {
		fmt.Fprintf(s.Err, "nettoll: %v\n", err)
		return exitFailed
	}
	ctx, stop := interruptible(ctx, s.Err, inner.interrupted)
	defer stop()
	a := newApp(parts, version, s, args)
	a.inner, a.release = inner, stop
	root := a.root()
	if completing := []string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}; len(args) > 0 &&
		slices.Contains(completing, args[0]) {
		a.complete(root) // it takes as long as all else at the start
	}
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	if err = misnamed(root, args); err == nil {
		err = root.ExecuteContext(ctx)
	}
	var code status
	var wrong usageError
	var unproven unprovenError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &wrong):
		fmt.Fprintf(s.Err, "nettoll: %v\n", err)
		if placed, ok := errors.AsType[*experiment.Error](err); ok {
			for _, line := range placed.Excerpt() {
				fmt.Fprintln(s.Err, line)
			}
		}
		return exitUsage
	case errors.As(err, &unproven):
		fmt.Fprintf(s.Err, "nettoll: %v\n", err)
		return exitUnproven
	}
	fmt.Fprintf(s.Err, "nettoll: %v\n", err)
	return exitFailed
}

// interruptible returns a context that the first interrupt cancels. The second one ends the process at once, and with
// it everything that it started. The function heard is called at the first one. The returned function releases the
// signals.
func interruptible(ctx context.Context, stderr io.Writer, heard func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ends()...)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
			signal.Stop(signals)
			return
		}
		heard()
		// Restore the default action: a further signal ends the process at once, and its hosts with it.
		signal.Stop(signals)
		cancel()
		select {
		case again := <-signals: // a second one arrived before Stop
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Signal(again)
			}
		default:
		}
		fmt.Fprintln(stderr, "\nnettoll: interrupted: reporting what was measured (again to stop at once)")
	}()
	return ctx, cancel
}

func (a *app) root() *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "nettoll",
		Short: "Measures what every part of a container network costs, and proves what it protects",
		Long: `nettoll measures what every part of a container network costs, and proves what it protects.

It builds networks of containers on private hosts inside this machine, drives traffic over all of them in
interleaved blocks, and reports what each costs over a baseline: with an interval, a verdict, and the noise
floor that two equal networks show. The machine's own network is never touched.`,
		Example: `  nettoll doctor                              what works on this machine
  nettoll run                                 the default experiment
  nettoll run --network bridge --time 20s     a shorter one
  nettoll report DIR                          show its results again
  nettoll init                                an experiment file to start from
  nettoll plan default.yaml                   what it would do
  nettoll run default.yaml -o after           do it
  nettoll compare before after                what got faster or slower
  nettoll lab up --stack bridge               build a network, and look around in it
  nettoll clean                               remove what killed runs left
  nettoll sink                                run a workload by hand: wait here …
  nettoll source udp-rr ADDRESS               … and start it from another machine
  nettoll help run                            all flags of run`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				_, err := fmt.Fprint(a.Out, a.versionLine())
				return err
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(wrongFlag)
	root.SetHelpCommand(helpCommand(root))
	root.SetUsageFunc(usage(root.UsageFunc()))
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false,
		"report progress on standard error, between blocks")
	std, lib, report := a.Streams, a.library, reporting{a.Streams, a.library}
	root.AddCommand(
		running{std, a.experiments, a.build, a.privileges, report, &a.verbose}.command(),
		initCommand(std, lib),
		planCommand(std, a.experiments, a.privileges),
		schemaCommand(std, lib),
		report.command(),
		comparing{std}.command(),
		listCommand(std, lib),
		doctorCommand(std, lib, a.privileges),
		labs{std, a.experiments, a.privileges}.command(),
		proving{std, a.experiments, a.privileges}.command(),
		cleanCommand(std, a.privileges),
		sinkCommand(std, a.build, a.privileges),
		sourceCommand(std, lib, a.build),
		imageCommand(std, a.build),
		versionCommand(std, a.build),
		manCommand(std, a.build, root),
		studyCommand(std, a.experiments, a.privileges),
		completionCommand(std),
	)
	elsewhere(root, runtime.GOOS)
	return root
}

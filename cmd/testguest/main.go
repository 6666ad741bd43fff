// Command testguest runs the tests of packages in a guest, a virtual machine with another kernel: testguest [-kernel
// SERIES] [-limit TIME] [-run PATTERN] [-v] PACKAGE[=PATTERN]... [-args ARGUMENT...]. The tests get the arguments as
// they do from go test. The exit status is 0 if all passed, 1 if not, and 2 for wrong usage. To look around in a guest:
// testguest -sh COMMANDS, with the exit status of the commands.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/host/guest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Stdout, os.Stderr, os.Args[1:]))
}

func run(ctx context.Context, stdout, stderr io.Writer, args []string) int {
	flags := flag.NewFlagSet("testguest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var o options
	if i := slices.Index(args, "-args"); i >= 0 {
		args, o.args = args[:i], args[i+1:]
	}
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "how long the guest may run")
	flags.StringVar(&o.run, "run", "", "run only tests that match, in all packages, as go test -run does")
	flags.BoolVar(&o.verbose, "v", false, "show subtests, and the output of tests that pass")
	flags.StringVar(&o.kernel, "kernel", guest.Usual, "kernel of the guest, one of "+strings.Join(guest.Series(), ", "))
	flags.StringVar(&o.commands, "sh", "", "run these commands of a shell instead of tests")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if (flags.NArg() == 0) == (o.commands == "") || o.commands != "" && len(o.args) > 0 {
		fmt.Fprintln(stderr, "testguest: want packages or commands: testguest ./network/..., testguest -sh 'ip link'")
		return 2
	}
	begun := time.Now()
	say := func(what string) {
		fmt.Fprintf(stderr, "guest: %s (after %.1f s)\n", what, time.Since(begun).Seconds())
	}
	var status int
	var err error
	if o.commands == "" {
		o.patterns = flags.Args()
		status, err = test(ctx, stdout, say, o)
	} else {
		status, err = boot(ctx, guest.Spec{Script: o.commands, Output: stdout}, say, o)
	}
	if err != nil {
		fmt.Fprintf(stderr, "testguest: %v\n", err)
		return 1
	}
	return status
}

type options struct {
	patterns []string // patterns of packages, each with =PATTERN to run only some of its tests
	run      string   // pattern of tests
	args     []string // arguments of the tests
	verbose  bool
	kernel   string
	commands string // shell commands to run instead of tests
	limit    time.Duration
}

// The resources of a guest; memory is in bytes.
const (
	cpus   = 2
	memory = 5 << 29
)

// test runs the tests and returns 0 if all passed, else 1.
func test(ctx context.Context, stdout io.Writer, say func(string), o options) (int, error) {
	work, err := os.MkdirTemp("", "testguest-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	say("compiling tests")
	tests, err := compile(ctx, work, o.patterns)
	if err != nil {
		return 0, err
	}
	if len(tests) == 0 {
		return 0, fmt.Errorf("no package of %q has tests", o.patterns)
	}
	files, err := content(tests)
	if err != nil {
		return 0, err
	}
	r := newReport(stdout, o.verbose)
	status, err := boot(ctx, guest.Spec{Files: files, Script: script(tests, o), Output: r}, say, o)
	r.finish()
	if err != nil {
		return 0, errors.Join(errors.New(r.interrupted()), err)
	}
	say(r.summary())
	if len(r.failures) > 0 {
		fmt.Fprintf(stdout, "guest: what failed, once more:\n  %s\n", strings.Join(r.failures, "\n  "))
	}
	if status == 0 && !r.passed(len(tests)) {
		return 0, fmt.Errorf("the guest reports that all %d packages passed, but its output has %s", len(tests), r.summary())
	}
	return status, nil
}

// boot runs a guest to its end and returns its exit status.
func boot(ctx context.Context, spec guest.Spec, say func(string), o options) (int, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return 0, err
	}
	spec.Image, err = guest.Prepare(ctx, filepath.Join(cache, "nettoll", "guest"), o.kernel, say)
	if err != nil {
		return 0, err
	}
	spec.CPUs, spec.Memory, spec.Limit, spec.Say = cpus, memory, o.limit, say
	machine, err := guest.Boot(ctx, spec)
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	var told sync.WaitGroup
	told.Go(func() {
		select {
		case <-machine.Up():
			say("it is up")
		case <-ended:
		}
	})
	status, err := machine.Wait()
	close(ended)
	told.Wait()
	return status, err
}

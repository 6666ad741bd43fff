// Command testguest runs the tests of packages in a guest, a virtual machine with another kernel: testguest [-limit TIME] [-run PATTERN] PACKAGE... Its
// status is 0 if all have passed, 1 if not, 2 for wrong usage.
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
	limit := flags.Duration("limit", 10*time.Minute, "how long the guest may run")
	pattern := flags.String("run", "", "run only tests that match, as of go test")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(stderr, "testguest: which packages? testguest ./network/...")
		return 2
	}
	begun := time.Now()
	say := func(what string) {
		fmt.Fprintf(stderr, "guest: %s (after %.1f s)\n", what, time.Since(begun).Seconds())
	}
	passed, err := test(ctx, stdout, say, options{patterns: flags.Args(), run: *pattern, limit: *limit})
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "testguest: %v\n", err)
		return 1
	case !passed:
		return 1
	}
	return 0
}

type options struct {
	patterns []string // of packages
	run      string   // of tests
	limit    time.Duration
}

const (
	cpus   = 2
	memory = 2 << 30
)

// test runs the tests and tells whether all have passed.
func test(ctx context.Context, stdout io.Writer, say func(string), o options) (bool, error) {
	work, err := os.MkdirTemp("", "testguest-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	say("compiling tests")
	tests, err := compile(ctx, work, o.patterns)
	if err != nil {
		return false, err
	}
	if len(tests) == 0 {
		return false, fmt.Errorf("no package of %q has tests", o.patterns)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return false, err
	}
	image, err := guest.Prepare(ctx, filepath.Join(cache, "nettoll", "guest"), say)
	if err != nil {
		return false, err
	}
	files, err := content(tests)
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("no end within %v (-limit)", o.limit))
	defer cancel()
	say(fmt.Sprintf("booting Linux %s with %d packages", image.Release, len(tests)))
	report := newReport(stdout)
	machine, err := guest.Boot(limited, guest.Spec{
		Image: image, Files: files, Script: script(tests, o), CPUs: cpus, Memory: memory, Output: report,
	})
	if err != nil {
		return false, err
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		select {
		case <-machine.Up():
			say("it is up")
		case <-limited.Done():
		}
	}()
	status, err := machine.Wait()
	report.end()
	cancel()
	<-up
	if err != nil {
		return false, errors.Join(errors.New(report.interrupted()), err)
	}
	say(report.summary())
	return status == 0 && report.passed(len(tests)), nil
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/internal/linux/procfs"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testkube"
)

func main() {
	if testkube.Again(os.Args) { // the machines of a cluster run this program again
		os.Exit(testkube.Init(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	// The hosts, agents and workers of the labs run this program again.
	if args := os.Args[1:]; len(args) > 0 && slices.Contains([]string{"host-init", "agent", "worker", "daemon"}, args[0]) {
		os.Exit(cli.Run(context.Background(), "", cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, args))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Stdout, os.Stderr, os.Args[1:]))
}

// effort is how much is measured.
type effort struct {
	groups, rounds int           // of the comparison with specialists
	visit          time.Duration // of each of its visits
	setups         int           // groups of setupRounds rounds
	blocks         int           // of the turns
	starts         int           // of one worker
}

// full takes less than ten minutes, quick about two; the pods take about eight and two more.
func full() effort {
	return effort{groups: 6, rounds: 2, visit: time.Second, setups: 6, blocks: 5, starts: 30}
}

func quick() effort {
	return effort{groups: 3, rounds: 1, visit: time.Second, setups: 3, blocks: 2, starts: 10}
}

// bench is the state that the sections share.
type bench struct {
	effort
	parts    catalogue.Catalogue
	sources  []int // CPUs, by the default of nettoll run
	sinks    []int
	random   *rand.Rand // for the order, the ports and the MAC addresses
	progress io.Writer
	table    table
	began    time.Time
}

func run(ctx context.Context, stdout, stderr io.Writer, args []string) int {
	b := &bench{effort: full(), parts: catalogue.New(), progress: stderr, began: time.Now()}
	sections := b.sections()
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("quick", false, "measure for about two minutes: too short for narrow intervals")
	only := flags.String("only", "", "one section: "+strings.Join(names, ", "))
	seed := flags.Uint64("seed", 1, "seed of the order, the ports and the MAC addresses")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *only != "" && !slices.Contains(names, *only) {
		fmt.Fprintf(stderr, "bench: unknown section %q (known: %s)\n", *only, strings.Join(names, ", "))
		return 2
	}
	if *short {
		b.effort = quick()
	}
	b.random = rand.New(rand.NewPCG(*seed, 0))
	cpus, err := thread.CPUs()
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	half := (len(cpus) + 1) / 2
	if b.sources, b.sinks = cpus[:half], cpus[half:]; len(b.sinks) == 0 {
		b.sinks = b.sources
	}

	before, facts := load(), machine(ctx)
	failed := false
	for _, s := range sections {
		if *only != "" && s.name != *only {
			continue
		}
		at := load()
		err := s.run(ctx)
		if ctx.Err() != nil {
			fmt.Fprintln(stderr, "bench: interrupted")
			return 130
		}
		b.table.loaded(at + " → " + load())
		if err != nil {
			b.table.note("%s: %v", s.name, err)
			failed = failed || !errors.Is(err, errors.ErrUnsupported)
		}
	}
	b.table.print(stdout, append(facts,
		fmt.Sprintf("load average over a minute: %s before, %s after %v", before, load(),
			time.Since(b.began).Round(time.Second))))
	if failed {
		return 1
	}
	return 0
}

// A section is one subject. Its errors are shown below the table, and the other sections are measured anyway.
type section struct {
	name string
	run  func(context.Context) error
}

func (b *bench) sections() []section {
	return []section{
		{"worker", b.worker},
		{"specialists", b.specialists},
		{"clients", b.clients},
		{"pacing", b.pacing},
		{"set-up", b.setup},
		{"turns", b.turns},
		{"wireguard", b.wireguard},
		{"tunnels", b.encapsulation},
		{"streams", b.agreement},
		{"taps", b.taps},
		{"mesh", b.mesh},
		{"pods", b.pods},
	}
}

// say prints the progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%4.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// load returns the load average over one minute.
func load() string {
	l, err := procfs.Load1()
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.1f", l)
}

// machine returns the facts of the machine and the programs that measured.
func machine(ctx context.Context) []string {
	m := procfs.Machine()
	facts := []string{
		fmt.Sprintf("%v × %v, Linux %v, clock %v", m["cpus"], m["cpu"], m["kernel"], m["clocksource"]),
		fmt.Sprintf("nettoll %s, built with %s", said(ctx, "git", "describe", "--always", "--dirty"), runtime.Version()),
	}
	for _, t := range [][]string{
		{"sockperf", "--version"},
		{"iperf3", "--version"},
		{"netperf", "-V"},
		{"nuttcp", "-V"},
		{"redis-server", "--version"},
		{"redis-benchmark", "--version"},
		{"nginx", "-v"},
		{"wrk", "--version"},
		{"wireguard-go", "--version"},
	} {
		facts = append(facts, t[0]+": "+said(ctx, t...))
	}
	return facts
}

// said returns the first line that a program prints.
func said(ctx context.Context, args ...string) string {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	first, _, _ := strings.Cut(string(out), "\n")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "not installed"
	case first == "" && err != nil:
		return err.Error()
	}
	return strings.TrimSpace(first)
}

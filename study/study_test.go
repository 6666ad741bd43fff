package study_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/cli"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestMain lets the test binary act as the hosts, agents and workers of its own runs, with nettoll's real command line.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"host-init", "agent", "worker", "daemon", "sink"}, os.Args[1]) {
		os.Exit(cli.Run(context.Background(), "", cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	testnet.Main(m)
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	testnet.Root(t)
	var out, progress strings.Builder
	code := cli.Run(t.Context(), "", cli.Streams{In: strings.NewReader(""), Out: &out, Err: &progress},
		append([]string{"study"}, args...))
	t.Logf("%s\n%s", out.String(), progress.String())
	if code != 0 {
		t.Errorf("nettoll study %s: exit status %d", strings.Join(args, " "), code)
	}
	return out.String()
}

// A planted delay is found. There are two runs, with intervals that miss once in 100,000 tests. The delay itself is
// known only to a few percent: its mean is planted, and the median is measured. `nettoll study effect` makes ten runs
// at 5 %.
func TestEffect(t *testing.T) { run(t, "effect", "--runs", "2", "--time", "8s", "--alpha", "0.00001") }

// The table of trial lengths has a row for each length.
func TestTrial(t *testing.T) {
	out := run(t, "trial", "--workload", "udp-rr(mode=wait)", "--pairs", "1", "--length", "40ms,80ms", "--time", "1s",
		"--rounds", "1")
	for _, row := range []string{"| 40ms |", "| 80ms |"} {
		if !strings.Contains(out, row) {
			t.Errorf("no row %q in the table", row)
		}
	}
}

// The table of the levers has a row for each lever and group of cells.
func TestEfficiency(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.yaml")
	if err := os.WriteFile(file, []byte("factors: {network: bridge, placement: same-host}\n"+
		"workloads: [{udp-rr: {mode: spin}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, "efficiency", "--rounds", "1", "--time", "500ms", file)
	for _, row := range []string{
		"all", "all, but CPUs may sleep", "all, but long trials", "all, but cells in any order",
		"all, but spoiled blocks are kept", "all, but one baseline", "all, but medians of blocks", "none",
	} {
		if !regexp.MustCompile(`(?m)^\| udp-rr spin, same-host \| ` + row + ` \| [0-9.]+ % \| [0-9.]+ % \| [0-9.]+ \|$`).
			MatchString(out) {
			t.Errorf("no row %q with figures in the table", row)
		}
	}
}

// An interrupted study says so and leaves nothing.
func TestInterrupted(t *testing.T) {
	testnet.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	var out, progress strings.Builder
	code := cli.Run(ctx, "", cli.Streams{In: strings.NewReader(""), Out: &out, Err: &progress}, []string{"study", "twins"})
	if said := progress.String(); code != 1 || !strings.HasPrefix(said, "nettoll: ") ||
		!strings.Contains(said, "context deadline exceeded") || out.Len() > 0 {
		t.Errorf("exit status %d, want 1 and why; it said\n%s\nand shows\n%s", code, said, out.String())
	}
}

// The study of carriers has a figure for every item, in the smallest labs that show it: one carrier renews keys, and
// another one restarts.
func TestBetween(t *testing.T) {
	out := run(t, "between", "--tunnel", "vxlan", "--encryption", "wireguard", "--hosts", "2", "--rounds", "1", "--idle",
		"100ms", "--load", "300ms", "--quiet", "100ms", "--only", "setup,idle,rekey,use", "--format", "csv")
	for _, metric := range []string{
		"setup_time,s", "carrier_time,s", "idle_first_latency,s", "idle_next_latency,s",
		"idle_ratio,1", "load_gap,s", "load_lost,packet", "rekey_gap,s", "rekey_lost,packet", "memory,byte",
		"cpu_programs_idle,cores",
	} {
		if !regexp.MustCompile(`(?m)^wireguard,2,` + metric + `,[0-9.e+-]+,[0-9.e+-]+,[0-9.e+-]+,1,[0-9.e+-]*$`).
			MatchString(out) {
			t.Errorf("no figure of %s", metric)
		}
		programs := []string{"rekey", "memory", "cpu"}
		if plain := strings.Contains(out, "\nvxlan,2,"+metric); plain == slices.ContainsFunc(programs,
			func(s string) bool { return strings.HasPrefix(metric, s) }) {
			t.Errorf("vxlan has a figure of %s: %t", metric, plain)
		}
	}
	// without WireGuard: a handshake that is lost because the other end is not up yet costs it 5 s
	out = run(t, "between", "--tunnel", "vxlan", "--hosts", "2", "--rounds", "1", "--only", "first,restart")
	if !regexp.MustCompile(`(?m)^restart_lost: .*\n.*\n +direct .*\n +vxlan +[1-9]`).MatchString(out) {
		t.Error("no packet is lost while host 2 has no tunnel")
	}
	if !regexp.MustCompile(`(?m)^first_packet_time: .*\n.*\n +direct .*\n +vxlan +[1-9]`).MatchString(out) {
		t.Error("no first packet")
	}
}

// interrupting keeps what is written, and interrupts when that contains a text.
type interrupting struct {
	said      strings.Builder
	at        string
	interrupt func()
}

func (w *interrupting) Write(p []byte) (int, error) {
	n, err := w.said.Write(p)
	if strings.Contains(w.said.String(), w.at) {
		w.interrupt()
	}
	return n, err
}

// The results of an interrupted study are still shown.
func TestBetweenInterrupted(t *testing.T) {
	testnet.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	progress := &interrupting{at: "round 2 of", interrupt: cancel}
	code := cli.Run(ctx, "", cli.Streams{In: strings.NewReader(""), Out: &out, Err: progress}, []string{
		"study", "between", "--tunnel", "vxlan", "--hosts", "2", "--idle", "100ms", "--load", "100ms", "--only",
		"setup,idle", "--rounds", "1000",
	})
	if code != 130 || !strings.Contains(out.String(), "setup_time: ") ||
		!strings.Contains(out.String(), "of 1000 rounds were completed") {
		t.Errorf("exit status %d; it said\n%s\nand shows\n%s", code, progress.said.String(), out.String())
	}
}

// The study of life cycles has a figure for every part of the way of two containers, and of one alone, with a runtime
// that is a program and one that is none.
func TestLifecycle(t *testing.T) {
	testnet.Skip(t, cgroup.Usable("make containers"))
	out := run(t, "lifecycle", "--runtime", "netns,oci", "--pairs", "0,1", "--rounds", "2", "--output", "csv")
	for _, metric := range []string{
		"first_byte_time,s", "container_time,s", "network_time,s", "worker_time,s", "answer_time,s", "rest_time,s",
		"command_time,s", "commands_time,s", "added_time,s", "command_removal_time,s", "removal_time,s", "memory,byte",
		"worker_memory,byte",
	} {
		for _, lab := range []string{"netns,1", "oci,1", "netns,2", "oci,2"} {
			runtime, _, _ := strings.Cut(lab, ",")
			row := regexp.MustCompile(`(?m)^` + lab + `,` + metric + `,(-?[0-9.e+-]+),-?[0-9.e+-]+,-?[0-9.e+-]+,2$`)
			found := row.FindStringSubmatch(out)
			none := runtime == "netns" && slices.Contains( // it has no command
				[]string{"command_time,s", "commands_time,s", "added_time,s", "command_removal_time,s"}, metric)
			if (found == nil) != none {
				t.Errorf("a figure of %s of %s: %v", metric, lab, found)
			}
			if zero := metric == "memory,byte"; found != nil && (found[1] == "0") != zero {
				t.Errorf("%s of %s is %s", metric, lab, found[1])
			}
		}
	}
	if strings.Contains(out, "daemon_time") {
		t.Error("a daemon, and none was started")
	}
}

// As many commands are at work at a time as containers of the lab: each of the first two waits for the other one. A
// container alone needs a host that answers.
func TestLifecycleTogether(t *testing.T) {
	testnet.Skip(t, cgroup.Usable("make containers"))
	const waiting = `#!/bin/sh
for name; do :; done
case "$name" in together0) other=together1 ;; together1) other=together0 ;; *) exec "$PROGRAM" "$@" ;; esac
: >"$DIR/$name"
for i in $(seq 1000); do
	[ ! -e "$DIR/$other" ] || exec "$PROGRAM" "$@"
	sleep 0.01
done
echo "$other has not begun" >&2
exit 1
`
	dir := t.TempDir()
	t.Setenv("PROGRAM", testnet.Program(t, "runc", "runc"))
	t.Setenv("DIR", dir)
	if err := os.WriteFile(filepath.Join(dir, "runc"), []byte(waiting), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	run(t, "lifecycle", "--runtime", "oci", "--pairs", "1", "--rounds", "1")
	for _, name := range []string{"together0", "together1"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("the command was not given: %v", err)
		}
	}
	var out, said strings.Builder
	code := cli.Run(t.Context(), "", cli.Streams{In: strings.NewReader(""), Out: &out, Err: &said}, []string{
		"study", "lifecycle", "--runtime", "netns", "--network", "macvlan", "--pairs", "0", "--rounds", "1",
	})
	if code != 1 || !strings.Contains(said.String(), "needs a network whose host has an address there, such as bridge)") {
		t.Errorf("a container alone under macvlan: exit status %d, %q", code, said.String())
	}
}

// A runtime that is unknown, and a network that is none, are refused by name.
func TestLifecycleRefuses(t *testing.T) {
	testnet.Root(t)
	for _, tt := range []struct{ flag, value, want string }{
		{"--runtime", "lxd", `unknown runtime "lxd"`},
		{"--network", "tokenring", `unknown network "tokenring"`},
		{"--pairs", "501", "invalid value 501 for --pairs (valid: 0 to 500)"},
	} {
		var out, said strings.Builder
		code := cli.Run(t.Context(), "", cli.Streams{In: strings.NewReader(""), Out: &out, Err: &said},
			[]string{"study", "lifecycle", tt.flag, tt.value})
		if code != 2 || !strings.Contains(said.String(), tt.want) {
			t.Errorf("%s %s: exit status %d, %q, want 2 and %q", tt.flag, tt.value, code, said.String(), tt.want)
		}
	}
}

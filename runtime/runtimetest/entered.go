package runtimetest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/traffic"
)

// Entered checks that programs run in the containers that a runtime makes with given parameters: each in the network of
// its container, with its streams and its exit status. The package's TestMain is [Main].
func Entered(t *testing.T, r runtime.Runtime, given map[string]string) {
	t.Run("exec", func(t *testing.T) {
		testnet.Root(t)
		s := chosen(t, r, given, nil)
		testnet.Skip(t, s.Check())
		d := &local.Deployment{Journals: journal.Place{Dir: t.TempDir(), Steps: runtime.Kind{r}.Steps()}}
		g, err := d.Begin(traffic.Layout{Workers: 2, Pairs: 1, Cells: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(g.Close(), d.Close()); err != nil {
				t.Error(err)
			}
		}()
		l, err := g.Build(t.Context(), labtest.Lab(s, 1))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		seen := map[string]string{link(t, os.Getpid(), "net"): "this process"}
		at := l.(deploy.Enterable).Places()[0]
		for _, container := range []string{"", "src0", "snk0"} {
			executes(t, at, container)
			runs(t, at, container)
			out, err := at.Exec(t.Context(), host.Command{Namespace: container, Args: []string{"readlink", "/proc/self/ns/net"}})
			ns := strings.TrimSpace(string(out.Stdout))
			if other := seen[ns]; err != nil || ns == "" || other != "" {
				t.Errorf("a program in container %q is in network namespace %q of %q (%v)", container, ns, other, err)
			}
			seen[ns] = container
		}
		for name, pid := range workers(t) {
			if ns := link(t, pid, "net"); seen[ns] != name {
				t.Errorf("the worker of %s is in the network namespace of programs in %q", name, seen[ns])
			}
		}
	})
}

// ways are programs, and their exit status if they read "in".
var ways = []struct {
	script string
	exit   int
}{{"true", 0}, {"exit 3", 3}, {"kill -KILL $$", 128 + 9}, {"kill -TERM $$", 128 + 15}}

const says = "echo out; echo err >&2; "

// executes wants the output of a program in a container, and its exit status.
func executes(t *testing.T, at deploy.Place, container string) {
	t.Helper()
	for _, c := range ways {
		out, err := at.Exec(t.Context(), host.Command{Namespace: container, Args: []string{"sh", "-c", says + c.script}})
		if err != nil || string(out.Stdout) != "out\n" || string(out.Stderr) != "err\n" || out.Exit != c.exit {
			t.Errorf("%q in container %q: %q, %q, exit status %d (%v), want %d", c.script, container, out.Stdout, out.Stderr,
				out.Exit, err, c.exit)
		}
	}
	if _, err := at.Exec(t.Context(), host.Command{Namespace: container, Args: []string{"no-such-program"}}); err == nil ||
		!strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that does not exist, in container %q: %v", container, err)
	}
}

// runs wants the same of a program with input.
func runs(t *testing.T, at deploy.Place, container string) {
	t.Helper()
	for _, c := range ways {
		var out, said bytes.Buffer
		cmd := exec.Command("sh", "-c", "cat; "+says+c.script)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("in\n"), &out, &said
		err := at.Run(cmd, container, false, func(*os.Process) {})
		if exited, is := errors.AsType[*exec.ExitError](err); is != (c.exit != 0) || !is && err != nil ||
			is && process.ExitStatus(exited.ProcessState) != c.exit {
			t.Errorf("%q in container %q ends with %v, want %d", c.script, container, err, c.exit)
		}
		if out.String() != "in\nout\n" || said.String() != "err\n" {
			t.Errorf("%q in container %q writes %q, %q", c.script, container, &out, &said)
		}
	}
}

package docker_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/host/journal"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/docker"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
)

// TestProxy counts the packets to a published port. With proxy=true those of the host itself to its loopback address
// pass a docker-proxy, and the kernel translates none of them. Without, it translates them. Those of another host are
// translated in any case.
func TestProxy(t *testing.T) {
	testnet.Root(t)
	testnet.Skip(t, docker.Runtime{}.Check(nil))
	box := testnet.Program(t, "busybox", "busybox-static")
	testnet.Program(t, "iptables", "iptables")
	for _, proxy := range []bool{true, false} {
		t.Run(fmt.Sprintf("proxy=%t", proxy), func(t *testing.T) {
			near, far := published(t, proxy, box)
			sh := func(at deploy.Place, script string) string {
				t.Helper()
				out, err := at.Exec(t.Context(), host.Command{Args: []string{"sh", "-c", script}})
				if err != nil || out.Exit != 0 {
					t.Fatalf("%s on %s: %v, exit status %d: %s", script, at.Name(), err, out.Exit, out.Stderr)
				}
				return strings.TrimSpace(string(out.Stdout))
			}
			number := func(script string) int {
				t.Helper()
				n, err := strconv.Atoi(sh(near, script))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			proxies := number("grep -lz '/docker-proxy$' /proc/[0-9]*/cmdline | wc -l")
			if proxy != (proxies > 0) {
				t.Errorf("%d programs docker-proxy run", proxies)
			}
			// Packets of the loopback device, and connections that were translated on their way to the port.
			counts := func() (local, translated int) {
				t.Helper()
				return number("awk '$1 == \"lo:\" {print $3}' /proc/net/dev"),
					number(fmt.Sprintf("iptables -t nat -vnxL DOCKER | awk '/tcp dpt:%d/ {n += $1} END {print n + 0}'", port))
			}
			ask := func(at deploy.Place, address string) {
				t.Helper()
				if said := sh(at, fmt.Sprintf("echo hello | %s nc -w 5 %s %d", box, address, port)); said != "hello" {
					t.Errorf("%s port %d answers %s with %q", address, port, at.Name(), said)
				}
			}
			lo, dnat := counts()
			ask(near, "127.0.0.1")
			if l, d := counts(); proxy && (l-lo < 6 || d != dnat) || !proxy && (l != lo || d == dnat) {
				t.Errorf("from the host itself: %d packets on lo, %d connections translated", l-lo, d-dnat)
			}
			lo, dnat = counts()
			underlay, _ := network.UnderlayAddr(2)
			ask(far, underlay.Addr().String())
			if l, d := counts(); l != lo || d == dnat {
				t.Errorf("from another host: %d packets on lo, %d connections translated", l-lo, d-dnat)
			}
		})
	}
}

// port is published.
const port = 20100

// published builds a lab in which a program answers at a published port of a host, with what it is sent. It returns
// that host and another one.
func published(t *testing.T, proxy bool, box string) (near, far deploy.Place) {
	t.Helper()
	kinds := stack.Kinds{network.Kind{nat.Network{}}, runtime.Kind{docker.Runtime{}}}
	var s stack.Stack
	for i, params := range []map[string]string{{"by": "docker"}, {"proxy": strconv.FormatBool(proxy)}} {
		c, err := kinds.Choose([]string{"network", "runtime"}[i], []string{"nat", "docker"}[i], params)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, c)
	}
	spec := labtest.Lab(s, 2)
	for _, h := range spec.Net.Hosts {
		h.Containers[0].Ports.Last = h.Containers[0].Ports.First + 1 // each port is a process
	}
	d := &local.Deployment{Journals: journal.Place{Dir: t.TempDir(), Steps: docker.Runtime{}.Steps()}}
	g, err := d.Begin(traffic.Layout{Workers: 2, Pairs: 1, Cells: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	l, err := g.Build(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	places := l.(deploy.Enterable).Places()
	far, near = places[0], places[1]
	answers := exec.Command(box, "nc", "-ll", "-p", strconv.Itoa(port), "-e", box, "cat")
	started, ended := make(chan *os.Process), make(chan error, 1)
	go func() {
		ended <- near.Run(answers, "snk0", false, func(p *os.Process) { started <- p })
	}()
	select {
	case p := <-started:
		t.Cleanup(func() {
			_ = p.Kill() // it may have ended with its host
			if err := <-ended; err != nil {
				t.Logf("the program that answers: %v", err)
			}
		})
	case err := <-ended:
		t.Fatalf("the program that answers: %v", err)
	}
	listens := host.Command{Namespace: "snk0", Args: []string{
		"sh", "-c", fmt.Sprintf("cat /proc/net/tcp /proc/net/tcp6 | grep -q :%04X", port),
	}}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		out, err := near.Exec(t.Context(), listens)
		if err == nil && out.Exit == 0 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("nothing listens at port %d: %v", port, err)
		}
	}
	return near, far
}

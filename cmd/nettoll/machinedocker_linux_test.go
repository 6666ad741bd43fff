package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/runtime/dockertest"
)

// Labs whose hosts have a daemon of their own, as is the default, do not touch the machine's Docker, even if DOCKER_HOST
// names it.
func TestMachineDockerUntouched(t *testing.T) {
	theirs := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", theirs.Host)
	untouched := theirs.Inhabit()
	kinds := catalogue.New().Kinds
	var labs []string
	for _, n := range []network{{"bridge", "same-host"}, {"nat(by=docker)", "cross-host"}} {
		s, err := kinds.Parse(n.name + "@docker")
		if err != nil {
			t.Fatal(err)
		}
		testnet.Skip(t, s.Check())
		said := nettoll(t, "lab", "up", "--stack", n.name+"@docker", "--placement", n.placement, "--time", "5m")
		if said.status != 0 {
			t.Fatalf("lab up of %s exits with %d: %s", n.name, said.status, said.stderr)
		}
		contains(t, "lab up", said.stdout, "unfragmented", "h1, verified")
		name, _, _ := strings.Cut(strings.TrimPrefix(said.stdout, "lab "), ": ")
		labs = append(labs, name)
	}
	untouched() // while all daemons run
	for _, name := range labs {
		if down := nettoll(t, "lab", "down", name); down.status != 0 {
			t.Errorf("lab down exits with %d: %s", down.status, down.stderr)
		}
	}
	untouched()
}

// A run names the machine's Docker if that ends while it is measured, and what the run has left there goes by nettoll
// clean once it runs again.
func TestMachineDockerEnds(t *testing.T) {
	theirs := dockertest.Start(t)
	t.Setenv("DOCKER_HOST", theirs.Host)
	for name, signal := range map[string]syscall.Signal{
		"stopped by its user": syscall.SIGTERM, "killed": syscall.SIGKILL,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, "--time", "30s", "--network", "bridge", "--runtime", "docker(use=machine)", "--placement", "same-host",
				"--workload", "udp-rr")
			s.blocks(2)
			theirs.Signal(signal)
			if status := s.wait(60 * soon); status == 0 {
				t.Errorf("a run without its daemon exits with 0")
			}
			text := strings.Join(strings.Fields(s.stdout.String()), " ")
			contains(t, "the report", text, "a daemon that answers at ", "not returned: ", "(hint: run nettoll clean)")
			said := nettoll(t, "clean")
			if said.status != 1 {
				t.Errorf("clean without the daemon exits with %d: %s", said.status, said.stdout)
			}
			contains(t, "clean", said.stderr, "the machine's Docker at "+theirs.Socket+" does not answer")
			theirs.Again()
			if said := nettoll(t, "clean"); said.status != 0 {
				t.Errorf("clean exits with %d: %s", said.status, said.stderr)
			}
			if left := theirs.Docker("ps", "--all", "--quiet") + theirs.Docker("images", "--quiet"); left != "" {
				t.Errorf("after clean Docker has %q", left)
			}
		})
	}
}

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/nettoll/nettoll/runtime/dockertest"
)

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

package main

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

// Containers are measured under an AppArmor profile, and the report has it. A profile that refuses what a workload needs
// is named, and one that is not loaded is refused before anything is built.
func TestAppArmor(t *testing.T) {
	runtimetest.Load(t)
	for _, c := range []struct{ profile, workload, says string }{
		{runtime.DefaultProfile, "tcp-rr", "AppArmor docker-default (enforce)"},
		{
			runtimetest.NoTCP, "tcp-rr",
			"permission denied; its container has the AppArmor profile nettoll-no-tcp (enforce), which may refuse that",
		},
		{"nettoll-missing", "udp-rr", `missing AppArmor profile "nettoll-missing" (hint: load it by apparmor_parser -r FILE: ` +
			"nettoll loads none; loaded are docker-default, nettoll-no-tcp)"},
	} {
		t.Run(c.profile, func(t *testing.T) {
			s := start(t, "--time", "1s", "--network", "bridge", "--runtime", "oci(apparmor="+c.profile+")", "--placement",
				"same-host", "--workload", c.workload)
			status := s.wait(60 * soon)
			if (status == 0) != (c.profile == runtime.DefaultProfile) {
				t.Errorf("exit status %d", status)
			}
			contains(t, "the run", strings.Join(strings.Fields(s.stdout.String()+s.stderr.String()), " "), c.says)
		})
	}
}

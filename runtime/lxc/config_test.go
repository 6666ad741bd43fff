package lxc

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/runtime"
)

// The configuration of a container is that of the file.
func TestConfig(t *testing.T) {
	golden.Compare(t, "config", config{
		name: "src0", root: "/run/nettoll/lxc/src0/rootfs", program: "/usr/bin/nettoll",
		args: []string{"worker", "--name", "src0@host1"}, network: "/run/netns/src0", cgroup: "nettoll-x",
		capabilities: runtime.UsualCapabilities(),
	}.String())
}

// A profile takes the place of unconfined.
func TestProfileOfAppArmor(t *testing.T) {
	text := config{profile: "docker-default"}.String()
	if strings.Count(text, "lxc.apparmor.profile") != 1 || !strings.Contains(text, "\nlxc.apparmor.profile = docker-default\n") {
		t.Errorf("the configuration is:\n%s", text)
	}
}

// Limits are those of the version of cgroups that the host has.
func TestLimits(t *testing.T) {
	all := runtime.Limits{CPUs: 0.5, CPUSet: []int{0, 1, 3}, Memory: 64 << 20}
	for name, list := range map[string][]setting{
		"limited-v1": limits(all, false, true), "limited-v1-swapping": limits(all, false, false),
		"limited-v2": limits(all, true, true),
	} {
		golden.Compare(t, name, config{
			name: "src0", root: "/rootfs", program: "/nettoll", network: "/run/netns/src0", cgroup: "nettoll-x", limits: list,
			ending: "cat events > memory",
		}.String())
	}
	if list := limits(runtime.Limits{}, true, true); list != nil {
		t.Errorf("no limits are written as %v", list)
	}
}

func TestReserved(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "root:100000:65536\n": true, "0:100000:65536": true, "daemon:100000:65536\n": false,
		"daemon:1:2\nroot:1:200000\n": true, "root:100001:65536\n": false, "root:100000:65535\n": false,
		"root:100000\n": false, "root:a:b\nroot::\n": false,
	} {
		if got := reserved(text); got != want {
			t.Errorf("%q reserves the users: %v, want %v", text, got, want)
		}
	}
}

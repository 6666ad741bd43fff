package oci

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/runtime"
)

// The configuration of a container is that of the file.
func TestConfig(t *testing.T) {
	text, err := bundle{
		root: "/run/nettoll/oci/rootfs", program: "/usr/bin/nettoll", args: []string{"worker", "--name", "src0@host1"},
		env: []string{"GOGC=off"}, network: "/run/netns/src0", cgroup: "nettoll-x", capabilities: runtime.UsualCapabilities(),
	}.config()
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "config", string(text)+"\n")
	for profile, want := range map[string]bool{"": false, "docker-default": true} {
		text, err := bundle{profile: profile}.config()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), `"apparmorProfile": "docker-default"`); got != want {
			t.Errorf("with profile %q:\n%s", profile, text)
		}
	}
}

// Limits are resources of a container.
func TestResources(t *testing.T) {
	l := runtime.Limits{CPUs: 0.5, CPUSet: []int{0, 1, 3}, Memory: 64 << 20}
	for name, r := range map[string]*specs.LinuxResources{
		"limited": resources(l, true), "limited-cpus": resources(runtime.Limits{CPUs: 2}, false),
		"limited-memory": resources(runtime.Limits{Memory: 1 << 30}, false),
	} {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, name, string(text)+"\n")
	}
	if r := resources(runtime.Limits{}, true); r != nil {
		t.Errorf("no limits are the resources %v", r)
	}
}

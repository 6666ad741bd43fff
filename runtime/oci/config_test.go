package oci

import (
	"testing"

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
}

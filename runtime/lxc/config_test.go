package lxc

import (
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

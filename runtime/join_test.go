package runtime_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
)

// What joins a container is taken out of the steps of a network. What is done to the container before goes, too.
func TestJoints(t *testing.T) {
	veth := func(name string) host.Veth {
		return host.Veth{Name: "v" + name, Master: "br0", PeerNS: name, PeerName: "eth0"}
	}
	containers := []runtime.Container{{Name: "src0", Namespace: "src0"}, {Name: "snk0", Namespace: "snk0"}}
	bridge := host.Bridge{Name: "br0"}
	beyond := host.Route{NS: "snk0", To: "10.3.0.0/16", Via: "10.1.0.9", Dev: "eth0"}
	before, joints, after, err := runtime.Joints(containers, []host.Step{
		bridge,
		host.Sysctl{NS: "src0", Key: "net.ipv6.conf.default.addr_gen_mode", Value: "1"},
		veth("src0"),
		host.Route{NS: "src0", To: "0.0.0.0/0", Via: "10.1.0.1", Dev: "eth0"},
		host.Route{NS: "src0", To: "::/0", Via: "fd00:10:1::1", Dev: "eth0"},
		host.Sysctl{NS: "src0", Key: "net.ipv4.tcp_orphan_retries", Value: "1"},
		veth("snk0"),
		host.Route{NS: "snk0", To: "0.0.0.0/0", Dev: "eth0"},
		beyond,
		host.Route{To: "0.0.0.0/0", Via: "198.18.0.1", Dev: "up0"},
		host.LinkSettings{Name: "vsnk0", Isolated: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]host.Step{bridge}, before); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]runtime.Joint{
		{Container: containers[0], Link: veth("src0"), Gateways: []string{"10.1.0.1", "fd00:10:1::1"}},
		{Container: containers[1], Link: veth("snk0"), Gateways: []string{""}},
	}, joints); diff != "" {
		t.Errorf("joints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]host.Step{
		host.Sysctl{NS: "src0", Key: "net.ipv4.tcp_orphan_retries", Value: "1"},
		beyond,
		host.Route{To: "0.0.0.0/0", Via: "198.18.0.1", Dev: "up0"},
		host.LinkSettings{Name: "vsnk0", Isolated: true},
	}, after); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	for want, containers := range map[string][]runtime.Container{
		"container snk0 has no link of its own":                                  containers,
		"a container that shares the network of its host has no link of its own": {{Name: "src0"}},
	} {
		_, _, _, err := runtime.Joints(containers, []host.Step{bridge, veth("src0"), veth("elsewhere")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

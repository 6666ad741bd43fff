package lxc

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet/golden"
	"github.com/nettoll/nettoll/network/ipvlan"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/runtime"
)

// LXC makes the link that nettoll would have made. Its settings are those of the files.
func TestLinks(t *testing.T) {
	addresses := []string{"10.1.1.0/16", "fd00:10:1::1:0/64"}
	upper := host.Upper{NS: "src0", Name: "eth0", Lower: "up0", MAC: "02:00:00:00:00:01", MTU: 1500, Addresses: addresses}
	private, routed := upper, upper
	private.Mode, routed.Mode, routed.MAC = "private", "l3", ""
	for name, j := range map[string]runtime.Joint{
		"veth": {Link: host.Veth{
			Name: "vsrc0", MAC: "02:00:00:00:00:02", MTU: 1500, Master: "br0", PeerNS: "src0", PeerName: "eth0",
			PeerMAC: "02:00:00:00:00:01", PeerAddresses: addresses,
		}, Gateways: []string{"10.1.0.1", "fd00:10:1::1"}},
		"macvlan": {Link: macvlan.Link{Upper: private}},
		"ipvlan":  {Link: ipvlan.Link{Upper: routed}, Gateways: []string{"", ""}},
		"phys":    {Link: host.MoveLink{From: "psrc0", NS: "src0", Name: "eth0", MTU: 1500, Addresses: addresses}},
	} {
		j.Container = runtime.Container{Name: "src0", Namespace: "src0"}
		l, err := linkOf(j)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := config{
			name: "src0", root: "/rootfs", program: "/nettoll", own: true, link: l.config(j.Gateways), cgroup: "nettoll-x",
		}.String()
		golden.Compare(t, "link-"+name, text)
	}
	_, err := linkOf(runtime.Joint{
		Container: runtime.Container{Name: "src0"}, Link: host.MoveLink{FromNS: host.Machine, From: "eth1", NS: "src0"},
	})
	if err == nil || !strings.Contains(err.Error(), "LXC does not make the link of container src0: move eth1") {
		t.Errorf("a link of the machine: %v", err)
	}
}

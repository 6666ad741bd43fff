package network_test

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

func TestTuned(t *testing.T) {
	params := append(part.List{network.BridgeNF(), network.Hairpin()}, network.LinkParams()...)
	ends := []network.Endpoint{{Namespace: "src0", Link: "vsrc0", Inner: "eth0"}, {}}
	for _, c := range []struct {
		given    map[string]string
		id, want string
	}{
		{nil, "bridge", ""},
		{
			map[string]string{"txqueuelen": "1000", "gro": "on"},
			"bridge(txqueuelen=1000,gro=on)",
			"  1 settings of vsrc0: queue of 1000, gro on\n  2 settings of eth0 in src0: queue of 1000, gro on\n",
		},
		{map[string]string{"hairpin": "on"}, "bridge(hairpin=on)", "  1 settings of vsrc0: hairpin\n"},
		{
			map[string]string{"rps": "on", "checksum": "off", "tso": "off", "gso": "off", "rfs": "64"},
			"bridge(rps=all,rfs=64,gso=off,tso=off,checksum=off)",
			"  1 settings of vsrc0: rps all, rfs 64, tx off, rx off, tso off, gso off\n" +
				"  2 settings of eth0 in src0: rps all, rfs 64, tx off, rx off, tso off, gso off\n",
		},
	} {
		p, err := params.Resolve("network bridge", c.given)
		if err != nil {
			t.Fatal(err)
		}
		if id := params.ID("bridge", p); id != c.id {
			t.Errorf("id %s, want %s", id, c.id)
		}
		if got := (host.Plan{Steps: network.Tuned(p, ends)}).String(); got != c.want {
			t.Errorf("%v: steps\n%swant\n%s", c.given, got, c.want)
		}
	}
	for name, bad := range map[string]string{
		"txqueuelen": "-1", "rps": "1-0", "rfs": "100", "gro": "perhaps", "bridge-nf": "maybe",
	} {
		if _, err := params.Resolve("network bridge", map[string]string{name: bad}); err == nil ||
			!strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), "(valid: ") {
			t.Errorf("%s=%s: %v", name, bad, err)
		}
	}
	if err := network.CheckLinks(part.Params{"checksum": "off", "tso": "on"}); err == nil {
		t.Error("large segments without checksums are possible")
	}
	if err := network.CheckLinks(part.Params{}); err != nil {
		t.Error(err)
	}
}

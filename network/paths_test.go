package network_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
)

// A way that avoids a device is not taken if that counts more than strays: neither in a proof, whose packets are known,
// nor in trials.
func TestAvoided(t *testing.T) {
	passed, avoided := host.Sent("src0", "net1", ""), host.Sent("src0", "eth0", "")
	p := &network.Paths{}
	p.Add("pair 0, ipv4", network.Way{
		Counters: []network.Count{{Host: 1, Counter: passed}}, Avoided: []network.Count{{Host: 1, Counter: avoided}},
	})
	counted := func(net1, eth0 uint64) []host.Trace {
		return []host.Trace{{}, {Counts: map[string]map[string]uint64{"src0": {passed.Name: net1, avoided.Name: eth0}}}}
	}
	const sent, few, many = 100, 5, 90
	for _, tt := range []struct {
		name                    string
		net1, eth0              uint64
		missing, excess, beyond string
	}{
		{"passed", 200, 10, "", "", ""},
		{"strays", 200, 10 + few, "", "", ""},
		{
			"by the other one", 100, 10 + sent, "counted 0 packets sent by net1 in src0, but at least 100 arrived",
			"counted 100 packets sent by eth0 in src0, but no more than 0 were sent",
			"counted 100 packets sent by eth0 in src0, but containers sent no more than 0 there",
		},
		{
			"by both", 200, 10 + many, "", "counted 90 packets sent by eth0 in src0, but no more than 0 were sent",
			"counted 90 packets sent by eth0 in src0, but containers sent no more than 0 there",
		},
	} {
		before, after := counted(100, 10), counted(tt.net1, tt.eth0)
		missing, excess := p.Counted(before, after, []int64{sent}, []int64{sent})
		trials, _ := p.Counted(before, after, []int64{sent}, nil)
		for what, got := range map[string][2]string{
			"missing": {text(missing), tt.missing}, "excess": {text(excess), tt.excess}, "of trials": {text(trials), tt.missing},
			"beyond": {text(p.Beyond(before, after, time.Second)), tt.beyond},
		} {
			if !strings.Contains(got[0], got[1]) || got[0] != "" && got[1] == "" {
				t.Errorf("%s: %s: %q, want %q", tt.name, what, got[0], got[1])
			}
		}
	}
	// A device that is not there cannot be known to be avoided.
	without := []host.Trace{{}, {Counts: map[string]map[string]uint64{"src0": {passed.Name: 200}}}}
	if missing, _ := p.Counted(without, without, []int64{0}, []int64{0}); !strings.Contains(text(missing),
		"does not count packets sent by eth0 in src0") {
		t.Errorf("without eth0: %v", missing)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

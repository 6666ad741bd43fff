package pod

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
)

// A definition is named with its namespace.
func TestDefinition(t *testing.T) {
	for name, valid := range map[string]bool{
		"lab/fast": true, "kube-system/net.1": true, "fast": false, "lab/": false, "/fast": false, "lab/fast/x": false,
		"lab/Fast": false, "lab/fast@net1": false, "lab/fast,lab/other": false, "lab/fast-": false,
	} {
		if _, err := definition(name); (err == nil) != valid {
			t.Errorf("%q: %v, want valid %v", name, err, valid)
		}
	}
}

// The packets of a pod with a second interface are counted there at both ends, and leave by no other one.
func TestTrace(t *testing.T) {
	stop := func(index int, name string) network.Stop {
		return network.Stop{Host: network.Host{Index: index}, Endpoint: network.Endpoint{Namespace: name, Inner: "net1"}}
	}
	got := Network{}.Trace(network.Trip{Family: "ipv4", From: stop(1, "src0"), To: stop(2, "snk0")})
	want := network.Way{
		Counters: []network.Count{
			{Host: 1, Counter: host.Sent("src0", "net1", "")},
			{Host: 2, Counter: host.Received("snk0", "net1", ""), Repeats: true},
		},
		Avoided: []network.Count{{Host: 1, Counter: host.Sent("src0", "eth0", "")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// There is a node to choose only if sources send to one, and if there are several.
func TestRefuse(t *testing.T) {
	for _, tt := range []struct {
		network string
		hosts   int
		want    string
	}{
		{"cni(via=nodeport)", 1, ""},
		{"cni(via=nodeport)", 2, ""},
		{"cni(via=nodeport,node=source)", 2, ""},
		{"cni(via=nodeport,node=source)", 1, "equals node=sink"},
		{"cni(via=clusterip,node=source)", 2, "only via=nodeport"},
		{"cni(node=source)", 1, "only via=nodeport"},
		{"host", 2, ""},
		{"cni(secondary=lab/fast)", 1, ""},
		{"cni(via=clusterip,secondary=lab/fast)", 2, "services lead to the interface that every pod has"},
		{"cni(via=nodeport,node=source,secondary=lab/fast)", 2, "services lead to the interface that every pod has"},
		{"cni(secondary=lab/fast)+networkpolicy", 2, "policies do not apply to the second interface of pods"},
		{"cni(secondary=lab/fast)+networkpolicy(kind=admin)", 2, "policies do not apply to the second interface of pods"},
		{"host+networkpolicy(kind=admin)", 2, "policies do not apply to pods that share the network of their node"},
		{"cni+networkpolicy", 2, ""},
		{"cni+networkpolicy(kind=admin,rules=100)", 2, ""},
	} {
		s, err := Kinds().Parse(tt.network)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Refuse(tt.hosts); got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s on %d nodes: %q, want %q", tt.network, tt.hosts, got, tt.want)
		}
	}
}

package kubernetes

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/network"
	pods "github.com/nettoll/nettoll/pod"
)

// A block of ports is found wherever the first try begins, if there is one, and no port is found to be taken twice.
func TestTryPorts(t *testing.T) {
	const n = 20
	everyFew, butOne := map[uint16]bool{}, map[uint16]bool{}
	for port := uint16(firstNodePort); port <= lastNodePort; port += n {
		everyFew[port] = true
		if port != 31_000 {
			butOne[port] = true
		}
	}
	for _, tt := range []struct {
		name  string
		taken map[uint16]bool
		free  bool
	}{{"none taken", nil, true}, {"one hole", butOne, true}, {"no hole", everyFew, false}} {
		for seed := range uint64(200) {
			seen := map[uint16]bool{}
			var got network.Ports
			err := tryPorts(n, rand.New(rand.NewPCG(seed, 0)), func(first, last uint16) (uint16, error) {
				if first < firstNodePort || last > lastNodePort || last-first != n-1 {
					t.Fatalf("%s: ports %d to %d", tt.name, first, last)
				}
				for port := first; port <= last; port++ {
					if tt.taken[port] {
						if seen[port] && tt.free {
							t.Fatalf("%s: port %d was tried again", tt.name, port)
						}
						seen[port] = true
						return port, errors.New("taken")
					}
				}
				got = network.Ports{First: first, Last: last}
				return 0, nil
			})
			switch {
			case tt.free && err != nil:
				t.Fatalf("%s, seed %d: %v", tt.name, seed, err)
			case !tt.free && (err == nil || !strings.Contains(err.Error(), "no 20 consecutive ports")):
				t.Fatalf("%s, seed %d: ports %v, error %v", tt.name, seed, got, err)
			}
		}
	}
	other := errors.New("another reason")
	calls := 0
	if err := tryPorts(n, rand.New(rand.NewPCG(1, 2)), func(uint16, uint16) (uint16, error) {
		calls++
		return 0, other
	}); !errors.Is(err, other) || calls != 1 {
		t.Errorf("%v after %d tries, want the other error after one", err, calls)
	}
	if err := tryPorts(3000, rand.New(rand.NewPCG(1, 2)), nil); err == nil {
		t.Error("3000 ports of 2768: no error")
	}
}

// A refusal names the port that is taken, and nothing else is taken for one.
func TestTakenPort(t *testing.T) {
	refusal := func(why string) error {
		return &kubectl.StatusError{Code: 422, Reason: "Invalid", Message: `Service "nettoll-1" is invalid: ` + why}
	}
	for _, tt := range []struct {
		err  error
		want uint16
	}{
		{refusal(`spec.ports[4].nodePort: Invalid value: 31017: provided port is already allocated`), 31017},
		{refusal(`spec.ports[0].nodePort: Invalid value: 31017: provided port is not in the valid range. The range of ` +
			`valid ports is 20000-22767`), 0},
		{errors.New("nodePort: Invalid value: 31017: provided port is already allocated"), 0},
		{nil, 0},
	} {
		if got := takenPort(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

// What a lab asks of the cluster: a service for each sink, with ports of nodes if sources send to these, and policies
// that let sources send there.
func TestServices(t *testing.T) {
	pair := network.Pair{Source: network.Spot{Host: 0, Container: 0}, Sink: network.Spot{Host: 1, Container: 0}}
	made := func(networkOf string) (spec object, peers []object) {
		s, err := pods.Kinds().Parse(networkOf)
		if err != nil {
			t.Fatal(err)
		}
		l := &lab{
			deployment: &Deployment{nodes: []node{
				{ipv4: netip.MustParseAddr("192.0.2.7")},
				{ipv4: netip.MustParseAddr("192.0.2.8"), ipv6: netip.MustParseAddr("2001:db8::8")},
			}},
			jobs: []jobSpec{{name: "sources"}, {name: "sinks"}},
			spec: deploy.Spec{
				Stack: s, Pairs: []network.Pair{pair},
				Net: network.Lab{Hosts: []network.Host{
					{Containers: []network.Container{{Name: "src0"}}},
					{Containers: []network.Container{{Name: "snk0", Ports: network.Ports{First: 30100, Last: 30100}}}},
				}},
			},
		}
		spec, _ = l.serviceOf(0)["spec"].(object)
		return spec, l.targets(pair)
	}
	sink := object{"matchLabels": object{jobLabel: "sinks", indexLabel: "0"}}
	port := func(protocol string, more object) object {
		p := object{"name": strings.ToLower(protocol) + "-30100", "port": 30100, "protocol": protocol}
		maps.Copy(p, more)
		return p
	}
	atNodes := object{
		"ipFamilyPolicy": "PreferDualStack", "selector": sink["matchLabels"], "type": "NodePort",
		"externalTrafficPolicy": "Local",
		"ports":                 []object{port("UDP", object{"nodePort": 30100}), port("TCP", object{"nodePort": 30100})},
	}
	for _, tt := range []struct {
		network string
		spec    object
		peers   []object
	}{
		{
			"cni(via=clusterip)", object{
				"ipFamilyPolicy": "PreferDualStack", "selector": sink["matchLabels"],
				"ports": []object{port("UDP", nil), port("TCP", nil)},
			}, []object{{"podSelector": sink}},
		},
		{
			"cni(via=nodeport)", atNodes, []object{
				{"podSelector": sink}, {"ipBlock": object{"cidr": "192.0.2.8/32"}}, {"ipBlock": object{"cidr": "2001:db8::8/128"}},
			},
		},
		{
			"cni(via=nodeport,node=source)", atNodes,
			[]object{{"podSelector": sink}, {"ipBlock": object{"cidr": "192.0.2.7/32"}}},
		},
	} {
		spec, peers := made(tt.network)
		if diff := cmp.Diff(tt.spec, spec); diff != "" {
			t.Errorf("%s: service (-want +got):\n%s", tt.network, diff)
		}
		if diff := cmp.Diff(tt.peers, peers); diff != "" {
			t.Errorf("%s: what sources may send to (-want +got):\n%s", tt.network, diff)
		}
	}
}

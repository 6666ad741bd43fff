package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testprogram"
	"github.com/nettoll/nettoll/network"
)

// A resident is a pod of a truth table.
type resident struct {
	Namespace string            `json:"namespace"`
	Labels    map[string]string `json:"labels"`
	IP        string            `json:"ip"`
	spot      *network.Spot     // in the lab; nil: it is of somebody else
}

// A gate is a port of a truth table.
type gate struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

// truth is the program that says what NetworkPolicies allow, and shares nothing with nettoll but the objects.
func truth(t *testing.T) func(policies []object, pods []resident, ports []gate) [][][]bool {
	t.Helper()
	path, err := testprogram.Program{
		Folder: "internal/testkube/truth", Package: ".", Cache: "testkube", File: "truth-", What: "Cyclonus", Minutes: "a minute",
	}.Build(t.Context(), func(text string) { t.Log(text) })
	if err != nil {
		t.Fatal(err)
	}
	return func(policies []object, pods []resident, ports []gate) (all [][][]bool) {
		t.Helper()
		question, err := json.Marshal(object{"policies": policies, "pods": pods, "ports": ports})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), path)
		cmd.Stdin = bytes.NewReader(question)
		said, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(said, &all)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return all
	}
}

// The policies of a lab allow a source to reach the ports of its sink that are on the list, and nothing else to or from
// the pods of the lab: so says an engine of upstream that derives truth tables from the objects.
func TestTruthTable(t *testing.T) {
	testnet.KubeFull(t, "it builds a program of others")
	allows := truth(t)
	const first, last = 30100, 30103
	var ports []gate
	for _, protocol := range []string{"UDP", "TCP"} {
		for port := first - 1; port <= last+1; port++ {
			ports = append(ports, gate{protocol, port})
		}
	}
	for _, id := range []string{
		"cni+networkpolicy(rules=0)", "cni+networkpolicy(rules=1001)", "cni(via=clusterip)+networkpolicy(rules=3)",
		"cni(via=nodeport)+networkpolicy(rules=3)",
	} {
		t.Run(id, func(t *testing.T) {
			l, pods := truthLab(t, id, network.Ports{First: first, Last: last})
			policies := l.policies()
			for _, p := range policies {
				p["metadata"].(object)["namespace"] = "lab" //nolint:forcetypeassert // it was made so
			}
			want := make([][][]bool, len(pods))
			for i, source := range pods {
				want[i] = make([][]bool, len(pods))
				for k, sink := range pods {
					for _, g := range ports {
						on := g.Port >= first && g.Port < last && paired(l, source.spot, sink.spot)
						want[i][k] = append(want[i][k], on || source.spot == nil && sink.spot == nil)
					}
				}
			}
			if diff := cmp.Diff(want, allows(policies, pods, ports)); diff != "" {
				t.Errorf("by source, sink and port (-want +got):\n%s", diff)
			}
			// It can fail: without one of the policies, or with one that is too wide, the table is another one.
			wide := append(policies[1:len(policies):len(policies)], policies[0], object{
				"metadata": object{"name": "wide", "namespace": "lab"},
				"spec":     object{"podSelector": object{}, "policyTypes": []string{"Ingress"}, "ingress": []object{{}}},
			})
			for what, others := range map[string][]object{"without the first": policies[1:], "with a wide one": wide} {
				if cmp.Equal(want, allows(others, pods, ports)) {
					t.Errorf("the same table %s", what)
				}
			}
		})
	}
}

// truthLab is a lab of three pairs, within a node and across two, and what pods there are: its own, those of another lab
// of the run, some of somebody else, and one in another namespace that has the labels of a source.
func truthLab(t *testing.T, id string, ports network.Ports) (*lab, []resident) {
	t.Helper()
	d := &Deployment{run: "7", Image: "i", owner: object{}, nodes: []node{
		{name: "n1", ipv4: netip.MustParseAddr("192.0.2.1")}, {name: "n2", ipv4: netip.MustParseAddr("192.0.2.2")},
	}}
	spec := deploy.Spec{ID: id, Stack: parsed(t, id), Net: network.NewLab(2, 0)}
	for i := range spec.Net.Hosts {
		for k := range 3 {
			spec.Net.Hosts[i].Containers = append(spec.Net.Hosts[i].Containers, network.Container{
				Name: fmt.Sprintf("c%d", k), Index: k, Ports: ports,
			})
		}
	}
	at := func(host, container int) network.Spot { return network.Spot{Host: host, Container: container} }
	spec.Pairs = []network.Pair{
		{Source: at(0, 0), Sink: at(1, 0)}, {Source: at(1, 1), Sink: at(0, 1)}, {Source: at(0, 2), Sink: at(1, 2)},
	}
	l := (&generation{Deployment: d}).newLab(spec)
	var pods []resident
	add := func(space string, labels object, spot *network.Spot) {
		r := resident{Namespace: space, Labels: map[string]string{}, IP: fmt.Sprintf("10.244.0.%d", len(pods)+1), spot: spot}
		for key, value := range labels {
			r.Labels[key] = fmt.Sprint(value)
		}
		pods = append(pods, r)
	}
	for h, j := range l.jobs {
		for i, o := range j.objects() {
			labels := o["spec"].(object)["template"].(object)["metadata"].(object)["labels"].(object) //nolint:forcetypeassert // it was made so
			labels = maps.Clone(labels)
			labels[indexLabel] = "0"
			spot := at(h, i)
			add("lab", labels, &spot)
			if h == 0 && i == 0 {
				add("elsewhere", labels, nil)
				labels = maps.Clone(labels)
				labels[labLabel], labels[jobLabel] = "nettoll-7-9-lab", "nettoll-7-9-host1"
				add("lab", labels, nil)
			}
		}
	}
	add("lab", object{"app": "web"}, nil)
	return l, pods
}

// paired says whether a pair of a lab goes from one place to another; nil: outside of the lab.
func paired(l *lab, from, to *network.Spot) bool {
	for _, p := range l.spec.Pairs {
		if from != nil && to != nil && p.Source == *from && p.Sink == *to {
			return true
		}
	}
	return false
}

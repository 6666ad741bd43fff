package cli

import (
	"encoding/json"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

// The namespace of a run allows pods that share the network of their node if some stack has them, also if the run is
// resumed; and no other run's does.
func TestThere(t *testing.T) {
	c := catalogue.New()
	const hosts, load = "hosts: {kind: kubernetes, nodes: 3, context: kind, image: a/b:c}\n", "workloads: udp-rr\n"
	for text, want := range map[string]bool{
		"factors: {network: cni}\n":                                               true, // the baseline is host
		"baseline: cni\nfactors: {network: [cni, host]}\n":                        true,
		"baseline: cni\nstacks: [{name: node, network: host}]\n":                  true,
		"baseline: cni\nfactors: {network: cni, filter: [none, networkpolicy]}\n": false,
		"baseline: cni\nstacks: [{name: s, network: {cni: {via: clusterip}}}]\n":  false,
	} {
		e, err := experiment.Read("f.yaml", []byte(hosts+text+load), nil, c.Parts())
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var again experiment.Experiment
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatal(err)
		}
		for _, e := range []experiment.Experiment{e, again} {
			d := there(e, c.Cluster, nil)
			if d.Privileged != want || d.Hosts != 3 || d.Options.Context != "kind" || d.Image != "a/b:c" {
				t.Errorf("%s: %+v, want privileged %v on 3 nodes", text, d, want)
			}
		}
	}
}

package cli

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/stack"
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
			d, ok := there(e, c.Cluster, nil).(*kubernetes.Deployment)
			if !ok {
				t.Fatalf("%s: it is no deployment on one cluster", text)
			}
			if d.Privileged != want || d.Hosts != 3 || d.Options.Context != "kind" || d.Image != "a/b:c" {
				t.Errorf("%s: %+v, want privileged %v on 3 nodes", text, d, want)
			}
		}
	}
}

// The deployment knows which definitions stacks name, each once.
func TestThereSecondary(t *testing.T) {
	c := catalogue.New()
	e, err := experiment.Read("f.yaml", []byte("hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\n"+
		"factors: {network: [{cni: {secondary: [lab/fast, lab/a]}}]}\n"+
		"stacks: [{name: s, network: {cni: {secondary: lab/fast}}}]\nworkloads: udp-rr\n"), nil, c.Parts())
	if err != nil {
		t.Fatal(err)
	}
	d, ok := there(e, c.Cluster, nil).(*kubernetes.Deployment)
	if !ok || !slices.Equal(d.Secondary, []string{"lab/a", "lab/fast"}) {
		t.Errorf("%+v, want lab/a and lab/fast", d)
	}
}

// A monitor is asked for with the hosts, and its pods need a namespace that allows them.
func TestThereMonitored(t *testing.T) {
	c := catalogue.New()
	for monitor, want := range map[string]bool{"nodes": true, "wire": true, "none": false} {
		e, err := experiment.Read("f.yaml", []byte("hosts: {kind: kubernetes, nodes: 2, monitor: "+monitor+"}\n"+
			"baseline: cni\nfactors: {network: cni, filter: networkpolicy}\nworkloads: udp-rr\n"), nil, c.Parts())
		if err != nil {
			t.Fatal(err)
		}
		d, ok := there(e, c.Cluster, nil).(*kubernetes.Deployment)
		if !ok || d.Monitor != want || d.Privileged != want || d.Taps != (monitor == "wire") {
			t.Errorf("monitor: %s: %+v, want %v", monitor, d, want)
		}
	}
}

// Several clusters have a deployment each. What the factors make is on all of them, and the baseline on the first.
func TestThereSeveral(t *testing.T) {
	c := catalogue.New()
	e, err := experiment.Read("f.yaml", []byte("hosts:\n- {kind: kubernetes, nodes: 2, context: a}\n"+
		"- {kind: kubernetes, nodes: 2, context: b/c, name: other, image: x:y, namespace: n}\n"+
		"factors: {network: [host, cni]}\nstacks: [{name: s, network: {cni: {via: clusterip}}}]\nworkloads: udp-rr\n"), nil, c.Parts())
	if err != nil {
		t.Fatal(err)
	}
	at, ok := there(e, c.Cluster, nil).(*kubernetes.Several)
	if !ok || len(at.Clusters) != 2 || !slices.Equal(at.Names, []string{"a", "other"}) {
		t.Fatalf("%+v, want two clusters, a and other", at)
	}
	second := at.Clusters[1]
	if second.Options.Context != "b/c" || second.Image != "x:y" || second.Namespace != "n" || !second.Privileged {
		t.Errorf("the second cluster is %+v", second)
	}
	r, err := experiment.Resolve(e, c.Parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]string{}
	for _, l := range r.Labs {
		on[l.Named] = stack.OnCluster(l.Stack)
	}
	if want := map[string]string{
		"host@pod(cluster=a)": "a", "host@pod(cluster=other)": "other", "cni@pod(cluster=a)": "a",
		"cni@pod(cluster=other)": "other", "s": "a",
	}; !maps.Equal(on, want) {
		t.Errorf("labs %v, want %v", on, want)
	}
}

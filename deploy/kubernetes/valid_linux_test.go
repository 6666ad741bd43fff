package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/kubectl"
	"github.com/nettoll/nettoll/internal/testkube"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// A server takes objects without keeping them.
type server struct {
	deployment *Deployment
	strict     string // a namespace with the Pod Security Standard restricted
	lax        string // one with privileged
}

// newServer starts an API server, with a controller manager and a scheduler but without nodes.
func newServer(t *testing.T) *server {
	t.Helper()
	testnet.Kube(t)
	workloadtest.Loopback(t)
	c := testkube.New(t, testkube.Options{Nodes: testkube.None})
	dir := t.TempDir()
	config, err := c.Relay(t.Context())
	if err == nil {
		err = c.LinkKubectl(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &Deployment{
		run: "7", Image: "nettoll:latest", owner: object{"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": "1"},
	}
	for i := range 2 {
		v4, v6 := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+1))
		d.nodes = append(d.nodes, node{name: fmt.Sprintf("n%d", i+1), ipv4: v4, ipv6: v6})
	}
	if d.client, err = kubectl.Open(t.Context(), kubectl.Options{
		Program: filepath.Join(dir, "kubectl"), Env: append(os.Environ(), "KUBECONFIG="+config),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.client.Close() })
	s := &server{deployment: d, strict: "nettoll-strict", lax: "nettoll-lax"}
	for name, privileged := range map[string]bool{s.strict: false, s.lax: true} {
		if err := d.client.Create(t.Context(), core+"/namespaces", namespaceOf(name, "7", privileged), nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// try has the server look at an object. A field that it does not know is an error.
func (s *server) try(t *testing.T, in, group, kind string, o object) error {
	t.Helper()
	path := fmt.Sprintf("%s/namespaces/%s/%s?dryRun=All&fieldValidation=Strict", group, in, kind)
	return s.deployment.client.Create(t.Context(), path, o, nil)
}

// valid wants the server to take an object.
func (s *server) valid(t *testing.T, what, group, kind string, o object) {
	t.Helper()
	if err := s.try(t, s.strict, group, kind, o); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// podOf is a pod as the cluster makes it for a Job or DaemonSet.
func podOf(t *testing.T, o object) object {
	t.Helper()
	text, err := json.Marshal(o)
	var of struct {
		Spec struct {
			Template struct{ Metadata, Spec object }
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		t.Fatal(err)
	}
	made := of.Spec.Template
	made.Metadata["generateName"] = "p-"
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": made.Metadata, "spec": made.Spec}
}

// runs wants a set of pods to be valid. Its pods may be in a namespace that is restricted, or only in one that is not.
func (s *server) runs(t *testing.T, what, group, kind string, o object, restricted bool) {
	t.Helper()
	s.valid(t, what, group, kind, o)
	pod := podOf(t, o)
	if err := s.try(t, s.lax, core, "pods", pod); err != nil {
		t.Errorf("a pod of %s: %v", what, err)
	}
	err := s.try(t, s.strict, core, "pods", pod)
	if restricted && err != nil || !restricted && (err == nil || !strings.Contains(err.Error(), "violates PodSecurity")) {
		t.Errorf("a pod of %s in a restricted namespace: %v, want it to be taken: %v", what, err, restricted)
	}
}

// An API server takes every kind of object that runs make, and knows all of their fields. Pods are as restricted as
// Kubernetes knows it, unless they share the network of their node.
func TestObjectsAreValid(t *testing.T) {
	s := newServer(t)
	d := s.deployment
	for _, id := range []string{
		"host", "cni", "cni(via=clusterip)", "cni(via=nodeport)", "cni(via=nodeport,node=source)", "cni(secondary=lab/fast)",
		"cni+networkpolicy(rules=1001)", "cni(via=nodeport)+networkpolicy(rules=1)",
	} {
		spec := deploy.Spec{ID: id, Stack: parsed(t, id), Net: network.NewLab(2, 0)}
		for i := range spec.Net.Hosts {
			for k, name := range []string{"src", "snk"} {
				spec.Net.Hosts[i].Containers = append(spec.Net.Hosts[i].Containers, network.Container{
					Name: fmt.Sprintf("%s%d", name, i), Index: k, Ports: network.Ports{First: 30100, Last: 30103},
				})
			}
			spec.Pairs = append(spec.Pairs, network.Pair{
				Source: network.Spot{Host: i}, Sink: network.Spot{Host: 1 - i, Container: 1},
			})
		}
		l := (&generation{Deployment: d}).newLab(spec)
		_, jobs := l.inhabited()
		for _, j := range jobs {
			for i, o := range j.objects() {
				s.runs(t, fmt.Sprintf("%s: job %s", id, j.names()[i]), batch, "jobs", o, id != "host")
			}
		}
		for i, p := range l.policies() {
			s.valid(t, fmt.Sprintf("%s: policy %d", id, i), networking, "networkpolicies", p)
		}
		if l.served() {
			for i := range spec.Pairs {
				s.valid(t, fmt.Sprintf("%s: service %d", id, i), core, "services", l.serviceOf(i))
			}
		}
	}
	for _, apart := range []bool{false, true} { // with policies about them, as in the study, and without
		d.scouts = jobSpec{name: fmt.Sprintf("nettoll-7-1-scouts-%v", apart), run: "7", image: d.Image, pods: 2, apart: apart}
		for _, o := range d.scouts.objects() {
			s.runs(t, fmt.Sprintf("scouts apart: %v", apart), batch, "jobs", o, true)
		}
	}
	s.runs(t, "fresh pods", batch, "jobs", jobSpec{
		name: "nettoll-7-2-fresh", run: "7", lab: "x-selected", image: d.Image, pods: 3, node: "n1",
		runs: []string{FreshCommand, "{}"}, owner: d.owner,
	}.objects()[0], true)
	monitors := jobSpec{name: "nettoll-7-3-monitors", run: "7", image: d.Image, pods: 2, daemons: true}
	for _, listen := range []bool{false, true} {
		s.runs(t, fmt.Sprintf("monitors (listen: %v)", listen), apps, "daemonsets",
			monitors.monitorsOf([]string{"n1", "n2"}, listen, d.owner), false)
	}
	p := &Policing{deployment: d, name: "nettoll-7-4-policing", sink: end{index: 1}}
	for _, direction := range []Direction{Ingress, Egress} {
		for _, of := range []Policy{
			{Direction: direction}, {Direction: direction, Allow: true, Rules: MaxRules}, {Direction: direction, Fresh: true},
		} {
			s.valid(t, fmt.Sprintf("policy %+v of the study", of), networking, "networkpolicies", p.object(of))
		}
	}
	// The test can fail: an object with a field that nobody knows, and one with a value that is not valid.
	for what, wrong := range map[string]jobSpec{
		"unknown field": {name: "x", run: "7", image: "i", pods: 1}, "no image": {name: "x", run: "7", pods: 1},
	} {
		o := wrong.objects()[0]
		if what == "unknown field" {
			o["spec"].(object)["completionsMode"] = "Indexed" //nolint:forcetypeassert // it was made so
		}
		if err := s.try(t, s.strict, batch, "jobs", o); err == nil {
			t.Errorf("the server takes a Job: %s", what)
		}
	}
}

package runtimetest

import (
	"maps"
	"testing"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/runtime"
)

// Joined returns the plan of the first host of a lab with a pair, or several, whose network n a runtime builds. The
// parameters with are those of the network; others have their defaults. The ports of containers are published.
func Joined(t *testing.T, r runtime.Joiner, n network.Network, hosts, pairs int, with part.Params) (host.Plan, error) {
	t.Helper()
	lab := networktest.Lab(hosts, pairs)
	lab.Params = part.Params{}
	for _, p := range n.Describe().Params {
		lab.Params[p.Name] = p.Default
	}
	lab.Params["by"] = r.Describe().Name
	maps.Copy(lab.Params, with)
	lab, err := network.Cross(n, lab)
	if err != nil {
		t.Fatal(err)
	}
	plans, ends, err := n.Build(lab)
	if err != nil {
		t.Fatal(err)
	}
	containers := make([]runtime.Container, len(ends[0]))
	for i, e := range ends[0] {
		c := lab.Hosts[0].Containers[i]
		containers[i] = runtime.Container{Name: c.Name, Namespace: e.Namespace}
		if e.PublicIPv4.IsValid() {
			containers[i].Published = c.Ports
		}
	}
	own := part.Params{}
	for _, p := range r.Describe().Params {
		own[p.Name] = p.Default
	}
	steps, err := r.Join(containers, plans[0].Steps, own)
	return host.Plan{Steps: steps}, err
}

package control

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy/kubernetes"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/pod"
)

// TestShareOut wants ports of its own for each container of a host, and for sources of a lab with filters half of them
// to be ephemeral, in a range that the kernel takes without a warning.
func TestShareOut(t *testing.T) {
	for _, pairs := range []int{1, 2, 3, 10, 100, 500} {
		for _, most := range []int{0, 66, 700} {
			var h network.Host
			for i := range pairs {
				for _, name := range []string{sourceName, sinkName} {
					h.Containers = append(h.Containers, network.Container{Name: fmt.Sprint(name, i), Index: len(h.Containers)})
				}
			}
			all := portRange{firstPort, lastPort}
			if err := shareOut([]network.Host{h}, all, rand.New(rand.NewPCG(1, 2)), most); err != nil {
				t.Fatalf("%d pairs, %d ports of a sink at most: %v", pairs, most, err)
			}
			owner := map[int]string{}
			for _, c := range h.Containers {
				p := c.Sending()
				for port := int(p.First); port <= int(p.Last); port++ {
					if port < firstPort || port >= lastPort || owner[port] != "" {
						t.Fatalf("%d pairs, %d at most: port %d of %s is of %q, too, or out of range", pairs, most, port, c.Name,
							owner[port])
					}
					owner[port] = c.Name
				}
				source, some := c.Name[:len(sourceName)] == sourceName, c.Ephemeral != (network.Ports{})
				if some != (source && most > 0) || some &&
					(c.Ephemeral.First != c.Ports.Last+1 || (c.Ephemeral.Last-c.Ephemeral.First)%2 == 0 ||
						c.Ports.Last <= c.Ports.First) {
					t.Errorf("%d pairs, %d at most: %s has ports %v and ephemeral %v", pairs, most, c.Name, c.Ports, c.Ephemeral)
				}
				if n := int(c.Ports.Last-c.Ports.First) + 1; !source && most > 0 && n > most {
					t.Errorf("%d pairs, %d at most: %s has %d ports", pairs, most, c.Name, n)
				}
			}
		}
	}
}

// TestPortsOf wants ports of its own for each lab whose containers share the namespace of a host that stands without
// nettoll; and all ports for any other lab.
func TestPortsOf(t *testing.T) {
	kinds := pod.Kinds()
	labOf := func(id, network string) experiment.Lab {
		s, err := kinds.Parse(network)
		if err != nil {
			t.Fatal(err)
		}
		return experiment.Lab{ID: id, Stack: s}
	}
	r := &experiment.Resolved{Labs: []experiment.Lab{labOf("a", "host"), labOf("b", "cni"), labOf("a#2", "host")}}
	c := &configurator{resolved: r}
	get := func() (all []portRange) {
		for _, l := range r.Labs {
			all = append(all, c.portsOf(&lab{Lab: l}))
		}
		return all
	}
	whole := portRange{firstPort, lastPort}
	if diff := cmp.Diff([]portRange{whole, whole, whole}, get(), cmp.AllowUnexported(portRange{})); diff != "" {
		t.Errorf("on this machine (-want +got):\n%s", diff)
	}
	c.deployment = &kubernetes.Deployment{}
	if diff := cmp.Diff([]portRange{{20000, 25000}, whole, {25000, 30000}}, get(), cmp.AllowUnexported(portRange{})); diff != "" {
		t.Errorf("on a cluster (-want +got):\n%s", diff)
	}
	r.Labs = append(r.Labs, labOf("c", "cni(via=nodeport)"))
	few := portRange{20000, 30000}
	if diff := cmp.Diff([]portRange{{20000, 25000}, few, {25000, 30000}, few}, get(),
		cmp.AllowUnexported(portRange{})); diff != "" {
		t.Errorf("on a cluster with node ports (-want +got):\n%s", diff)
	}
}

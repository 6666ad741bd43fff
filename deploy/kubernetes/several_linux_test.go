package kubernetes

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/network"
)

// Of several clusters each has room for its own labs, and says so of these alone.
func TestSeveralCrowded(t *testing.T) {
	lab := func(cluster string, pods int) deploy.Spec {
		s := deploy.Spec{Stack: parsed(t, "cni@pod(cluster="+cluster+")")}
		s.Net.Hosts = []network.Host{{Containers: make([]network.Container, pods)}}
		return s
	}
	var clusters []*Deployment
	for range 2 {
		d := serveNodes(t, nil)
		d.nodes = []node{{name: "n1", room: 110}}
		clusters = append(clusters, d)
	}
	s := &Several{Names: []string{"a", "b"}, Clusters: clusters}
	wrong, err := s.Check(t.Context(), []deploy.Spec{lab("a", 60), lab("b", 60), lab("b", 50), lab("a", 49)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "run 111 pods on node n1", "run 111 pods on node n1", ""} {
		if got := wrong[i]; (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("lab %d: %v, want %q", i, got, want)
		}
	}
}

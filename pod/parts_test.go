package pod

import (
	"strings"
	"testing"
)

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

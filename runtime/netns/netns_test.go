package netns_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/runtime/runtimetest"
)

func TestMain(m *testing.M) { runtimetest.Main(m) }

func TestConformance(t *testing.T) {
	runtimetest.Conformance(t, netns.Runtime{})
	runtimetest.Entered(t, netns.Runtime{}, nil)
	t.Run("group=own", func(t *testing.T) { runtimetest.Grouped(t, netns.Runtime{}, map[string]string{"group": "own"}) })
}

func TestContainers(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []runtime.Container
		want []host.Step
		err  string
	}{
		{name: "none"},
		{name: "own namespaces", in: []runtime.Container{
			{Name: "src0", Namespace: "src0"}, {Name: "snk0", Namespace: "snk0"},
		}, want: []host.Step{host.Namespace{Name: "src0"}, host.Namespace{Name: "snk0"}}},
		{name: "the host's namespace", in: []runtime.Container{{Name: "src0"}}},
		{
			name: "another's namespace", in: []runtime.Container{{Name: "src0", Namespace: "snk0"}},
			err: `container "src0" has namespace "snk0" (valid: its own name, or "" for the host's namespace)`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := netns.Runtime{}.Containers(c.in, nil)
			if text(err) != c.err {
				t.Errorf("error %q, want %q", text(err), c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

package control

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload/udprr"
)

func TestSample(t *testing.T) {
	s := Sample{Parts: mixParts(), Stack: stack.Stack{chosen(t, "nat")}, Workload: udprr.Workload{}, Hosts: 2}
	r, err := s.resolve()
	if err != nil {
		t.Fatal(err)
	}
	l, c := r.Labs[0], r.Cells[0]
	got := []any{l.ID, l.Placement, l.Pairs, l.Hosts, len(l.Stack[0].Params) > 0, c.ID, c.Family, c.Trial}
	want := []any{
		"nat/cross-host/1", experiment.CrossHost, 1, 2, true, "nat/cross-host/1/udp-rr(payload=64,mode=wait)",
		"ipv4", tryTrial,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lab and cell (-want +got):\n%s", diff)
	}
}

// What the machine lacks stays what it is on its way to who asked; labs that work are a matter of the tests of doctor.
func TestTryFails(t *testing.T) {
	s := Sample{Parts: mixParts(), Stack: stack.Stack{chosen(t, "bridge")}, Workload: udprr.Workload{}, Hosts: 1}
	_, err := Try(t.Context(), s, &labtest.Fake{Fails: func(string, int) error {
		return &linux.UnsupportedError{What: "make namespaces", Missing: "namespaces", Hint: "another kernel"}
	}})
	u, ok := errors.AsType[*linux.UnsupportedError](err)
	if !ok || u.Missing != "namespaces" ||
		!strings.HasPrefix(err.Error(), "build lab bridge/same-host/1: make namespaces: ") {
		t.Errorf("got %v", err)
	}
}

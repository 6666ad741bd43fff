package labtest

import (
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/probe/probetest"
	"github.com/nettoll/nettoll/stack"
)

func TestFake(t *testing.T) {
	kinds := stack.Kinds{network.Kind{networktest.Fake{}}}
	s, err := kinds.Parse("fake")
	if err != nil {
		t.Fatal(err)
	}
	one, two := Lab(s, 1), Lab(s, 2)
	one.ID, two.ID = "one", "two"
	bad := Lab(s, 1)
	bad.ID = "bad"
	fake := &Fake{
		Refuses:   map[string]error{"bad": &linux.UnsupportedError{What: "stand", Missing: "ground"}},
		Installed: func(_ int, program string) string { return map[bool]string{true: "1.0"}[program != Missing] },
	}
	Conformance(t, func() deploy.Deployment { return fake }, probetest.Fake{}, []deploy.Spec{one, two}, bad)
	if left := fake.Left(); len(left) > 0 {
		t.Errorf("these labs still stand: %q", left)
	}
}

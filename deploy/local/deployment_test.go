package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/probe/probetest"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/program"
)

// lacking is a network that no host supports.
type lacking struct{ networktest.Fake }

func (lacking) Check(part.Params) error {
	return &linux.UnsupportedError{What: "join containers", Missing: "rope", Hint: "buy some"}
}

// kinds returns the kinds of the labs of these tests.
func kinds() stack.Kinds {
	return stack.Kinds{
		network.Kind{bridge.Network{}, lacking{networktest.Fake{Description: network.Description{
			Name: "lacking", Summary: "joins nothing", Implementation: "kernel",
		}}}},
		runtime.Kind{netns.Runtime{}},
	}
}

func TestDeployment(t *testing.T) {
	testnet.Root(t)
	wanted := func(id string, hosts int) deploy.Spec {
		s, err := kinds().Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		spec := labtest.Lab(s, hosts)
		spec.ID = id
		return spec
	}
	one, two := wanted("bridge", 1), wanted("bridge", 2)
	one.ID, two.ID = "one", "two"
	labtest.Conformance(t, func() deploy.Deployment { return &Deployment{} }, probetest.Fake{}, []deploy.Spec{one, two},
		wanted("lacking", 1))
}

// Programs are looked up where the hosts are, by their PATH, and not by that of this process. As all hosts have the
// same files, no host is named.
func TestProgramsOfHosts(t *testing.T) {
	testnet.Root(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte("#!/bin/sh\necho version 1.$# of $1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &Deployment{Env: append(os.Environ(), "PATH="+dir+":/bin:/usr/bin")}
	t.Setenv("PATH", "/nowhere")
	needed := program.Needed{By: "a test", Program: "there", AskVersion: []string{"x"}}
	found, err := d.Programs(t.Context(), []deploy.Wanted{
		{Host: 2, Needed: needed}, {Host: 1, Needed: program.Needed{By: "a test", Program: labtest.Missing, Package: "p"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if found[0].Err != nil || found[0].Version != "1.1" {
		t.Errorf("%+v, want version 1.1", found[0])
	}
	const want = `use a test: not supported here: missing program "no-such-program" (hint: apt-get install p)`
	if found[1].Err == nil || found[1].Err.Error() != want {
		t.Errorf("error %v, want %s", found[1].Err, want)
	}
}

// Workers inherit the counters of the loaded probe, and of no other one: there is one at a time.
func TestProbeOfMachine(t *testing.T) {
	d := &Deployment{}
	loaded, err := d.LoadProbe(probetest.Fake{})
	if err != nil {
		t.Fatal(err)
	}
	files := func() map[string]*os.File {
		g, err := d.Begin(traffic.Layout{Workers: 1, Pairs: 1, Cells: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		return g.(*generation).files
	}
	if files()[probeFile+"fake"] == nil {
		t.Error("workers do not inherit the counters of the probe")
	}
	if _, err := d.LoadProbe(probetest.Fake{}); err == nil || !strings.Contains(err.Error(), `probe "fake" is loaded`) {
		t.Errorf("a second probe: error %v", err)
	}
	if err := loaded.Close(); err != nil {
		t.Error(err)
	}
	if files()[probeFile+"fake"] != nil {
		t.Error("workers inherit the counters of a probe that was removed")
	}
}

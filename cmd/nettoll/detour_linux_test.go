package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// If the packets of a lab take another way during the run, the lab fails its proof and is not measured any more. The
// report names the device that missed them.
func TestDetour(t *testing.T) {
	testnet.Root(t)
	t.Parallel()
	s := start(t, "--time", "5s", "--network", "bridge", "--workload", "udp-rr", "--placement", "same-host")
	s.measuring()
	s.plant("br0", func() error { // a second bridge, to which both ports move
		around := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br1"}}
		err := errors.Join(netlink.LinkAdd(around), netlink.LinkSetUp(around))
		for _, name := range []string{"vsrc0", "vsnk0"} {
			port, missing := netlink.LinkByName(name)
			if missing != nil {
				return missing
			}
			err = errors.Join(err, netlink.LinkSetMaster(port, around))
		}
		return err
	})
	var failed []measure.Proof
	if status := s.wait(patience); status == 0 {
		t.Errorf("exit status 0, and the lab was not what it was called\n%s", s.stderr.String())
	}
	log, _ := s.records()
	for _, p := range log.Proofs {
		if !p.OK && p.Name != proof.Watched {
			failed = append(failed, p)
		}
	}
	if len(failed) != 2 || failed[0].Lab != "bridge/same-host/1" || failed[0].When != "after" ||
		!strings.Contains(failed[0].Detail, "packets received by vsrc0, port of br0") ||
		!strings.Contains(failed[1].Detail, "the kernel differs from") {
		t.Errorf("proofs that failed are %+v, want two of the bridge after the blocks, which name its port and what changed",
			failed)
	}
	contains(t, "stdout and stderr", oneLine(s.stdout.String()+s.stderr.String()),
		"packets received by vsrc0, port of br0")
}

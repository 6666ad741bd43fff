package carriertest

import (
	"fmt"
	"testing"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
)

// jumbo is the MTU in bytes of an underlay with jumbo frames.
const jumbo = 9000

// many is the number of hosts of such a lab: each reaches several others.
const many = 4

// Hosts has datagrams pass between every two of four hosts in both families and both directions, small ones and those
// that just fit into what an underlay with jumbo frames leaves containers.
func Hosts(t testing.TB, n network.Network, between stack.Stack) (err error) {
	lab := networktest.Mesh(many)
	lab.MTU, lab.Underlay.MTU = jumbo, jumbo
	if lab, err = network.Compose(lab, between); err != nil {
		return err
	}
	b, err := networktest.MakeBed(t, n, lab)
	if err != nil {
		return err
	}
	defer func() {
		if uerr := b.Undo(); err == nil {
			err = uerr
		}
	}()
	if err := b.Apply(t); err != nil {
		return err
	}
	if err := b.Verify(t); err != nil {
		return err
	}
	for family, header := range headers() {
		for _, size := range []int{small, lab.MTU - header - udpHeader} {
			if err := b.Exchange(family, size); err != nil {
				return fmt.Errorf("datagrams of %d bytes between %d hosts: %w", size, many, err)
			}
		}
	}
	return nil
}

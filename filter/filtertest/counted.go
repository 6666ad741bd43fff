package filtertest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/proof/attack"
)

// packets wants the claims of a lab to hold, and then traffic to pass and be refused. Families are those that the list
// has.
func (c *trial) packets(t testing.TB, families []string) (err error) {
	s, err := c.raise(t, families)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Undo()) }()
	return errors.Join(c.claims(t, s, families), c.traffic(t, s, families))
}

// traffic wants the filter to decide as its list and its description say, and to count that.
func (c *trial) traffic(t testing.TB, s *stand, families []string) error {
	target := s.described(c, families, true)
	before, err := s.counters()
	if err != nil {
		return err
	}
	if _, err := c.held(t, s, target, attack.Carries); err != nil {
		return err
	}
	between, err := s.counters()
	if err != nil {
		return err
	}
	if least := uint64(len(s.pairs) * len(families)); between.Allowed < before.Allowed+least {
		return fmt.Errorf("it has counted %d allowed packets, and %d before: want %d more at least", between.Allowed,
			before.Allowed, least)
	}
	if _, err := c.held(t, s, target, attack.Sockets, attack.Pieces, attack.OwnPorts, attack.Messages, attack.Quotes,
		attack.Extensions, attack.ToHosts, attack.FromHosts); err != nil {
		return err
	}
	after, err := s.counters()
	if err != nil {
		return err
	}
	if after.Refused < between.Refused+uint64(len(s.pairs)) {
		return fmt.Errorf("it has counted %d refused packets, and %d before: want %d more at least", after.Refused,
			between.Refused, len(s.pairs))
	}
	return s.Verify(t)
}

func (s *stand) counters() (sum filter.Counters, err error) {
	for i, step := range s.steps {
		one, err := step.Counters(s.at[i])
		if err != nil {
			return sum, err
		}
		sum.Allowed += one.Allowed
		sum.Refused += one.Refused
	}
	for h, p := range s.plans { // what binds addresses to links counts apart from the list
		for _, step := range p.Steps {
			if bound, ok := step.(filter.Bound); ok {
				one, err := bound.Counters(s.Hosts[h].Kernel)
				if err != nil {
					return sum, err
				}
				sum.Refused += one.Refused
			}
		}
	}
	return sum, nil
}

// spoofing wants nobody to use the addresses of others if the filter binds them to links, all of that to be counted,
// and allowed traffic to go on.
func (c *trial) spoofing(t testing.TB) error {
	if c.where.Point == network.InContainer {
		return nil // its root sends what it likes
	}
	for _, n := range []int{pairs, pairs + 1} {
		of := *c
		of.pairs = n
		if err := of.spoof(t); err != nil {
			return fmt.Errorf("%d pairs: %w", n, err)
		}
	}
	return nil
}

func (c *trial) spoof(t testing.TB) (err error) {
	families := []string{"ipv4", "ipv6"}
	s, err := c.raise(t, families)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Undo()) }()
	target := s.described(c, families, true)
	if _, err := c.held(t, s, target, attack.Talks); err != nil { // everybody knows everybody
		return fmt.Errorf("before anything is spoofed: %w", err)
	}
	if err := c.astray(t, s, target); err != nil {
		return err
	}
	before, err := s.counters()
	if err != nil {
		return err
	}
	list, err := c.held(t, s, target, attack.Spoofed)
	if err != nil || !c.params.On(filter.Antispoof) {
		return err
	}
	after, err := s.counters()
	if err != nil {
		return err
	}
	if frames := uint64(list[0].Frames); after.Refused < before.Refused+frames {
		return fmt.Errorf("it has counted %d refused packets, and %d before: want %d more at least", after.Refused,
			before.Refused, frames)
	}
	if _, err := c.held(t, s, target, attack.Talks); err != nil {
		return fmt.Errorf("after much was spoofed: %w", err)
	}
	return s.Verify(t)
}

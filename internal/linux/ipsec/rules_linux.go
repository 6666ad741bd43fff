package ipsec

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// DropRules removes the rules that charon has added to the calling thread's network namespace, in both families: those
// that have its routing table looked into. There may be none.
func DropRules() error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := netlink.RuleList(family)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list routing rules: %w", err)
		}
		for _, r := range rules {
			if r.Table != table || r.Priority != priority {
				continue
			}
			r.Family = family
			if err := netlink.RuleDel(&r); err != nil {
				return fmt.Errorf("delete the routing rule of charon: %w", err)
			}
		}
	}
	return nil
}

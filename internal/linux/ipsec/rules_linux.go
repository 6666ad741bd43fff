package ipsec

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/dump"
)

// DropRules removes the rules for charon's routing table, which charon added to the calling thread's network namespace,
// in both families. There may be none.
func DropRules() error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := rules(family)
		if err != nil {
			return err
		}
		for _, r := range rules {
			if r.Priority != priority {
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

// rules lists the rules for the routing table of charon.
func rules(family int) (list []netlink.Rule, err error) {
	all, err := dump.Whole(func() ([]netlink.Rule, error) { return netlink.RuleList(family) })
	if err != nil {
		return nil, fmt.Errorf("list routing rules: %w", err)
	}
	for _, r := range all {
		if r.Table == table {
			list = append(list, r)
		}
	}
	return list, nil
}

// CompareRoutes lists how the routing table of charon differs from what its policies need, in the calling thread's
// network namespace: a rule uses it, or a route in it has a source. charon sets a source in routes for policies of an
// association (install_route in src/libcharon/plugins/kernel_libipsec/kernel_libipsec_ipsec.c). There is no other sign
// that an association has such policies.
func CompareRoutes() (list []linux.Difference, err error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := rules(family)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			list = append(list, linux.Difference{
				What: fmt.Sprintf("routing rule for table %d", table), Want: linux.Absent, Got: linux.Present,
			})
		}
		routes, err := dump.Whole(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("list routes of table %d: %w", table, err)
		}
		for _, r := range routes {
			if r.Src != nil {
				list = append(list, linux.Difference{
					What: fmt.Sprintf("policies of an association, with a route to %s in table %d", r.Dst, table),
					Want: linux.Absent, Got: linux.Present,
				})
			}
		}
	}
	return list, nil
}

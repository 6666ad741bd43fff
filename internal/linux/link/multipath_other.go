//go:build !linux

package link

import "net/netip"

// AddMultipath is not supported here.
func (*Handle) AddMultipath(netip.Prefix, []Route) error { return unsupported() }

// DeleteMultipath is not supported here.
func (*Handle) DeleteMultipath(netip.Prefix, []Route) error { return unsupported() }

// Multipath is not supported here.
func (*Handle) Multipath(netip.Prefix) ([]Route, error) { return nil, unsupported() }

package link

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Rename changes the name of a link, also of one that is up. Before Linux 6.2 it has to be down meanwhile, which loses
// its IPv6 addresses and its routes: the addresses are put back, and the routes to these destinations.
func (h *Handle) Rename(index int, name string, to ...netip.Addr) error {
	err := h.SetName(index, name)
	if errors.Is(err, unix.EBUSY) {
		return h.renameDown(index, name, to)
	}
	return err
}

func (h *Handle) renameDown(index int, name string, to []netip.Addr) error {
	addresses, err := h.Addresses(index)
	if err != nil {
		return err
	}
	var routes []Route
	for _, a := range to {
		found, err := h.Routes(netip.PrefixFrom(a, a.BitLen()))
		if err != nil {
			return err
		}
		routes = append(routes, found...)
	}
	if err := h.SetUp(index, false); err != nil {
		return err
	}
	if err := errors.Join(h.SetName(index, name), h.SetUp(index, true)); err != nil {
		return err
	}
	for _, a := range addresses {
		if err := h.AddAddress(index, a); err != nil && !errors.Is(err, ErrExists) {
			return err
		}
	}
	for _, r := range routes {
		if err := h.AddRoute(r); err != nil && !errors.Is(err, ErrExists) {
			return err
		}
	}
	return nil
}

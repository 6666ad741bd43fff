package link

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
)

// notSupported is ENOTSUPP of include/linux/errno.h, which is internal to the kernel but is sometimes returned by it.
const notSupported = unix.Errno(524)

// AddIPVlan makes an ipvlan link in its namespace and sets it up there.
func (h *Handle) AddIPVlan(i IPVlan) error {
	what := fmt.Sprintf("make ipvlan %q", i.Name)
	if err := checkName(i.Name); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	mode, err := ipvlanMode(i.Mode)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Flags = i.Name, i.MTU, net.FlagUp
	attrs.ParentIndex, attrs.Namespace = i.Lower, netlink.NsFd(i.NS.Fd())
	err = h.h.LinkAdd(&netlink.IPVlan{LinkAttrs: attrs, Mode: mode})
	if errors.Is(err, notSupported) {
		return &linux.UnsupportedError{
			What: what, Missing: "mode l3s of ipvlan", Hint: "use mode l3, or a kernel with CONFIG_IPVLAN_L3S", Err: err,
		}
	}
	return explain(what, err, `link type "ipvlan"`)
}

// SetIPVlanMode changes the mode of an ipvlan, and of all others on the same link.
func (h *Handle) SetIPVlanMode(index int, name string) error {
	what := fmt.Sprintf("set mode of ipvlan %d to %q", index, name)
	mode, err := ipvlanMode(name)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	l, err := h.h.LinkByIndex(index)
	if err == nil {
		// The request has no index: with an index, the name would be a new name. Before Linux 6.2, a link that is up
		// refuses any new name, even its own (net/core/rtnetlink.c, do_setlink; net/core/dev.c, dev_change_name).
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = l.Attrs().Name, l.Attrs().ParentIndex
		err = h.h.LinkModify(&netlink.IPVlan{LinkAttrs: attrs, Mode: mode})
	}
	return explain(what, err, "")
}

// ipvlanMode returns a mode. Its number is its position in the list (include/uapi/linux/if_link.h).
func ipvlanMode(name string) (netlink.IPVlanMode, error) {
	i := slices.Index(IPVlanModes(), name)
	if i < 0 {
		return 0, fmt.Errorf("mode %q (known: %s)", name, strings.Join(IPVlanModes(), ", "))
	}
	return netlink.IPVlanMode(i), nil
}

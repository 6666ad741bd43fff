package link

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// AddNetkit makes a pair of netkit links and returns the index of the near end. Both are still down.
func (h *Handle) AddNetkit(n Netkit) (int, error) {
	what := fmt.Sprintf("make netkit %q", n.Name)
	for _, name := range []string{n.Name, n.PeerName} {
		if err := checkName(name); err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
	}
	attrs, peer := netlink.NewLinkAttrs(), netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = n.Name, n.MAC, n.MTU
	peer.Name, peer.HardwareAddr, peer.MTU, peer.Namespace = n.PeerName, n.PeerMAC, n.MTU, netlink.NsFd(n.PeerNS.Fd())
	netkit := &netlink.Netkit{
		LinkAttrs: attrs, Mode: netlink.NETKIT_MODE_L2, Policy: netlink.NETKIT_POLICY_FORWARD,
		PeerPolicy: netlink.NETKIT_POLICY_FORWARD,
		Scrub:      netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT,
	}
	netkit.SetPeerAttrs(&peer)
	if err := h.h.LinkAdd(netkit); err != nil {
		return 0, explain(what, err, `link type "netkit"`)
	}
	return h.index(n.Name, netkit.Index)
}

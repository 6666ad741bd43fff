package link

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	inheritTOS = 1 // from the inner packet: ip-link(8)

	ignoreLimit = 1  // IP6_TNL_F_IGN_ENCAP_LIMIT: no option of 8 bytes (include/uapi/linux/ip6_tunnel.h; RFC 2473, 4.1.1)
	useClass    = 2  // IP6_TNL_F_USE_ORIG_TCLASS: from the inner packet
	anyProtocol = 0  // inner packets of both families
	greFlags    = 13 // IFLA_GRE_FLAGS, include/uapi/linux/if_tunnel.h
	findPathMTU = 1  // outer packets are not fragmented
)

// AddTunnel makes a tunnel and returns its index. It is down.
func (h *Handle) AddTunnel(t Tunnel) (int, error) {
	kind := TunnelKind(t.GRE, t.MAC != "", t.Remote.Is6())
	what := fmt.Sprintf("make %s %q", kind, t.Name)
	if err := checkName(t.Name); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = t.Name, t.MTU
	local, remote := t.Local.AsSlice(), t.Remote.AsSlice()
	var err error
	switch kind {
	case "sit":
		err = h.h.LinkAdd(&netlink.Sittun{
			LinkAttrs: attrs, Local: local, Remote: remote, Ttl: TTL, Tos: inheritTOS, PMtuDisc: findPathMTU,
			Proto: anyProtocol,
		})
	case "ip6tnl":
		err = h.h.LinkAdd(&netlink.Ip6tnl{
			LinkAttrs: attrs, Local: local, Remote: remote, Ttl: TTL, Flags: ignoreLimit | useClass, Proto: anyProtocol,
		})
	case "gre":
		err = h.h.LinkAdd(&netlink.Gretun{
			LinkAttrs: attrs, Local: local, Remote: remote, Ttl: TTL, Tos: inheritTOS, PMtuDisc: findPathMTU,
		})
	case "gretap":
		if attrs.HardwareAddr, err = net.ParseMAC(t.MAC); err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
		err = h.h.LinkAdd(&netlink.Gretap{
			LinkAttrs: attrs, Local: local, Remote: remote, Ttl: TTL, Tos: inheritTOS, PMtuDisc: findPathMTU,
		})
	default:
		err = h.addGRE6(t, kind)
	}
	if err != nil {
		return 0, explain(what, err, fmt.Sprintf("link type %q", kind))
	}
	l, err := h.ByName(t.Name)
	return l.Index, err
}

// addGRE6 makes GRE links over IPv6: the library does not send their flags, without which outer packets have an option.
func (h *Handle) addGRE6(t Tunnel, kind string) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(t.Name)))
	if t.MTU > 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(t.MTU))))
	}
	if t.MAC != "" {
		mac, err := net.ParseMAC(t.MAC)
		if err != nil {
			return err
		}
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, mac))
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(kind))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	data.AddRtAttr(nl.IFLA_GRE_LOCAL, t.Local.AsSlice())
	data.AddRtAttr(nl.IFLA_GRE_REMOTE, t.Remote.AsSlice())
	data.AddRtAttr(nl.IFLA_GRE_TTL, nl.Uint8Attr(TTL))
	data.AddRtAttr(greFlags, nl.Uint32Attr(ignoreLimit|useClass))
	req.AddData(info)
	// In the namespace of the handle, whose sockets only the library can use: the caller's thread is in that namespace.
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// Tunnel reads a tunnel. For another kind of link, it returns no addresses.
func (h *Handle) Tunnel(name string) (Tunnel, error) {
	l, err := h.h.LinkByName(name)
	if err != nil {
		return Tunnel{}, explain(fmt.Sprintf("find link %q", name), err, "")
	}
	t := Tunnel{Name: name, MTU: l.Attrs().MTU}
	var local, remote []byte
	switch l := l.(type) {
	case *netlink.Sittun:
		local, remote = l.Local, l.Remote
	case *netlink.Ip6tnl:
		local, remote = l.Local, l.Remote
	case *netlink.Gretun:
		t.GRE, t.Keys, local, remote = true, [2]uint32{l.IKey, l.OKey}, l.Local, l.Remote
	case *netlink.Gretap:
		t.GRE, t.Keys, local, remote = true, [2]uint32{l.IKey, l.OKey}, l.Local, l.Remote
		t.MAC = l.HardwareAddr.String()
	}
	t.Local, _ = netip.AddrFromSlice(local)
	t.Remote, _ = netip.AddrFromSlice(remote)
	return t, nil
}

// SetNoARP switches off address resolution on a link.
func (h *Handle) SetNoARP(index int) error {
	l, err := h.h.LinkByIndex(index)
	if err == nil {
		err = h.h.LinkSetARPOff(l)
	}
	return explain(fmt.Sprintf("set ARP off at link %d", index), err, "")
}

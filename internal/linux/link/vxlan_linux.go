package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/dump"
)

// AddVXLAN makes a VXLAN device, which is still down, and returns its index.
func (h *Handle) AddVXLAN(v VXLAN) (int, error) {
	what := fmt.Sprintf("make vxlan %q", v.Name)
	if err := checkName(v.Name); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	// Without the library: the kernel adds checksums over IPv4 unless an attribute disables them
	// (drivers/net/vxlan/vxlan_core.c, vxlan_nl2conf), and the library does not send that attribute.
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: h.strict}}
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(v.Name)))
	req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(v.MTU))))
	if v.MAC != nil {
		req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, v.MAC))
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("vxlan"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	data.AddRtAttr(nl.IFLA_VXLAN_ID, nl.Uint32Attr(v.ID))
	data.AddRtAttr(nl.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, v.Port))
	data.AddRtAttr(nl.IFLA_VXLAN_LEARNING, flag(false))
	if v.Proxy {
		data.AddRtAttr(nl.IFLA_VXLAN_PROXY, flag(true))
	}
	data.AddRtAttr(nl.IFLA_VXLAN_UDP_CSUM, flag(v.Checksum))
	data.AddRtAttr(nl.IFLA_VXLAN_UDP_ZERO_CSUM6_TX, flag(!v.Checksum))
	data.AddRtAttr(nl.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, flag(!v.Checksum))
	switch {
	case v.External:
		data.AddRtAttr(nl.IFLA_VXLAN_FLOWBASED, flag(true))
	case v.Local.Is4():
		data.AddRtAttr(nl.IFLA_VXLAN_LOCAL, v.Local.AsSlice())
	case v.Local.Is6():
		data.AddRtAttr(nl.IFLA_VXLAN_LOCAL6, v.Local.AsSlice())
	}
	req.AddData(info)
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return 0, explain(what, err, `link type "vxlan"`)
	}
	return h.index(v.Name, 0)
}

func flag(on bool) []byte {
	if on {
		return nl.Uint8Attr(1)
	}
	return nl.Uint8Attr(0)
}

// VXLAN reads a VXLAN device. For a link of another type, it returns only the name.
func (h *Handle) VXLAN(name string) (VXLAN, error) {
	l, err := h.h.LinkByName(name)
	if err != nil {
		return VXLAN{}, explain(fmt.Sprintf("read vxlan %q", name), err, "")
	}
	d, ok := l.(*netlink.Vxlan)
	if !ok {
		return VXLAN{Name: name}, nil
	}
	local, _ := netip.AddrFromSlice(d.SrcAddr)
	v := VXLAN{
		Name: name, MAC: d.HardwareAddr, MTU: d.MTU, ID: uint32(d.VxlanId), Port: uint16(d.Port), Local: local,
		Checksum: d.UDPCSum, External: d.FlowBased, Learning: d.Learning, Proxy: d.Proxy,
	}
	if local.Is6() {
		v.Checksum = !d.UDP6ZeroCSumTx
	}
	return v, nil
}

// AddGeneve makes a GENEVE device, which is still down, and returns its index.
func (h *Handle) AddGeneve(g Geneve) (int, error) {
	what := fmt.Sprintf("make geneve %q", g.Name)
	if err := checkName(g.Name); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = g.Name, g.MAC, g.MTU
	geneve := &netlink.Geneve{LinkAttrs: attrs, Dport: g.Port, FlowBased: true}
	if err := h.h.LinkAdd(geneve); err != nil {
		return 0, explain(what, err, `link type "geneve"`)
	}
	return h.index(g.Name, geneve.Index)
}

// Geneve reads a GENEVE device. For a link of another type, it returns only the name.
func (h *Handle) Geneve(name string) (Geneve, error) {
	l, err := h.h.LinkByName(name)
	if err != nil {
		return Geneve{}, explain(fmt.Sprintf("read geneve %q", name), err, "")
	}
	d, ok := l.(*netlink.Geneve)
	if !ok {
		return Geneve{Name: name}, nil
	}
	return Geneve{Name: name, MAC: d.HardwareAddr, MTU: d.MTU, Port: d.Dport, External: d.FlowBased}, nil
}

// AddFDBEntry makes a permanent entry of a VXLAN device.
func (h *Handle) AddFDBEntry(e FDBEntry) error {
	return explain(fmt.Sprintf("add %s to link %d", e, e.Link), h.h.NeighAppend(fdb(e)), "")
}

// DeleteFDBEntry removes an entry. If it is already gone, the error is [ErrNotFound].
func (h *Handle) DeleteFDBEntry(e FDBEntry) error {
	return explain(fmt.Sprintf("remove %s from link %d", e, e.Link), absent(h.h.NeighDel(fdb(e))), "")
}

func fdb(e FDBEntry) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: e.Link, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
		IP: e.At.AsSlice(), HardwareAddr: e.MAC,
	}
}

// FDB reads all entries of a VXLAN device.
func (h *Handle) FDB(index int) ([]FDBEntry, error) {
	what := fmt.Sprintf("read the entries of link %d", index)
	found, err := dump.Whole(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: h.strict}}
		req.AddData(&netlink.Ndmsg{Family: unix.AF_BRIDGE})
		req.AddData(nl.NewRtAttr(netlink.NDA_IFINDEX, nl.Uint32Attr(uint32(index))))
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	})
	if err != nil {
		return nil, explain(what, err, "")
	}
	var list []FDBEntry
	for _, m := range found {
		n, err := netlink.NeighDeserialize(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if n.LinkIndex != index || n.Flags&netlink.NTF_SELF == 0 || n.HardwareAddr == nil {
			continue
		}
		attrs, err := nl.ParseRouteAttrAsMap(m[(&netlink.Ndmsg{}).Len():])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		at, _ := netip.AddrFromSlice(n.IP)
		e := FDBEntry{
			Link: index, MAC: n.HardwareAddr, At: at.Unmap(), ID: uint32(n.VNI), Learned: n.State&netlink.NUD_PERMANENT == 0,
		}
		if a, ok := attrs[netlink.NDA_PORT]; ok && len(a.Value) == 2 {
			e.Port = binary.BigEndian.Uint16(a.Value)
		}
		if a, ok := attrs[netlink.NDA_IFINDEX]; ok && len(a.Value) == 4 {
			e.Through = int(binary.NativeEndian.Uint32(a.Value))
		}
		list = append(list, e)
	}
	return list, nil
}

// Attributes that a route passes to a device: enum lwtunnel_encap_types, lwtunnel_ip_t and lwtunnel_ip6_t of
// include/uapi/linux/lwtunnel.h, and TUNNEL_CSUM of include/uapi/linux/if_tunnel.h. Those of both families have the
// same numbers.
const (
	encapIP, encapIP6 = 2, 4

	encapID     = 1
	encapRemote = 2
	encapLocal  = 3
	encapTTL    = 4 // LWTUNNEL_IP_TTL, LWTUNNEL_IP6_HOPLIMIT
	encapFlags  = 6

	tunnelChecksum = 1
)

// Type returns the type of the route's attribute.
func (e Encap) Type() int {
	if e.Remote.Is6() {
		return encapIP6
	}
	return encapIP
}

// Encode writes the attributes.
func (e Encap) Encode() ([]byte, error) {
	if !e.Remote.IsValid() || e.Local.Is4() != e.Remote.Is4() {
		return nil, fmt.Errorf("encap from %s to %s: the addresses are not of one family", e.Local, e.Remote)
	}
	var b []byte
	add := func(kind int, value []byte) { b = append(b, nl.NewRtAttr(kind, value).Serialize()...) }
	add(encapID, binary.BigEndian.AppendUint64(nil, e.ID))
	add(encapRemote, e.Remote.AsSlice())
	add(encapLocal, e.Local.AsSlice())
	if e.TTL > 0 {
		add(encapTTL, []byte{e.TTL})
	}
	if e.Checksum {
		add(encapFlags, binary.BigEndian.AppendUint16(nil, tunnelChecksum))
	}
	return b, nil
}

// Decode reads the attributes.
func (e *Encap) Decode(b []byte) error {
	attrs, err := nl.ParseRouteAttrAsMap(b)
	if err != nil {
		return err
	}
	if id := attrs[encapID].Value; len(id) == 8 {
		e.ID = binary.BigEndian.Uint64(id)
	}
	e.Remote, _ = netip.AddrFromSlice(attrs[encapRemote].Value)
	e.Local, _ = netip.AddrFromSlice(attrs[encapLocal].Value)
	if ttl := attrs[encapTTL].Value; len(ttl) == 1 {
		e.TTL = ttl[0]
	}
	if flags := attrs[encapFlags].Value; len(flags) == 2 {
		e.Checksum = binary.BigEndian.Uint16(flags)&tunnelChecksum != 0
	}
	return nil
}

// Equal makes Encap implement the library's interface.
func (e *Encap) Equal(x netlink.Encap) bool {
	o, ok := x.(*Encap)
	return ok && *o == *e
}

// EncapRoutes is like [Handle.Routes], but includes what the routes pass to a device: the library only reads other
// kinds of that. It reads the whole table.
func (h *Handle) EncapRoutes(to netip.Prefix) ([]Route, error) {
	what := "read routes to " + to.String()
	found, err := dump.Whole(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
		req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: h.strict}}
		msg := &nl.RtMsg{}
		msg.Family, msg.Table = unix.AF_INET, unix.RT_TABLE_MAIN
		if to.Addr().Is6() {
			msg.Family = unix.AF_INET6
		}
		req.AddData(msg)
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	})
	if errors.Is(err, unix.ENOENT) { // the kernel makes the table with its first route
		return nil, nil
	}
	if err != nil {
		return nil, explain(what, err, "")
	}
	var list []Route
	for _, m := range found {
		msg := nl.DeserializeRtMsg(m)
		attrs, err := nl.ParseRouteAttrAsMap(m[msg.Len():])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		dst, ok := netip.AddrFromSlice(attrs[unix.RTA_DST].Value)
		if !ok || msg.Table != unix.RT_TABLE_MAIN || netip.PrefixFrom(dst, int(msg.Dst_len)) != to.Masked() {
			continue
		}
		r := Route{To: to}
		r.Via, _ = netip.AddrFromSlice(attrs[unix.RTA_GATEWAY].Value)
		if a := attrs[unix.RTA_OIF].Value; len(a) == 4 {
			r.Link = int(binary.NativeEndian.Uint32(a))
		}
		if kind := attrs[unix.RTA_ENCAP_TYPE].Value; len(kind) == 2 {
			switch binary.NativeEndian.Uint16(kind) {
			case encapIP, encapIP6:
				if err := r.Encap.Decode(attrs[unix.RTA_ENCAP].Value); err != nil {
					return nil, fmt.Errorf("%s: %w", what, err)
				}
			}
		}
		list = append(list, r)
	}
	return list, nil
}

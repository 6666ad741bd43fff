package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/dump"
)

// timeout limits the wait for an answer of the kernel. The kernel answers in milliseconds; without a limit, a lost
// answer would hang an agent.
const timeout = 30 * time.Second

// A Handle is a rtnetlink socket in one namespace. It can be used from any thread and by several goroutines.
type Handle struct {
	h *netlink.Handle
	// listings on this socket are filtered by the kernel; on the other one they have everything
	// (NETLINK_GET_STRICT_CHK)
	strict *nl.NetlinkSocket
}

// Open opens a handle in the network namespace of the calling thread.
func Open() (*Handle, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	if err := h.SetSocketTimeout(timeout); err != nil {
		h.Close()
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	strict, err := strictSocket()
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("open rtnetlink socket: %w", err)
	}
	return &Handle{h: h, strict: strict}, nil
}

func strictSocket() (*nl.NetlinkSocket, error) {
	s, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	wait := unix.NsecToTimeval(int64(timeout))
	if err := errors.Join(s.SetSendTimeout(&wait), s.SetReceiveTimeout(&wait),
		unix.SetsockoptInt(s.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the socket. A closed handle must not be used: it panics, because the library would otherwise work in the
// current namespace of the calling thread.
func (h *Handle) Close() {
	h.h.Close()
	h.strict.Close()
	h.h, h.strict = nil, nil
}

// AddBridge makes a bridge, sets it up and returns its index.
func (h *Handle) AddBridge(b Bridge) (int, error) {
	what := fmt.Sprintf("make bridge %q", b.Name)
	if err := checkName(b.Name); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = b.Name, b.MAC
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &b.Snooping}
	if err := h.h.LinkAdd(bridge); err != nil {
		return 0, explain(what, err, `link type "bridge"`)
	}
	index, err := h.index(b.Name, bridge.Index)
	if err == nil && b.MTU != 0 {
		// Set after its creation: a bridge takes the MTU of its ports until its own is set (net/bridge/br_device.c,
		// br_change_mtu).
		err = h.SetMTU(index, b.MTU)
	}
	if err == nil {
		err = h.SetUp(index, true)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("%s: %w", what, err), h.h.LinkDel(bridge))
	}
	return index, nil
}

// AddVeth makes a pair of veth links. It sets the near end up and returns its index. The peer is made in its namespace
// and is still down.
func (h *Handle) AddVeth(v Veth) (int, error) {
	what := fmt.Sprintf("make veth %q", v.Name)
	for _, name := range []string{v.Name, v.PeerName} {
		if err := checkName(name); err != nil {
			return 0, fmt.Errorf("%s: %w", what, err)
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = v.Name, v.MAC, v.MTU
	attrs.Flags = net.FlagUp
	attrs.MasterIndex = v.Master
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: v.PeerName, PeerHardwareAddr: v.PeerMAC,
		PeerNamespace: netlink.NsFd(v.PeerNS.Fd()), PeerTxQLen: -1,
	}
	if err := h.h.LinkAdd(veth); err != nil {
		if veth.Index != 0 { // it exists, but is not a port
			err = errors.Join(err, h.h.LinkDel(veth))
			if errors.Is(err, unix.EXFULL) {
				return 0, fmt.Errorf("%s: %w (hint: a bridge has at most 1023 ports)", what, err)
			}
			return 0, explain(fmt.Sprintf("%s a port of link %d", what, v.Master), err, "")
		}
		return 0, explain(what, err, `link type "veth"`)
	}
	index, err := h.index(v.Name, veth.Index)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return index, nil
}

// AddMacvlan makes a macvlan link in its namespace and sets it up there.
func (h *Handle) AddMacvlan(m Macvlan) error {
	what := fmt.Sprintf("make macvlan %q", m.Name)
	if err := checkName(m.Name); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	mode, ok := macvlanModes()[m.Mode]
	if !ok {
		return fmt.Errorf("%s: mode %q (known: %s)", what, m.Mode, strings.Join(MacvlanModes(), ", "))
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = m.Name, m.MAC, m.MTU
	attrs.Flags = net.FlagUp
	attrs.ParentIndex, attrs.Namespace = m.Lower, netlink.NsFd(m.NS.Fd())
	return explain(what, h.h.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: mode}), `link type "macvlan"`)
}

func macvlanModes() map[string]netlink.MacvlanMode {
	return map[string]netlink.MacvlanMode{
		"bridge": netlink.MACVLAN_MODE_BRIDGE, "private": netlink.MACVLAN_MODE_PRIVATE,
		"vepa": netlink.MACVLAN_MODE_VEPA, "passthru": netlink.MACVLAN_MODE_PASSTHRU,
	}
}

// SetMacvlanMode changes the mode of a macvlan. Mode passthru cannot be changed.
func (h *Handle) SetMacvlanMode(index int, mode string) error {
	m, ok := macvlanModes()[mode]
	if !ok {
		return fmt.Errorf("set mode of macvlan %d to %q (known: %s)", index, mode, strings.Join(MacvlanModes(), ", "))
	}
	l := &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Index: index}}
	return explain(fmt.Sprintf("set mode of macvlan %d to %q", index, mode), h.h.LinkSetMacvlanMode(l, m), "")
}

// index returns the index that the library found after it made the link; the library hides an error of that step.
func (h *Handle) index(name string, found int) (int, error) {
	if found != 0 {
		return found, nil
	}
	l, err := h.ByName(name)
	return l.Index, err
}

// Delete removes a link. If it is already gone, the error is [ErrNotFound].
func (h *Handle) Delete(index int) error {
	return explain(fmt.Sprintf("remove link %d", index), h.h.LinkDel(by(index)), "")
}

// ByName reads a link. If it does not exist, the error is [ErrNotFound].
func (h *Handle) ByName(name string) (Link, error) {
	if err := checkName(name); err != nil {
		return Link{}, err
	}
	l, err := h.h.LinkByName(name)
	if err != nil {
		return Link{}, explain(fmt.Sprintf("read link %q", name), err, "")
	}
	return read(l), nil
}

// ByIndex reads a link. If it does not exist, the error is [ErrNotFound].
func (h *Handle) ByIndex(index int) (Link, error) {
	l, err := h.h.LinkByIndex(index)
	if err != nil {
		return Link{}, explain(fmt.Sprintf("read link %d", index), err, "")
	}
	return read(l), nil
}

// List reads all links of the namespace.
func (h *Handle) List() ([]Link, error) {
	links, err := dump.Whole(h.h.LinkList)
	if err != nil {
		return nil, explain("list links", err, "")
	}
	list := make([]Link, len(links))
	for i, l := range links {
		list[i] = read(l)
	}
	return list, nil
}

// SetUp sets a link up or down.
func (h *Handle) SetUp(index int, up bool) error {
	if up {
		return explain(fmt.Sprintf("set link %d up", index), h.h.LinkSetUp(by(index)), "")
	}
	return explain(fmt.Sprintf("set link %d down", index), h.h.LinkSetDown(by(index)), "")
}

// SetMTU sets the MTU in bytes.
func (h *Handle) SetMTU(index, mtu int) error {
	return explain(fmt.Sprintf("set MTU of link %d to %d", index, mtu), h.h.LinkSetMTU(by(index), mtu), "")
}

// SetMAC sets the address of a link.
func (h *Handle) SetMAC(index int, mac net.HardwareAddr) error {
	return explain(fmt.Sprintf("set address of link %d to %q", index, mac), h.h.LinkSetHardwareAddr(by(index), mac), "")
}

// AddAddress adds an address. An IPv6 address is usable at once, without duplicate address detection. If the address
// already exists, the error is [ErrExists].
func (h *Handle) AddAddress(index int, address netip.Prefix) error {
	a := addr(address)
	if address.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // include/uapi/linux/if_addr.h
	}
	return explain(fmt.Sprintf("add address %q to link %d", address, index), h.h.AddrAdd(by(index), a),
		family(address.Addr()))
}

// DeleteAddress removes an address. If it is already gone, the error is [ErrNotFound].
func (h *Handle) DeleteAddress(index int, address netip.Prefix) error {
	return explain(fmt.Sprintf("remove address %q from link %d", address, index), h.h.AddrDel(by(index), addr(address)),
		"")
}

// Addresses reads the usable addresses of a link, of both families. The kernel reads only that link; a full listing
// would have to be read for each of a thousand links.
func (h *Handle) Addresses(index int) ([]netip.Prefix, error) {
	found, err := dump.Whole(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: h.strict}}
		msg := nl.NewIfAddrmsg(netlink.FAMILY_ALL)
		msg.Index = uint32(index)
		req.AddData(msg)
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	})
	if err != nil {
		return nil, explain(fmt.Sprintf("read addresses of link %d", index), err, "")
	}
	var list []netip.Prefix
	for _, m := range found {
		a, flags, err := address(m)
		if err != nil {
			return nil, fmt.Errorf("read addresses of link %d: %w", index, err)
		}
		if flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0 {
			list = append(list, a)
		}
	}
	return list, nil
}

// address reads one address and its flags (include/uapi/linux/if_addr.h). For IPv4 it is the local address; for IPv6
// too, if there is one, as at an end of a tunnel.
func address(message []byte) (a netip.Prefix, flags uint32, err error) {
	msg := nl.DeserializeIfAddrmsg(message)
	attrs, err := nl.ParseRouteAttrAsMap(message[msg.Len():])
	if err != nil {
		return a, 0, err
	}
	value, ok := attrs[unix.IFA_LOCAL]
	if !ok {
		value = attrs[unix.IFA_ADDRESS]
	}
	ip, ok := netip.AddrFromSlice(value.Value)
	if !ok {
		return a, 0, fmt.Errorf("an address of %d bytes", len(value.Value))
	}
	if f, ok := attrs[unix.IFA_FLAGS]; ok && len(f.Value) == 4 {
		flags = binary.NativeEndian.Uint32(f.Value)
	}
	return netip.PrefixFrom(ip, int(msg.Prefixlen)), flags, nil
}

// Local reports whether packets to the address are accepted here. An IPv6 address is only accepted after a delay,
// through a work queue, even without duplicate address detection (net/ipv6/addrconf.c, addrconf_dad_work). Until then,
// packets are dropped.
func (h *Handle) Local(a netip.Addr) (bool, error) {
	found, err := h.h.RouteGet(a.AsSlice())
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return false, nil
	}
	if err != nil {
		return false, explain(fmt.Sprintf("read how packets go to %q", a), err, "")
	}
	return len(found) > 0 && found[0].Type == unix.RTN_LOCAL, nil
}

// AddRoute adds a route to the main table. If it already exists, the error is [ErrExists].
func (h *Handle) AddRoute(r Route) error {
	missing := family(r.To.Addr())
	if r.Encap != (Encap{}) {
		missing = "lightweight tunnels" // CONFIG_LWTUNNEL: net/core/lwtunnel.c, lwtunnel_valid_encap_type
	}
	return explain("add route to "+r.To.String(), h.h.RouteAdd(route(r)), missing)
}

// DeleteRoute removes a route from the main table. If it is already gone, the error is [ErrNotFound].
func (h *Handle) DeleteRoute(r Route) error {
	return explain("remove route to "+r.To.String(), h.h.RouteDel(route(r)), "")
}

// Routes reads the routes of the main table to exactly this prefix.
func (h *Handle) Routes(to netip.Prefix) ([]Route, error) {
	if found, ok := h.matched(to); ok {
		return found, nil
	}
	f := netlink.FAMILY_V4
	if to.Addr().Is6() {
		f = netlink.FAMILY_V6
	}
	found, err := dump.Whole(func() ([]netlink.Route, error) {
		return h.h.RouteListFiltered(f, &netlink.Route{Table: unix.RT_TABLE_MAIN, Dst: ipnet(to)},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
	})
	if err != nil {
		return nil, explain("read routes to "+to.String(), err, "")
	}
	list := make([]Route, len(found))
	for i, r := range found {
		via, _ := netip.AddrFromSlice(r.Gw)
		list[i] = Route{To: to, Via: via.Unmap(), Link: r.LinkIndex}
	}
	return list, nil
}

// RouteMTUs reads the least MTU in bytes that routes of the main table have, by link. A link is not there if none has
// one: then its own MTU counts alone (ip-route(8), mtu).
func (h *Handle) RouteMTUs() (map[int]int, error) {
	found, err := dump.Whole(func() ([]netlink.Route, error) { return h.h.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, explain("read the MTU of routes", err, "")
	}
	least := map[int]int{}
	for _, r := range found {
		if mtu, known := least[r.LinkIndex]; r.MTU > 0 && (!known || r.MTU < mtu) {
			least[r.LinkIndex] = r.MTU
		}
	}
	return least, nil
}

// matched asks for the route of packets to one address, and returns it if it leads to that address alone. A listing of
// the whole table would have thousands of routes on a host with many containers. The bool is false if the answer is
// another route.
func (h *Handle) matched(to netip.Prefix) ([]Route, bool) {
	if !to.IsSingleIP() {
		return nil, false
	}
	found, err := h.h.RouteGetWithOptions(to.Addr().AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil || len(found) != 1 || found[0].Table != unix.RT_TABLE_MAIN || found[0].Dst == nil ||
		prefix(found[0].Dst) != to {
		return nil, false
	}
	via, _ := netip.AddrFromSlice(found[0].Gw)
	return []Route{{To: to, Via: via.Unmap(), Link: found[0].LinkIndex}}, true
}

func by(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

func addr(p netip.Prefix) *netlink.Addr { return &netlink.Addr{IPNet: ipnet(p)} }

func route(r Route) *netlink.Route {
	n := &netlink.Route{Dst: ipnet(r.To.Masked()), LinkIndex: r.Link, Table: unix.RT_TABLE_MAIN}
	if r.Via.IsValid() {
		n.Gw = r.Via.AsSlice()
	} else if r.Link != 0 {
		n.Scope = netlink.SCOPE_LINK
	}
	if r.Encap != (Encap{}) {
		n.Encap = &r.Encap
	}
	return n
}

func ipnet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a, bits)
}

func read(l netlink.Link) Link {
	a := l.Attrs()
	r := Link{
		Index: a.Index, Name: a.Name, Type: l.Type(), MAC: a.HardwareAddr, MTU: a.MTU,
		Up: a.Flags&net.FlagUp != 0, Running: a.RawFlags&unix.IFF_RUNNING != 0,
		Master: a.MasterIndex,
	}
	if r.Type == "veth" {
		r.Peer = a.ParentIndex
	}
	if b, ok := l.(*netlink.Bridge); ok && b.MulticastSnooping != nil {
		r.Snooping = *b.MulticastSnooping
	}
	if i, ok := l.(*netlink.IPVlan); ok {
		r.Lower = a.ParentIndex
		if modes := IPVlanModes(); int(i.Mode) < len(modes) {
			r.Mode = modes[i.Mode]
		}
	}
	if m, ok := l.(*netlink.Macvlan); ok {
		r.Lower, r.Mode = a.ParentIndex, "source"
		for name, mode := range macvlanModes() {
			if mode == m.Mode {
				r.Mode = name
			}
		}
	}
	return r
}

func family(a netip.Addr) string {
	if a.Is6() {
		return "IPv6"
	}
	return "IPv4"
}

func checkName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("invalid link name %q (valid: 1 to %d bytes)", name, MaxName)
	}
	return nil
}

// explain explains an error. missing is the feature whose absence EOPNOTSUPP means; "" if it means nothing in
// particular.
func explain(what string, err error, missing string) error {
	if err == nil {
		return nil
	}
	var absent netlink.LinkNotFoundError
	switch {
	case errors.As(err, &absent), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EADDRNOTAVAIL),
		errors.Is(err, unix.ESRCH):
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s: %w", what, ErrExists)
	case errors.Is(err, unix.EPERM):
		return &linux.UnsupportedError{What: what, Missing: "CAP_NET_ADMIN", Hint: "run it as root", Err: err}
	case errors.Is(err, unix.EOPNOTSUPP) && missing != "":
		return &linux.UnsupportedError{
			What: what, Missing: missing, Hint: "load the kernel's module for it, or use a kernel that has it", Err: err,
		}
	case errors.Is(err, unix.EACCES) && missing == "IPv6":
		return &linux.UnsupportedError{
			What: what, Missing: missing,
			Hint: "it is disabled on this link: see net.ipv6.conf.all.disable_ipv6, and an MTU below 1280 disables it too",
			Err:  err,
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

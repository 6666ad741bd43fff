package filter

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
)

// A Binding is what may pass a container's link with antispoof=true. Every frame that the container sends has its MAC
// address as source, and
//
//   - IPv4 and IPv6 have one of its addresses as source: its own two, and the link-local address that its MAC address
//     makes (RFC 4291, appendix A);
//   - ARP names its MAC and IPv4 address as those of the sender, in requests, replies and gratuitous ARP;
//   - neighbour solicitations and advertisements name its MAC address in their link-layer option, which is the only
//     option, and advertisements one of its addresses as target (RFC 4861). Duplicate address detection has no source
//     address and one of its own as target (RFC 4862, section 5.4.2).
//
// Never: what only routers say (router solicitations too, which nobody answers), redirects, UDP from the ports of DHCP
// servers, probes of ARP (RFC 5227), RARP, and frames that hold neither ARP nor IP behind at most one tag of a VLAN.
//
// What leaves by the link is compared, too. IPv4 and IPv6 have one of the container's addresses as destination, and the
// frame its MAC address, unless the packet is for a group or for 255.255.255.255. ARP passes.
type Binding struct {
	// Link is the host's end of the link.
	Link string     `json:"link"`
	MAC  string     `json:"mac"`
	IPv4 netip.Addr `json:"ipv4"`
	IPv6 netip.Addr `json:"ipv6"`
}

// Bindings returns those of the containers of a site if its parameters ask for them, otherwise none.
func (s Site) Bindings() ([]Binding, error) {
	if !s.Params.On(Antispoof) {
		return nil, nil
	}
	list := make([]Binding, len(s.Containers))
	for i, c := range s.Containers {
		if c.Link == "" || c.MAC == "" {
			return nil, fmt.Errorf("host %d: container %q has no link on its host to bind addresses to", s.Host,
				c.Name)
		}
		list[i] = Binding{Link: c.Link, MAC: c.MAC, IPv4: c.IPv4, IPv6: c.IPv6}
		if _, err := list[i].Hardware(); err != nil {
			return nil, fmt.Errorf("host %d: container %q: %w", s.Host, c.Name, err)
		}
	}
	return list, nil
}

// Hardware returns the MAC address.
func (b Binding) Hardware() (mac [6]byte, err error) {
	parsed, err := net.ParseMAC(b.MAC)
	if err == nil && len(parsed) != len(mac) {
		err = fmt.Errorf("invalid MAC address %q (valid: 6 bytes)", b.MAC)
	}
	copy(mac[:], parsed)
	return mac, err
}

// LinkLocal returns the link-local address of a MAC address: RFC 4291, appendix A.
func LinkLocal(mac [6]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: mac[0] ^ 0x02, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}

// Unbound says where addresses cannot be bound to links with these parameters.
func (w Where) Unbound(p part.Params) string {
	if p.On(Antispoof) && w.Point == network.InContainer {
		return fmt.Sprintf("under %s the host does not see what containers send, and a container's own root could remove "+
			"the protection (use antispoof=false, or a network with a link on the host for each container)", w.Network)
	}
	return ""
}

// Enforced describes where a filter is enforced, whether it prevents spoofed addresses, and what it does about hosts:
// the end of "enforced …".
func Enforced(f Filter, at network.Point, p part.Params) string {
	where := at.String()
	if x, ok := f.(Placed); ok {
		where = x.Enforced(at, p)
	}
	if p.On(Antispoof) {
		where += ", with MAC and IP addresses bound to each container's link"
	} else {
		where += ", without protection against spoofed addresses"
	}
	if at == network.InContainer {
		return where + "; " + OfInside
	}
	return where + "; " + OfHosts
}

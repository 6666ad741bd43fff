package overlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// The names of the namespace and of the device, as Docker has that of the device, and what the device has by nettoll.
const (
	space  = "overlay"
	device = "vxlan0"
	id     = 1
	// port is that of VXLAN: RFC 7348, section 5.
	port = 4789
)

// Network is the network "overlay".
type Network struct{}

// Describe says what it is.
func (Network) Describe() network.Description {
	return network.Description{
		Name:           "overlay",
		Summary:        "one segment for the containers of all hosts, by a bridge and a VXLAN device out of sight on each",
		Implementation: "kernel",
		Params:         part.List{network.By(network.ByDocker)},
		Near:           near,
		Claims:         claims,
	}
}

// claims are those of a switch that learns.
func claims(int, part.Params) threat.Claims {
	return slices.Concat(network.Passes(), network.Floods("the bridge of each host"))
}

// Check says whether this kernel has such devices.
func (Network) Check(part.Params) error {
	return link.CheckKind("vxlan",
		"load the module vxlan or use a kernel with CONFIG_VXLAN; the closest alternative is network bridge with tunnel "+
			"geneve")
}

// MostMTU is what VXLAN leaves of the longest packet.
func (Network) MostMTU(part.Params) int { return network.MaxMTU - added }

// IPv4Only says that Docker's overlays have no IPv6 (moby, libnetwork/drivers/overlay/ov_network.go: CreateNetwork
// ignores what it is given of IPv6).
func (Network) IPv4Only(p part.Params) string {
	if network.BuiltBy(p) == network.ByDocker {
		return "overlays of docker have no IPv6"
	}
	return ""
}

// Takes returns how long the daemons of Docker take to become a swarm, and to leave it.
func (Network) Takes(p part.Params) time.Duration {
	if network.BuiltBy(p) == network.ByDocker {
		return 5 * time.Second
	}
	return 0
}

// added is how many bytes it adds to each packet between hosts.
const added = 50

// Crosses says that the segment reaches over all hosts.
func (Network) Crosses(part.Params) bool { return true }

// Alone says that it may stand on tunnels and encryptions.
func (Network) Alone(part.Params) bool { return false }

// Cross says how the segment carries packets between hosts. Build makes it.
func (Network) Cross(lab network.Lab) (s network.Span, ok bool, err error) {
	vxlan := network.Protocol{Name: "VXLAN", Number: network.UDP, Port: port}
	for _, s := range lab.Spans {
		if slices.Contains(s.Wire, vxlan) {
			return s, false, &network.UnfitError{Reason: fmt.Sprintf("it is VXLAN itself, at UDP port %d, which %s has "+
				"already (hint: leave out the tunnel, or choose tunnel geneve)", port, s.Name)}
		}
	}
	s = lab.Above(space, 2, "ipv4", device, network.Overhead{
		Bytes: added, Source: "20 IPv4, 8 UDP, 8 VXLAN, 14 Ethernet (RFC 7348, section 5)",
	})
	s.Secluded = network.Seclusion{NS: space, Bridge: network.Bridge}
	for i := range s.Reach {
		for j := range s.Reach[i] {
			s.Reach[i][j] = network.Reach{Link: device} // hosts have no addresses there
		}
	}
	s.Wire, s.Guards.Claims = []network.Protocol{vxlan}, network.Carries("VXLAN", false)
	if network.BuiltBy(lab.Params) == network.ByDocker {
		// "Use overlay networks", Docker's manual
		s.Besides = []network.Protocol{
			{Name: "swarm management", Number: network.TCP, Port: 2377},
			{Name: "gossip", Number: network.TCP, Port: 7946},
			{Name: "gossip", Number: network.UDP, Port: 7946},
		}
	}
	return s, true, nil
}

// Trace says that packets pass the bridges, and across hosts the devices, and that the hosts forward nothing.
func (Network) Trace(t network.Trip) network.Way {
	var w network.Way
	outer := func(s network.Stop) string {
		name, _ := network.Outer(s.Host, s.Container) // Build has refused what is too long
		return name
	}
	w.Leave(t, t.Target(), mac(t.Lab, t.To.Host, t.To.Container))
	w.Received(t.From.Host, space, outer(t.From), network.Bridge)
	w.NotForwarded(t)
	if !t.Same() {
		w.Carried(t)
	}
	w.Sent(t.To.Host, space, outer(t.To), network.Bridge)
	return w
}

// mac is the address of the link of a container. Docker makes it from the IPv4 address (moby,
// libnetwork/netutils/utils.go, GenerateMACFromIP).
func mac(lab network.Lab, h network.Host, c network.Container) string {
	if network.BuiltBy(lab.Params) != network.ByDocker {
		return network.MAC(lab.Seed, h.Name(), c.Name, network.Inner)
	}
	v4, _ := network.ContainerAddr(h.Index, c.Index)
	four := v4.Addr().As4()
	return net.HardwareAddr(append([]byte{0x02, 0x42}, four[:]...)).String()
}

// The lengths of the ranges that the containers of all hosts are in: 10.0.0.0/8 and fd00:10::/32.
const bits4, bits6 = 8, 32

// addresses are those of a container, with the length of its range: of IPv4, and of IPv6 if it has one.
func addresses(lab network.Lab, h network.Host, c network.Container) []netip.Prefix {
	v4, v6 := network.ContainerAddr(h.Index, c.Index)
	list := []netip.Prefix{netip.PrefixFrom(v4.Addr(), bits4), netip.PrefixFrom(v6.Addr(), bits6)}
	if network.BuiltBy(lab.Params) == network.ByDocker {
		list = list[:1]
	}
	return list
}

// Build makes a bridge and a device on each host, with a port for every container.
func (Network) Build(lab network.Lab) ([]host.Plan, [][]network.Endpoint, error) {
	if err := lab.Check(); err != nil {
		return nil, nil, err
	}
	if len(lab.Hosts) > 1 && lab.Top().Name != space {
		return nil, nil, errors.New("the lab lacks the segment between its hosts (network.Compose adds it)")
	}
	plans := make([]host.Plan, len(lab.Hosts))
	ends := make([][]network.Endpoint, len(lab.Hosts))
	for i, h := range lab.Hosts {
		if len(h.Containers) >= network.MaxPorts {
			return nil, nil, fmt.Errorf("host %d: %d containers, but a bridge has at most %d ports, one of them for other hosts",
				h.Index, len(h.Containers), network.MaxPorts)
		}
		steps := slices.Concat(network.Base(lab, h), network.NoForwarding(), shared(lab, h))
		ends[i] = make([]network.Endpoint, len(h.Containers))
		for j, c := range h.Containers {
			outer, err := network.Outer(h, c)
			if err != nil {
				return nil, nil, err
			}
			ends[i][j] = network.Endpoint{Namespace: c.Name, Inner: network.Inner}
			veth := host.Veth{
				NS: space, Name: outer, MAC: network.MAC(lab.Seed, h.Name(), outer), MTU: lab.MTU, Master: network.Bridge,
				PeerNS: c.Name, PeerName: network.Inner, PeerMAC: mac(lab, h, c),
			}
			for _, a := range addresses(lab, h, c) {
				veth.PeerAddresses = append(veth.PeerAddresses, a.String())
				if a.Addr().Is4() {
					ends[i][j].IPv4 = a.Addr()
				} else {
					ends[i][j].IPv6 = a.Addr()
				}
			}
			steps = append(steps, veth)
			steps = append(steps, network.Inside(c)...)
		}
		plans[i] = host.Plan{Steps: steps}
	}
	return plans, ends, nil
}

// shared returns the steps for what the containers of a host have together: the namespace with the bridge, which has no
// packet filter and no addresses, and the device.
func shared(lab network.Lab, h network.Host) []host.Step {
	steps := []host.Step{host.Namespace{Name: space}}
	for _, family := range []string{"ip", "ip6", "arp"} {
		steps = append(steps, host.Sysctl{
			NS: space, Key: "net.bridge.bridge-nf-call-" + family + "tables", Value: "0", IfPresent: true,
		})
	}
	g := host.Segment{
		NS: space, Bridge: network.Bridge, Name: device, MAC: network.MAC(lab.Seed, h.Name(), space, device),
		MTU: lab.MTU, ID: id, Port: port,
	}
	for _, a := range addresses(lab, h, network.Container{}) {
		g.Ranges = append(g.Ranges, a.Masked().String())
	}
	if len(lab.Hosts) > 1 {
		// the span below: Cross has made the uppermost one
		below := lab.Spans[len(lab.Spans)-2].Reach[h.Index-1]
		for j, other := range lab.Hosts {
			at := below[j].IPv4.String()
			if len(other.Containers) > 0 {
				g.Hosts = append(g.Hosts, at)
			}
			if j == h.Index-1 {
				g.Local = at
				continue
			}
			for _, c := range other.Containers {
				s := host.Station{MAC: mac(lab, other, c), At: at}
				for _, a := range addresses(lab, other, c) {
					s.Addresses = append(s.Addresses, a.Addr().String())
				}
				g.Stations = append(g.Stations, s)
			}
		}
	}
	return append(steps,
		// IN6_ADDR_GEN_MODE_NONE, include/uapi/linux/if_link.h: nobody sends by these links for themselves
		host.Sysctl{NS: space, Key: "net.ipv6.conf.default.addr_gen_mode", Value: "1", IfPresent: true},
		host.Bridge{
			NS: space, Name: network.Bridge, MAC: network.MAC(lab.Seed, h.Name(), space, network.Bridge), MTU: lab.MTU,
			Snooping: true, // the kernel's default, which container networks leave as it is
		}, g)
}

// near lists what it comes nearest to.
func near() []part.Near {
	return []part.Near{
		{
			Names: []string{"docker-overlay", "swarm"},
			Why:   "with by=docker it is the network that Docker calls overlay",
		},
	}
}

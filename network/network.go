package network

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof/threat"
)

// A Network is a way to join containers to their host and to each other.
type Network interface {
	// Describe says what it is.
	Describe() Description
	// Build returns a plan for each host of the lab and the endpoints of each host's containers, in the order of lab.Hosts
	// and of their Containers. It is pure. The plans expect that the namespaces of the endpoints exist, which the
	// runtime makes, and that the uplinks exist, which [Underlay] makes.
	Build(lab Lab) ([]host.Plan, [][]Endpoint, error)
}

// A Description says what a network is.
type Description struct {
	// Name is the word of experiment files: "bridge".
	Name string
	// Summary is one sentence, without its full stop.
	Summary string
	// Implementation says who does the work: "kernel", "ebpf", "ovs" or "userspace".
	Implementation string
	// Params are its parameters, none for most.
	Params part.List
	// Metrics are what it measures of a lab, none for most. Those of workloads are known without it.
	Metrics []measure.Metric
	// Near are networks of others that it comes nearest to.
	Near func() []part.Near
	// Claims says what it protects against in labs with that number of hosts, see [Passes].
	Claims func(hosts int, p part.Params) threat.Claims
}

// Plugins begins the sentence about a network plugin of Kubernetes (CNI) that is more than a conflist, see [part.Near].
const Plugins = "network plugins with a daemon of their own are measured on a cluster that has them (see " +
	"nettoll init kubernetes); "

// An Excluder is a network that is meaningless in some labs, because it would equal another network or none.
type Excluder interface {
	// Exclude returns the reason why labs of so many hosts are left out, "" where they are not.
	Exclude(hosts int, p part.Params) string
}

// A PairExcluder is a network that cannot have any number of pairs.
type PairExcluder interface {
	// ExcludePairs returns the reason why labs of so many pairs are left out, "" if they are not.
	ExcludePairs(pairs int, p part.Params) string
}

// A Trier is a network with values of quiet parameters that doctor tries, as it does those of all others: they need
// programs of their own.
type Trier interface {
	// Tries returns a parameter and its value for each try.
	Tries() [][2]string
}

// A Plugged is a network that calls plugins of CNI, which are installed on the machine.
type Plugged interface {
	Network
	// Plugins returns what brings each plugin that it needs for some of its parameters, by its name, and the folders in
	// which it looks for plugins by default.
	Plugins() (brings map[string]string, folders []string)
}

// A Narrow is a network whose links cannot have every MTU.
type Narrow interface {
	// MostMTU returns the largest MTU in bytes that they can have.
	MostMTU(p part.Params) int
}

// A Translator is a network in which containers are reached at translated addresses, by port. Protocols without ports
// cannot reach a container.
type Translator interface {
	// Translates says whether that is so in labs with that number of hosts.
	Translates(hosts int, p part.Params) bool
}

// A Ported part, such as a filter, lets nothing pass that has no ports, such as echo requests.
type Ported interface {
	// OnlyPorts says so.
	OnlyPorts() bool
}

// A Publisher is a network in which every port at which others reach a container is a rule of its own.
type Publisher interface {
	// Publishes says whether that is so.
	Publishes(p part.Params) bool
}

// A HostPublisher is a [Publisher] whose rules may be at the hosts: sources reach sinks at an address of a host.
type HostPublisher interface {
	Publisher
	// PublishedAt returns the host of which that is for a pair; ok is false if it is none.
	PublishedAt(pair Pair, p part.Params) (host int, ok bool)
}

// An IPv4Only is a network whose containers may have no addresses of IPv6.
type IPv4Only interface {
	// IPv4Only returns why they have none, "" if they have.
	IPv4Only(p part.Params) string
}

// A Slow is a network that takes longer than a moment to be built.
type Slow interface {
	// Takes returns how long it takes in a lab to be built and removed, as a guess.
	Takes(p part.Params) time.Duration
}

// An Attacher is a network that may give each container a second interface, which packets then pass in the place of the
// first one, [Inner].
type Attacher interface {
	// Attached names the network of that interface; "" if there is none.
	Attached(p part.Params) string
}

// A Sharer is a network in which the containers of a host share its namespace, and so its ports.
type Sharer interface {
	// Shares says whether that is so.
	Shares(p part.Params) bool
}

// A Point is where the packets of containers can be filtered.
type Point string

// The points, as design.md has them.
const (
	// AtBridge is the bridge of the host, whose ports are the containers' links: packets can be decided in the bridge
	// family, or by br_netfilter. With several hosts, packets for other hosts leave by the host's forward path.
	AtBridge Point = "bridge"
	// AtForward is the forward path of the host.
	AtForward Point = "forward"
	// InContainer is the container itself, whose root can take the filter away.
	InContainer Point = "container"
	// AtOpenFlow is the Open vSwitch of the host.
	AtOpenFlow Point = "openflow"
	// AtTCX is the host's end of each container's link, on tcx.
	AtTCX Point = "tcx"
)

// String says where that is: the end of "enforced …".
func (p Point) String() string {
	return map[Point]string{
		AtBridge: "at the host's bridge", AtForward: "in the host's forward path",
		InContainer: "inside each container, not protected from its own root",
		AtOpenFlow:  "by OpenFlow in the host's Open vSwitch", AtTCX: "on tcx at the host's end of each container's link",
	}[p]
}

// A Filterable is a network whose packets can be filtered.
type Filterable interface {
	// FilterPoint returns where packets can be filtered, "" if they cannot with these parameters. It also returns the name
	// of the bridge that the containers' links are ports of, "" if there is none.
	FilterPoint(p part.Params) (at Point, bridge string)
}

// An Unfilterable is a network some of whose packets pass no filter at its point.
type Unfilterable interface {
	// Unfilterable returns why no filter can stand there in labs of so many hosts, "" if one can.
	Unfilterable(hosts int, p part.Params) string
}

// A Lab describes the hosts and containers that a network is to join.
type Lab struct {
	// Hosts are the container hosts; the first is host 1. More than one are joined by an underlay.
	Hosts []Host
	// MTU in bytes, of every link but those of the underlay and what stands on it.
	MTU int
	// Underlay is what joins the hosts.
	Underlay Medium
	// Spans are what packets between hosts are carried by, the underlay first, see [Compose]. Nil means that alone.
	Spans []Span
	// Seed is what MAC addresses come from.
	Seed uint64
	// Params are the network's own, every one present.
	Params part.Params
}

// Uplink is the name of a host's link to the underlay in the labs of [NewLab].
const Uplink = "up0"

// NewLab returns a lab with that number of hosts and without containers. Several hosts are joined by one underlay.
func NewLab(hosts, mtu int) Lab {
	l := Lab{MTU: mtu}
	for i := range hosts {
		h := Host{Index: i + 1}
		if hosts > 1 {
			h.Uplink = Uplink
		}
		l.Hosts = append(l.Hosts, h)
	}
	return l
}

// A Medium describes the links of an underlay. The zero value keeps the kernel's defaults.
type Medium struct {
	// Rate in bit/s of Ethernet frames, each way; 0: as fast as they can.
	Rate int64 `json:"rate,omitempty"`
	// Delay is how much later each packet leaves its host, give or take Jitter. All delays between are equally likely, but
	// no packet of a host leaves before the one before it.
	Delay  time.Duration `json:"delay,omitempty"`
	Jitter time.Duration `json:"jitter,omitempty"`
	// Loss is the share of packets that are lost, from 0 to 1.
	Loss float64 `json:"loss,omitempty"`
	// MTU in bytes, 0: that of the containers.
	MTU int `json:"mtu,omitempty"`
	// Hops is the number of routers that packets pass from one host to another: see [Medium.Routers]. 0: the hosts are
	// neighbours.
	Hops int `json:"hops,omitempty"`
	// Paths is the number of equal paths between the routers of two hosts, 0 for one.
	Paths int `json:"paths,omitempty"`
}

// shape returns the step that has a link of an underlay send as the medium says, none if it leaves that to the kernel.
// port is the link of the underlay's switch at which the packets arrive.
func (m Medium) shape(ns, name, port string, mtu int) []host.Shape {
	if m.Rate == 0 && m.Delay == 0 && m.Loss == 0 {
		return nil
	}
	s := host.Shape{NS: ns, Name: name, Rate: m.Rate, Delay: m.Delay, Jitter: m.Jitter, Loss: m.Loss, MTU: mtu}
	if m.Late() {
		s.Port = port
	}
	return []host.Shape{s}
}

// Late says whether packets are delayed or lost: by the kernel or, if it cannot, by a process.
func (m Medium) Late() bool { return m.Delay > 0 || m.Loss > 0 }

// Valid says what of it contradicts the rest.
func (m Medium) Valid() error {
	switch {
	case m.Jitter > 0 && m.Delay == 0:
		return errors.New("underlay.jitter is given without underlay.delay (hint: a delay of at least the jitter, such as " +
			"underlay.delay=" + m.Jitter.String() + ")")
	case m.Jitter > m.Delay:
		return fmt.Errorf("underlay.jitter: %v is more than underlay.delay (valid: at most %v)", m.Jitter, m.Delay)
	case m.Hops < 0 || m.Hops > MaxHops:
		return fmt.Errorf("underlay.hops: %d routers between hosts (valid: 0 to %d)", m.Hops, MaxHops)
	case m.Paths < 0 || m.Paths > MaxPaths:
		return fmt.Errorf("underlay.paths: %d paths between hosts (valid: 1 to %d)", m.Paths, MaxPaths)
	case m.Paths > 1 && m.Hops == 1:
		return errors.New("underlay.paths: two paths join the routers of two hosts, but with underlay.hops=1 all hosts " +
			"have the same router (valid: underlay.hops=2)")
	}
	return nil
}

// Check says what of it this machine lacks. It is a [linux.UnsupportedError] and changes nothing.
//
// [linux.UnsupportedError]: https://pkg.go.dev/github.com/nettoll/nettoll/internal/linux#UnsupportedError
func (m Medium) Check() error {
	for _, s := range m.shape("", "", "port", MinMTU) {
		if err := s.Check(); err != nil {
			return fmt.Errorf("underlay: %w", err)
		}
	}
	if m.Paths > 1 {
		if err := (host.Multipath{}).Check(); err != nil {
			return fmt.Errorf("underlay: %w", err)
		}
	}
	return nil
}

// String says it in a few words: "1000 Mbit/s, delay 1ms, loss 0.1 %, MTU 9000", "" of the zero value.
func (m Medium) String() string {
	var parts []string
	if m.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%g Mbit/s", float64(m.Rate)/1e6))
	}
	if m.Jitter > 0 {
		parts = append(parts, fmt.Sprintf("delay %v ± %v", m.Delay, m.Jitter))
	} else if m.Delay > 0 {
		parts = append(parts, fmt.Sprintf("delay %v", m.Delay))
	}
	if m.Loss > 0 {
		parts = append(parts, fmt.Sprintf("loss %g %%", 100*m.Loss))
	}
	if m.MTU > 0 {
		parts = append(parts, fmt.Sprintf("MTU %d", m.MTU))
	}
	switch m.Routers() {
	case 0:
	case 1:
		parts = append(parts, "1 router")
	default:
		parts = append(parts, fmt.Sprintf("%d routers", m.Routers()))
	}
	if m.Paths > 1 {
		parts = append(parts, fmt.Sprintf("%d paths", m.Paths))
	}
	return strings.Join(parts, ", ")
}

// A Host is a container host of a lab.
type Host struct {
	// Index counts from 1.
	Index int
	// Uplink is the name of the host's link to the underlay, "" in a lab of one host.
	Uplink string
	// UnderlayAddr is the host's IPv4 address on an underlay without routers. The zero value means that of [UnderlayAddr].
	UnderlayAddr netip.Prefix
	// Containers are the containers of the host.
	Containers []Container
}

// Name is the name of the host, which MAC addresses come from: "host1".
func (h Host) Name() string { return fmt.Sprintf("host%d", h.Index) }

// A Container is an endpoint of traffic.
type Container struct {
	// Name is unique among the containers of its host: "src0", "snk3".
	Name string
	// Index counts from 0 on each host.
	Index int
	// Ports are what its sockets bind to, over UDP and over TCP; no other container of its host has one of them.
	Ports Ports
	// Ephemeral are those that the kernel gives to its sockets that bind to none, behind its Ports; no other container of
	// its host has one of them. The zero value leaves that to the kernel, which has as many as it likes.
	Ephemeral Ports
	// Peer is the name of the container of the same host that it exchanges packets with, "" where that is on another host.
	Peer string
}

// Ports are port numbers from First to Last, both among them.
type Ports struct{ First, Last uint16 }

// Sending are all ports from which packets of the container's sockets come, where that is known: not where the kernel
// gives others.
func (c Container) Sending() Ports {
	if c.Ephemeral == (Ports{}) {
		return c.Ports
	}
	return Ports{c.Ports.First, c.Ephemeral.Last}
}

// An Endpoint is where the sockets of a container are opened, and how the other end of its pair reaches it.
type Endpoint struct {
	// Namespace is a namespace reference as in the steps of plans: "" where the container shares its host's, else its
	// name.
	Namespace string
	// IPv4 and IPv6 are the addresses that its sockets bind to.
	IPv4, IPv6 netip.Addr
	// Link is the name of the host's link to it, and Inner that of its own: "vsrc0", "eth0". "" where it has none.
	Link, Inner string
	// MAC is the address of its own link, "" where the host has no link to it.
	MAC string
	// PublicIPv4 and PublicIPv6 are the addresses at which the other end reaches it and from which its packets arrive
	// there. The zero value means that nobody translates. Ports are never translated.
	PublicIPv4, PublicIPv6 netip.Addr
}

// Bind returns the address of a family ("ipv4" or "ipv6") that the container's sockets bind to.
func (e Endpoint) Bind(family string) netip.Addr {
	if family == "ipv6" {
		return e.IPv6
	}
	return e.IPv4
}

// Public returns the address of a family at which the other end of the pair knows the container.
func (e Endpoint) Public(family string) netip.Addr {
	public := e.PublicIPv4
	if family == "ipv6" {
		public = e.PublicIPv6
	}
	if !public.IsValid() {
		return e.Bind(family)
	}
	return public
}

// Limits of a lab.
const (
	// MinMTU is the smallest MTU of IPv6, RFC 8200 section 5. Below, a link has no IPv6 at all.
	MinMTU = 1280
	// MaxMTU is the largest of a veth and a bridge: ETH_MAX_MTU, include/uapi/linux/if_ether.h.
	MaxMTU = 65535
	// MaxHosts keeps the number of a host in one byte of an IPv4 address; its last value is left for broadcasts.
	MaxHosts = 254
	// MaxContainers of a host keeps 10.H.1.0+i below the broadcast address of 10.H.0.0/16.
	MaxContainers = 1<<16 - 1<<8 - 1
)

// Check returns what is wrong with a lab, nil if a network can be asked to build it.
func (l Lab) Check() error {
	if len(l.Hosts) == 0 || len(l.Hosts) > MaxHosts {
		return fmt.Errorf("lab with %d hosts (valid: 1 to %d)", len(l.Hosts), MaxHosts)
	}
	if l.MTU < MinMTU || l.MTU > MaxMTU {
		return fmt.Errorf("lab with MTU %d (valid: %d to %d)", l.MTU, MinMTU, MaxMTU)
	}
	for i, h := range l.Hosts {
		if h.Index != i+1 {
			return fmt.Errorf("host %d of the lab has index %d (indexes count from 1, in order)", i+1, h.Index)
		}
		if len(l.Hosts) > 1 && h.Uplink == "" {
			return fmt.Errorf("host %d of a lab of %d has no uplink to the underlay", h.Index, len(l.Hosts))
		}
		if len(l.Hosts) == 1 && h.Uplink != "" {
			return fmt.Errorf("the only host of a lab has an uplink %q, but there is no underlay", h.Uplink)
		}
		if h.UnderlayAddr.IsValid() && !h.UnderlayAddr.Addr().Is4() {
			return fmt.Errorf("host %d: underlay address %q is not an IPv4 address", h.Index, h.UnderlayAddr)
		}
		if len(h.Containers) > MaxContainers {
			return fmt.Errorf("host %d: %d containers (valid: 0 to %d)", h.Index, len(h.Containers), MaxContainers)
		}
		names := make(map[string]bool, len(h.Containers))
		for j, c := range h.Containers {
			if c.Index != j {
				return fmt.Errorf("host %d: container %q has index %d, not %d (indexes count from 0, in order)", h.Index,
					c.Name, c.Index, j)
			}
			if c.Name == "" || names[c.Name] {
				return fmt.Errorf("host %d: container %d: name %q is empty or already used", h.Index, j, c.Name)
			}
			names[c.Name] = true
			if p := c.Ports; p.Last < p.First {
				return fmt.Errorf("host %d: container %q has an invalid port range: %d to %d", h.Index, c.Name, p.First, p.Last)
			}
			if p := c.Ephemeral; p != (Ports{}) && (p.Last < p.First || p.First != c.Ports.Last+1) {
				return fmt.Errorf("host %d: container %q has invalid ephemeral ports: %d to %d (valid: from %d, after its other "+
					"ports)", h.Index, c.Name, p.First, p.Last, c.Ports.Last+1)
			}
		}
	}
	return nil
}

// Underlay returns the IPv4 and the IPv6 address of the host on an underlay without routers, see [Lab.Underlaid]. They
// are not valid in a lab of one host.
func (h Host) Underlay() (v4, v6 netip.Prefix) {
	if h.Uplink == "" {
		return v4, v6
	}
	v4, v6 = UnderlayAddr(h.Index)
	if h.UnderlayAddr.IsValid() {
		v4 = h.UnderlayAddr
	}
	return v4, v6
}

// A Checker is a network that can say, before anything is built, whether it can be built on this machine.
type Checker interface {
	// Check reads what the machine has and changes nothing. The error is a [linux.UnsupportedError] with what is missing
	// and what would help.
	Check(p part.Params) error
}

// A Tracker is a network that has each host track connections before there is any traffic.
type Tracker interface {
	// Tracked returns how many.
	Tracked(p part.Params) int
}

package ovstunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/bpf/divert"
	"github.com/nettoll/nettoll/internal/linux/ovs"
)

// Links are links of the host whose frames Open vSwitch carries to other hosts. They have no addresses.
type Links struct {
	// Type is the type of the tunnel ports: "vxlan", "geneve" or "gre".
	Type string `json:"type"`
	// Port is the UDP destination port of packets; 0 for a protocol without ports.
	Port uint16 `json:"port,omitempty"`
	// ID is the identifier of the virtual network, 0 for none.
	ID uint32 `json:"id,omitempty"`
	// Checksum adds a checksum to the packets. Over IPv6 they always have one.
	Checksum bool `json:"checksum,omitempty"`
	// NS is the name of the namespace, and Gate the name of the link to it.
	NS   string `json:"ns"`
	Gate string `json:"gate"`
	// GateMAC is the address of the gate, and OwnMAC the address of Open vSwitch behind it.
	GateMAC string `json:"gate_mac"`
	OwnMAC  string `json:"own_mac"`
	// MTU is the MTU of the links in bytes, and Outer the MTU of the span below.
	MTU   int    `json:"mtu"`
	Outer int    `json:"outer_mtu"`
	Links []Link `json:"links"`
}

// A Link is a link of this host. It leads to the hosts whose links there have the MAC addresses of its peers.
type Link struct {
	Name  string `json:"name"`
	MAC   string `json:"mac"`
	Peers []Peer `json:"peers"`
}

// A Peer is a link of another host.
type Peer struct {
	MAC string `json:"mac"`
	// Below is the link of outer packets, from Local to Remote.
	Below  string `json:"below"`
	Local  string `json:"local"`
	Remote string `json:"remote"`
}

// Names of bridges, and of the other end of the gate.
const (
	inner = "inner"
	outer = "outer"
	gate0 = "gate0"
)

// Kind returns "ovs-tunnel".
func (Links) Kind() string { return "ovs-tunnel" }

// String describes the step in plain words.
func (t Links) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "open vswitch in %s, gate %s, %s", t.NS, t.Gate, t.Type)
	if t.Port != 0 {
		fmt.Fprintf(&s, " to port %d", t.Port)
	}
	if t.ID != 0 {
		fmt.Fprintf(&s, ", id %d", t.ID)
	}
	if t.Checksum {
		s.WriteString(", with checksum")
	}
	for _, l := range t.Links {
		fmt.Fprintf(&s, "; %s, mac %s, mtu %d", l.Name, l.MAC, t.MTU)
		for i, p := range l.Peers {
			if i == maxPeers && len(l.Peers) > maxPeers+1 {
				fmt.Fprintf(&s, ", and to %d more", len(l.Peers)-i)
				break
			}
			fmt.Fprintf(&s, ", to %s at %s", p.MAC, p.Remote)
		}
	}
	return s.String()
}

// maxPeers is the largest number of peers of a link in a line.
const maxPeers = 4

// Check returns an error that says what this machine lacks for such links.
func Check() error {
	if err := errors.Join(ovs.Installed(), ovs.UserspaceDatapath()); err != nil {
		return err
	}
	err := divert.Check()
	if u, ok := errors.AsType[*linux.UnsupportedError](err); ok && u.Missing == "tcx" {
		u.Hint = "Linux 6.6 or newer, or the kernel's own tunnels by impl=kernel"
	}
	return err
}

// gateway returns the address of the gate, to which Open vSwitch sends everything. It has no meaning elsewhere (RFC
// 3927, RFC 4291 section 2.5.6).
func (t Links) gateway() netip.Prefix {
	if t.over6() {
		return netip.MustParsePrefix("fe80::1/64")
	}
	return netip.MustParsePrefix("169.254.0.1/32")
}

// over6 reports whether outer packets are IPv6.
func (t Links) over6() bool {
	for _, p := range t.peers() {
		a, err := netip.ParseAddr(p.Remote)
		return err == nil && a.Is6()
	}
	return false
}

// peers returns the peers of all links.
func (t Links) peers() []Peer {
	var list []Peer
	for _, l := range t.Links {
		list = append(list, l.Peers...)
	}
	return list
}

// own returns the host's address on the span below, with a prefix that contains those of all peers: Open vSwitch takes
// the source address from a link whose prefix contains the destination.
func (t Links) own() (netip.Prefix, error) {
	peers := t.peers()
	if len(peers) == 0 {
		return netip.Prefix{}, errors.New("a tunnel to nobody")
	}
	local, err := netip.ParseAddr(peers[0].Local)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("tunnel from %q: %w", peers[0].Local, err)
	}
	bits := local.BitLen() / 4
	for _, p := range peers {
		remote, err := netip.ParseAddr(p.Remote)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("tunnel to %q: %w", p.Remote, err)
		}
		if p.Local != peers[0].Local || remote.Is4() != local.Is4() {
			return netip.Prefix{}, fmt.Errorf("tunnel to %s from %s, and another from %s: want one address", p.Remote, p.Local,
				local)
		}
		for bits > 0 && !netip.PrefixFrom(local, bits).Masked().Contains(remote) {
			bits--
		}
	}
	return netip.PrefixFrom(local, bits), nil
}

// before returns the steps that make the links and the namespace.
func (t Links) before() []host.Step {
	set := func(ns, key, value string) host.Step {
		return host.Sysctl{NS: ns, Key: key, Value: value, IfPresent: true}
	}
	offloads := []string{"tx", "tso", "gso"} // Open vSwitch requires complete packets
	steps := []host.Step{
		host.Namespace{Name: t.NS},
		set(t.NS, "net.ipv6.conf.default.accept_dad", "0"),
		set(t.NS, "net.ipv6.conf.default.addr_gen_mode", "1"), // no address other than those of the step
	}
	if !t.over6() {
		steps = append(steps, set(t.NS, "net.ipv6.conf.default.disable_ipv6", "1"))
	}
	for _, l := range t.Links {
		steps = append(steps,
			host.Veth{Name: l.Name, MAC: l.MAC, MTU: t.MTU, PeerNS: t.NS, PeerName: l.Name},
			host.LinkSettings{Name: l.Name, Off: offloads})
	}
	return append(steps,
		host.Veth{Name: t.Gate, MAC: t.GateMAC, MTU: t.Outer, PeerNS: t.NS, PeerName: gate0},
		host.LinkSettings{Name: t.Gate, Off: offloads},
		// Open vSwitch resolves the gateway from an address that is also the host's.
		host.Sysctl{Key: "net.ipv4.conf." + t.Gate + ".accept_local", Value: "1"},
		host.Link{Name: t.Gate, Addresses: []string{t.gateway().String()}, Up: true},
	)
}

// after returns the steps that route outer packets, once the bridge's link exists.
func (t Links) after() ([]host.Step, error) {
	own, err := t.own()
	if err != nil {
		return nil, err
	}
	via := t.gateway().Addr()
	steps := []host.Step{host.Link{NS: t.NS, Name: outer, Addresses: []string{own.String()}, Up: true}}
	steps = append(steps, host.Route{NS: t.NS, To: t.gateway().Masked().String(), Dev: outer})
	for _, p := range t.peers() {
		remote, err := netip.ParseAddr(p.Remote)
		if err != nil {
			return nil, fmt.Errorf("tunnel to %q: %w", p.Remote, err)
		}
		steps = append(steps, host.Route{
			NS: t.NS, To: netip.PrefixFrom(remote, remote.BitLen()).String(), Via: via.String(), Dev: outer,
		})
	}
	return steps, nil
}

// bridges returns the bridges of Open vSwitch.
func (t Links) bridges() []ovs.Bridge {
	in := ovs.Bridge{Name: inner, MTU: t.MTU, Datapath: ovs.Userspace}
	for _, l := range t.Links {
		in.Ports = append(in.Ports, ovs.PortConfig{Name: l.Name})
	}
	for n, p := range t.peers() {
		options := map[string]string{"local_ip": p.Local, "remote_ip": p.Remote}
		if t.ID != 0 {
			options["key"] = fmt.Sprint(t.ID)
		}
		if t.Port != 0 {
			options["dst_port"] = fmt.Sprint(t.Port)
		}
		if t.Checksum {
			options["csum"] = "true"
		}
		in.Ports = append(in.Ports, ovs.PortConfig{Name: fmt.Sprintf("to%d", n+1), Type: t.Type, Options: options})
	}
	out := ovs.Bridge{
		Name: outer, MAC: t.OwnMAC, MTU: t.Outer, Datapath: ovs.Userspace, Ports: []ovs.PortConfig{{Name: gate0}},
	}
	return []ovs.Bridge{in, out}
}

// flows returns the flows of a bridge: frames of a link go to the peer with their destination, and those of a peer to
// its link. Nothing is learned, and nothing is flooded.
func (t Links) flows(bridge string) ([]ovs.Flow, error) {
	pass := func(from, to uint32, match ovs.Match) ovs.Flow {
		match.InPort = from
		return ovs.Flow{Cookie: ovs.CookieTunnel, Priority: 1, Match: match, Output: to}
	}
	if bridge == outer {
		return []ovs.Flow{pass(1, ovs.Local, ovs.Match{}), pass(ovs.Local, 1, ovs.Match{})}, nil
	}
	var list []ovs.Flow
	peer := uint32(len(t.Links))
	for i, l := range t.Links {
		link := uint32(i + 1)
		for _, p := range l.Peers {
			peer++
			mac, err := net.ParseMAC(p.MAC)
			if err != nil || len(mac) != 6 {
				return nil, fmt.Errorf("peer %q: %w", p.MAC, err)
			}
			list = append(list, pass(link, peer, ovs.Match{EtherTo: [6]byte(mac)}), pass(peer, link, ovs.Match{}))
		}
	}
	return list, nil
}

// diverted returns the tunnel in the form for the programs.
func (t Links) diverted() (divert.Tunnel, error) {
	const gre, udp = 47, 17 // IANA, Protocol Numbers
	to, err := net.ParseMAC(t.OwnMAC)
	if err != nil {
		return divert.Tunnel{}, err
	}
	d := divert.Tunnel{Gate: t.Gate, To: to, Protocol: udp, Port: t.Port}
	if t.Port == 0 {
		d.Protocol = gre
	}
	for _, p := range t.peers() {
		local, err := netip.ParseAddr(p.Local)
		if err != nil {
			return d, fmt.Errorf("tunnel from %q: %w", p.Local, err)
		}
		remote, err := netip.ParseAddr(p.Remote)
		if err != nil {
			return d, fmt.Errorf("tunnel to %q: %w", p.Remote, err)
		}
		d.Peers = append(d.Peers, divert.Peer{Below: p.Below, Local: local, Remote: remote})
	}
	return d, nil
}

// instance returns the place of Open vSwitch's files.
func (t Links) instance(k *host.Kernel) (ovs.Instance, error) {
	dir, err := k.RunDir(t.NS)
	return ovs.Instance{Dir: dir}, err
}

// linksWas is what [Links] keeps.
type linksWas struct {
	OVS      bool             `json:"ovs"`
	Links    map[string]int   `json:"links,omitempty"` // their indices
	Programs []host.Process   `json:"programs,omitempty"`
	Attached []bpf.Attachment `json:"attached,omitempty"`
}

// Apply makes the links, starts Open vSwitch, and waits until it carries frames.
func (t Links) Apply(ctx context.Context, k *host.Kernel) error {
	if err := k.Do("", Check); err != nil {
		return err
	}
	i, err := t.instance(k)
	if err != nil {
		return err
	}
	r := &running{k: k, t: t, instance: i, was: linksWas{OVS: true, Links: map[string]int{}}}
	if err := r.start(ctx); err != nil {
		err = r.explain(err)
		if r.held != nil {
			err = errors.Join(err, r.held.Close())
		}
		return errors.Join(err, t.remove(ctx, k, r.was))
	}
	k.Implementation("tunnel", ovs.Implementation(ovs.Userspace, ovs.TunnelSettings()...))
	return nil
}

// running is what Apply has made so far.
type running struct {
	k              *host.Kernel
	t              Links
	instance       ovs.Instance
	was            linksWas
	server, daemon *host.Running
	held           io.Closer
}

// Names of the programs, other than those of a network.
const (
	serverName = ovs.Server + "-tunnel"
	daemonName = ovs.Daemon + "-tunnel"
)

// program starts a program and keeps it.
func (r *running) program(name string, args []string) (*host.Running, error) {
	started, err := r.k.Start(host.Program{
		Name: name, Args: args, NS: r.t.NS, Env: r.instance.Env(), Package: ovs.Package,
	})
	if err != nil {
		return nil, err
	}
	r.was.Programs = append(r.was.Programs, started.Process())
	return started, r.k.Keep(r.was)
}

// make applies the given steps, and keeps the links of the host that they make. Everything else ends with the
// namespace.
func (r *running) make(ctx context.Context, steps []host.Step) error {
	for _, s := range steps {
		if err := s.Apply(ctx, r.k); err != nil {
			return err
		}
		if v, ok := s.(host.Veth); ok {
			h, err := r.k.Links("")
			if err != nil {
				return err
			}
			l, err := h.ByName(v.Name)
			if err != nil {
				return err
			}
			r.was.Links[v.Name] = l.Index
		}
		if err := r.k.Keep(r.was); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) start(ctx context.Context) (err error) {
	after, err := r.t.after()
	if err != nil {
		return err
	}
	if err := r.k.Keep(r.was); err != nil {
		return err
	}
	if err := r.make(ctx, r.t.before()); err != nil {
		return err
	}
	if err := r.launch(); err != nil {
		return err
	}
	if err := r.make(ctx, after); err != nil {
		return err
	}
	if err := r.learn(); err != nil {
		return err
	}
	d, err := r.t.diverted()
	if err != nil {
		return err
	}
	if err := r.k.Do("", func() (err error) {
		r.was.Attached, r.held, err = divert.Add(d)
		return err
	}); err != nil {
		return err
	}
	return errors.Join(r.k.Keep(r.was), r.k.Hold(r.held))
}

// launch starts the programs, with ports and flows.
func (r *running) launch() (err error) {
	if err := r.instance.Create(); err != nil {
		return err
	}
	if r.server, err = r.program(serverName, r.instance.ServerArgs()); err != nil {
		return err
	}
	if err := ovs.Ready(r.instance.Database(), r.server.Done()); err != nil {
		return err
	}
	bridges := r.t.bridges()
	if err := r.instance.Configure(ovs.Config{Bridges: bridges, Settings: ovs.TunnelSettings()}); err != nil {
		return err
	}
	if r.daemon, err = r.program(daemonName, r.instance.DaemonArgs()); err != nil {
		return err
	}
	if err := r.instance.Configured(r.daemon.Done()); err != nil {
		return err
	}
	state, err := r.instance.State()
	if err != nil {
		return err
	}
	for _, p := range state.Ports {
		if p.Number <= 0 {
			return fmt.Errorf("port %q: %s", p.Name, p.Error)
		}
	}
	for _, b := range bridges {
		flows, err := r.t.flows(b.Name)
		if err != nil {
			return err
		}
		conn, err := ovs.Connect(r.instance.Bridge(b.Name))
		if err != nil {
			return err
		}
		err = conn.Modify(ovs.FlowMod{Add: slices.Values(flows)})
		conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// learn waits until the daemon knows the route to each peer.
func (r *running) learn() error {
	for _, p := range r.t.peers() {
		to, err := netip.ParseAddr(p.Remote)
		if err != nil {
			return err
		}
		want, err := r.t.route(p)
		if err != nil {
			return err
		}
		if err := r.instance.Routed(to, want, r.daemon.Done()); err != nil {
			return err
		}
	}
	mac, err := net.ParseMAC(r.t.GateMAC)
	if err != nil {
		return err
	}
	if err := r.instance.SetNeighbour(outer, r.t.gateway().Addr(), mac); err != nil {
		return err
	}
	return r.instance.ForgetDecisions() // to drop packets that came earlier
}

// route returns the route of outer packets to a peer.
func (t Links) route(p Peer) (ovs.TunnelRoute, error) {
	from, err := netip.ParseAddr(p.Local)
	return ovs.TunnelRoute{From: from, Via: t.gateway().Addr(), Bridge: outer}, err
}

// explain adds to an error the reason why a program has died.
func (r *running) explain(err error) error {
	for _, p := range []*host.Running{r.server, r.daemon} {
		if p == nil {
			continue
		}
		if died := p.Died(); died != nil {
			err = errors.Join(err, died)
		}
	}
	return err
}

// grace is how long a program has to end.
const grace = 2 * time.Second

// Remove removes the eBPF programs, ends Open vSwitch, and removes the links and the namespace.
func (t Links) Remove(ctx context.Context, k *host.Kernel) error {
	var was linksWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return t.remove(ctx, k, was)
}

func (t Links) remove(ctx context.Context, k *host.Kernel, was linksWas) error {
	var errs []error
	if len(was.Attached) > 0 {
		errs = append(errs, k.Do("", func() error { return bpf.Detach(was.Attached) }))
	}
	for _, p := range slices.Backward(was.Programs) {
		errs = append(errs, k.Stop(p, grace))
	}
	for name, index := range was.Links {
		errs = append(errs, host.Made{Index: index}.Remove(ctx, k, "", name, t.NS))
	}
	errs = append(errs, host.Namespace{Name: t.NS}.Remove(ctx, k))
	i, err := t.instance(k)
	if err == nil {
		err = os.RemoveAll(i.Dir)
	}
	return errors.Join(append(errs, err)...)
}

package iptunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/bpf/encap"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// The implementations of encapsulation: the kernel's devices, eBPF programs, or the first of the two that is available.
const (
	Auto   = "auto"
	Kernel = "kernel"
	EBPF   = "ebpf"
)

// Links carry IP packets to other hosts, in IP packets or in GRE: by one kernel device for each link, or by eBPF
// programs and a pair of veth links for each. The links have no addresses, and are down.
type Links struct {
	// Impl is "auto", "kernel" or "ebpf".
	Impl string `json:"impl"`
	// GRE says that packets are in GRE.
	GRE bool `json:"gre,omitempty"`
	// Frames says that GRE carries Ethernet frames instead of IP packets. Only the kernel's devices do that.
	Frames bool `json:"frames,omitempty"`
	// Over6 says that outer packets are IPv6.
	Over6 bool `json:"over_ipv6,omitempty"`
	// MTU of the links, in bytes.
	MTU   int    `json:"mtu"`
	Peers []Peer `json:"peers"`
}

// A Peer is another host.
type Peer struct {
	// Link is the host's link to the peer. If it is a veth, Far is its other end. MAC is its address if it is a veth or
	// carries frames.
	Link string `json:"link"`
	Far  string `json:"far"`
	MAC  string `json:"mac"`
	// Below is the link of outer packets, from Local to its neighbour Remote.
	Below  string `json:"below"`
	Local  string `json:"local"`
	Remote string `json:"remote"`
}

// Kind returns "ip-tunnel".
func (Links) Kind() string { return "ip-tunnel" }

// String describes the step in plain words.
func (t Links) String() string {
	in := "IPv4"
	if t.Over6 {
		in = "IPv6"
	}
	if t.GRE {
		in = "GRE over " + in
	}
	what := "IP"
	if t.Frames {
		what = "frames"
	}
	s := fmt.Sprintf("%s in %s, by %s, mtu %d", what, in, t.Impl, t.MTU)
	for i, p := range t.Peers {
		if i == maxPeers && len(t.Peers) > maxPeers+1 {
			return s + fmt.Sprintf("; and to %d more hosts", len(t.Peers)-i)
		}
		s += fmt.Sprintf("; %s to %s from %s through %s", p.Link, p.Remote, p.Local, p.Below)
	}
	return s
}

// maxPeers is how many peers a line shows.
const maxPeers = 4

// Type returns the kernel's name for devices of this kind.
func (t Links) Type() string { return link.TunnelKind(t.GRE, t.Frames, t.Over6) }

// Check returns an error if this machine cannot make such links.
func (t Links) Check() error {
	_, err := t.implementation(func(f func() error) error { return f() })
	return err
}

// implementation decides who encapsulates. in runs a function on the host.
func (t Links) implementation(in func(func() error) error) (string, error) {
	device := func() error {
		return in(func() error {
			return link.CheckKind(t.Type(), "load the kernel's module for it, or use impl=ebpf")
		})
	}
	programs := func() error {
		if t.Frames {
			return errors.New("eBPF programs carry IP packets, not Ethernet frames")
		}
		err := in(func() error { return encap.Check(t.GRE, t.Over6) })
		if u, ok := errors.AsType[*linux.UnsupportedError](err); ok && u.Missing == "tcx" {
			u.Hint = "Linux 6.6 or newer, or the kernel's own tunnels by impl=kernel"
		}
		return err
	}
	switch t.Impl {
	case Kernel:
		return Kernel, device()
	case EBPF:
		return EBPF, programs()
	case "", Auto:
	default:
		return "", fmt.Errorf("implementation %q (known: %s, %s, %s)", t.Impl, Auto, Kernel, EBPF)
	}
	err := device()
	if errors.Is(err, errors.ErrUnsupported) {
		return EBPF, programs()
	}
	return Kernel, err
}

// linksWas is what [Links] keeps.
type linksWas struct {
	Impl     string           `json:"impl"`
	Links    []int            `json:"links"` // their indices
	Attached []bpf.Attachment `json:"attached,omitempty"`
}

// Apply makes the links and, for eBPF, hooks the programs.
func (t Links) Apply(ctx context.Context, k *host.Kernel) (err error) {
	of, err := t.implementation(func(f func() error) error { return k.Do("", f) })
	if err != nil {
		return err
	}
	was := linksWas{Impl: of}
	var held io.Closer
	defer func() {
		if err == nil {
			return
		}
		if held != nil {
			err = errors.Join(err, held.Close())
		}
		err = errors.Join(err, t.remove(ctx, k, was))
	}()
	for _, p := range t.Peers {
		index, err := t.add(k, of, p)
		if index != 0 {
			was.Links = append(was.Links, index)
		}
		if err := errors.Join(err, k.Keep(was)); err != nil {
			return err
		}
	}
	if of == EBPF {
		wanted, err := t.tunnel()
		if err != nil {
			return err
		}
		if err := k.Do("", func() (err error) {
			was.Attached, held, err = encap.Add(wanted)
			return err
		}); err != nil {
			return err
		}
		if err := errors.Join(k.Keep(was), k.Hold(held)); err != nil {
			return err
		}
	}
	k.Implementation("tunnel", of)
	return nil
}

// add makes the link to a peer.
func (t Links) add(k *host.Kernel, of string, p Peer) (index int, err error) {
	h, err := k.Links("")
	if err != nil {
		return 0, err
	}
	if of == Kernel {
		local, remote, err := p.addresses()
		if err != nil {
			return 0, err
		}
		err = k.Do("", func() (err error) {
			index, err = h.AddTunnel(t.device(p, local, remote))
			return err
		})
		return index, err
	}
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return 0, err
	}
	here, err := k.Open("")
	if err != nil {
		return 0, err
	}
	defer here.Close()
	if index, err = h.AddVeth(link.Veth{Name: p.Link, MAC: mac, MTU: t.MTU, PeerName: p.Far, PeerNS: here}); err != nil {
		return 0, err
	}
	far, err := h.ByName(p.Far)
	if err != nil {
		return index, err
	}
	return index, errors.Join(h.SetNoARP(index), h.SetNoARP(far.Index), h.SetUp(far.Index, true))
}

// device returns the kernel device for a peer.
func (t Links) device(p Peer, local, remote netip.Addr) link.Tunnel {
	d := link.Tunnel{Name: p.Link, GRE: t.GRE, Local: local, Remote: remote, MTU: t.MTU}
	if t.Frames {
		d.MAC = p.MAC
	}
	return d
}

// addresses returns the addresses of outer packets.
func (p Peer) addresses() (local, remote netip.Addr, err error) {
	if local, err = netip.ParseAddr(p.Local); err != nil {
		return local, remote, fmt.Errorf("tunnel from %q: %w", p.Local, err)
	}
	if remote, err = netip.ParseAddr(p.Remote); err != nil {
		return local, remote, fmt.Errorf("tunnel to %q: %w", p.Remote, err)
	}
	return local, remote, nil
}

// tunnel returns the step in the form for the programs.
func (t Links) tunnel() (encap.Tunnel, error) {
	wanted := encap.Tunnel{GRE: t.GRE}
	for _, p := range t.Peers {
		local, remote, err := p.addresses()
		if err != nil {
			return wanted, err
		}
		wanted.Peers = append(wanted.Peers, encap.Peer{
			Link: p.Link, Far: p.Far, Below: p.Below, Local: local, Remote: remote,
		})
	}
	return wanted, nil
}

// Remove removes the programs and the links.
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
	for i, index := range was.Links {
		errs = append(errs, host.Made{Index: index}.Remove(ctx, k, "", t.Peers[i].Link, ""))
	}
	return errors.Join(errs...)
}

// Verify checks the links and, for eBPF, the programs and their maps.
func (t Links) Verify(k *host.Kernel) error {
	of, err := t.implementation(func(f func() error) error { return k.Do("", f) })
	if err != nil {
		return err
	}
	var drifts []linux.Difference
	if of == Kernel {
		drifts, err = t.compare(k)
	} else {
		var wanted encap.Tunnel
		if wanted, err = t.tunnel(); err != nil {
			return err
		}
		err = k.Do("", func() (err error) {
			drifts, err = encap.Compare(wanted)
			return err
		})
	}
	if err != nil || len(drifts) == 0 {
		return err
	}
	return &host.DriftError{Step: t.String(), Drifts: drifts}
}

// compare compares the kernel's devices.
func (t Links) compare(k *host.Kernel) ([]linux.Difference, error) {
	h, err := k.Links("")
	if err != nil {
		return nil, err
	}
	var drifts []linux.Difference
	for _, p := range t.Peers {
		local, remote, err := p.addresses()
		if err != nil {
			return nil, err
		}
		want := t.device(p, local, remote)
		got, err := h.Tunnel(p.Link)
		switch {
		case errors.Is(err, link.ErrNotFound):
			drifts = append(drifts, linux.Difference{What: "link " + p.Link, Want: linux.Present, Got: linux.Absent})
		case err != nil:
			return nil, err
		case got != want:
			drifts = append(drifts, linux.Difference{
				What: "tunnel " + p.Link, Want: describe(want), Got: describe(got),
			})
		}
	}
	return drifts, nil
}

// describe describes a tunnel.
func describe(t link.Tunnel) string {
	s := fmt.Sprintf("from %s to %s, mtu %d, GRE: %t", t.Local, t.Remote, t.MTU, t.GRE)
	if t.MAC != "" {
		s += ", mac " + t.MAC
	}
	if t.Keys != [2]uint32{} {
		s += fmt.Sprintf(", keys %d", t.Keys)
	}
	return s
}

// Sent returns the name of the counter of packets that a link to a peer has sent.
func Sent(link string) string { return "packets that tunnel " + link + " has sent" }

// Received returns the name of the counter of packets that it has received.
func Received(link string) string { return "packets that tunnel " + link + " has received" }

// Refused is the name of the counter of packets that the programs have refused, because no peer sent them or because
// they are malformed.
const Refused = "packets of the tunnel's protocol that were refused"

// CountLinks returns the packets that the tunnel links of a host have sent and received, as the links report them.
func CountLinks(k *host.Kernel, names []string) (map[string]uint64, error) {
	h, err := k.Links("")
	if err != nil {
		return nil, err
	}
	links, err := h.Traffic()
	if err != nil {
		return nil, err
	}
	counts := map[string]uint64{}
	for _, l := range links {
		if slices.Contains(names, l.Name) {
			counts[Sent(l.Name)], counts[Received(l.Name)] = l.Sent, l.Received
		}
	}
	return counts, nil
}

// Count returns the packets that passed the tunnel, as the kernel's devices or the programs report them.
func (t Links) Count(k *host.Kernel) (map[string]uint64, error) {
	of, err := t.implementation(func(f func() error) error { return k.Do("", f) })
	if err != nil {
		return nil, err
	}
	if of == Kernel {
		names := make([]string, len(t.Peers))
		for i, p := range t.Peers {
			names[i] = p.Link
		}
		return CountLinks(k, names)
	}
	counts := map[string]uint64{}
	wanted, err := t.tunnel()
	if err != nil {
		return nil, err
	}
	return counts, k.Do("", func() error {
		found, err := encap.Count(wanted)
		for of, c := range found {
			if of == "" {
				counts[Refused] = c.Received
				continue
			}
			counts[Sent(of)], counts[Received(of)] = c.Sent, c.Received
		}
		return err
	})
}

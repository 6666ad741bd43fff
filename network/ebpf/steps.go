package ebpf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/bpf/forward"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// A Forwarding hooks the program that forwards to the links of a host, with the table of where to.
type Forwarding struct {
	// Attach is one of [forward.Ways], or "auto" for the first of tcx and tc that the kernel has.
	Attach  string   `json:"attach"`
	Members []Member `json:"members,omitempty"`
	Ranges  []Range  `json:"ranges,omitempty"`
}

// A Member is a container of the host.
type Member struct {
	// Link and LinkMAC are the host's link to it; MAC is the address of the container's own.
	Link    string `json:"link"`
	LinkMAC string `json:"link_mac"`
	MAC     string `json:"mac"`
	// Addresses are the container's: one of IPv4 and one of IPv6.
	Addresses []string `json:"addresses"`
}

// A Range is the containers of another host.
type Range struct {
	// To is in CIDR notation; Via is the address of the host, a neighbour of Link.
	To   string `json:"to"`
	Via  string `json:"via"`
	Link string `json:"link"`
	// Encap is what the program passes to the link, if that is an external tunnel device.
	Encap host.Encap `json:"encap,omitzero"`
}

// Kind returns "ebpf-forwarding".
func (Forwarding) Kind() string { return "ebpf-forwarding" }

// String says the step as a person would.
func (f Forwarding) String() string {
	s := fmt.Sprintf("forwarding by eBPF, %s, between %d containers", f.Attach, len(f.Members))
	for i, r := range f.Ranges {
		if i == maxRanges && len(f.Ranges) > maxRanges+1 {
			return s + fmt.Sprintf("; and to %d more ranges", len(f.Ranges)-i)
		}
		s += fmt.Sprintf("; to %s via %s through %s", r.To, r.Via, r.Link)
		if r.Encap != (host.Encap{}) {
			s += " " + r.Encap.String()
		}
	}
	return s
}

// maxRanges is how many ranges a line shows.
const maxRanges = 4

// forwardingWas is what a [Forwarding] keeps.
type forwardingWas struct {
	Attached []bpf.Attachment `json:"attached"`
}

// Apply loads the program and hooks it to the links.
func (f Forwarding) Apply(_ context.Context, k *host.Kernel) error {
	t, err := f.table()
	if err != nil {
		return err
	}
	var attached []bpf.Attachment
	var held io.Closer
	if err := possible(f.Attach, func(way string) error {
		t.Way = way
		return k.Do("", func() (err error) {
			attached, held, err = forward.Add(t)
			return err
		})
	}); err != nil {
		return err
	}
	if err := errors.Join(k.Keep(forwardingWas{attached}), k.Hold(held)); err != nil {
		return errors.Join(err, held.Close())
	}
	k.Implementation("network", fmt.Sprintf("ebpf (%s)", t.Way))
	return nil
}

// Remove takes the program away from the links.
func (f Forwarding) Remove(_ context.Context, k *host.Kernel) error {
	var was forwardingWas
	if ok, err := k.Kept(&was); !ok {
		return err
	}
	return k.Do("", func() error { return bpf.Detach(was.Attached) })
}

// maxDrifts is how many things that differ are named.
const maxDrifts = 8

// Verify asks the kernel what is hooked to the links, and what the table holds.
func (f Forwarding) Verify(k *host.Kernel) error {
	t, err := f.table()
	if err != nil {
		return err
	}
	var found []linux.Difference
	if err := possible(f.Attach, func(way string) error {
		t.Way = way
		return k.Do("", func() (err error) {
			found, err = forward.Compare(t)
			return err
		})
	}); err != nil || len(found) == 0 {
		return err
	}
	drift := &host.DriftError{Step: f.String()}
	for i, d := range found {
		if i == maxDrifts {
			drift.Drifts = append(drift.Drifts, linux.Difference{
				What: "differences", Want: "none", Got: fmt.Sprintf("%d more", len(found)-i),
			})
			break
		}
		drift.Drifts = append(drift.Drifts, d)
	}
	return drift
}

// counter is the name of its counter.
const counter = "packets that the eBPF program has forwarded"

// Count returns how many packets the program has sent on, from any link. Without a program nothing counts.
func (f Forwarding) Count(k *host.Kernel) (map[string]uint64, error) {
	t, err := f.table()
	if err != nil {
		return nil, err
	}
	counts := map[string]uint64{}
	return counts, possible(f.Attach, func(way string) error {
		t.Way = way
		return k.Do("", func() error {
			n, ok, err := forward.Forwarded(t)
			if ok {
				counts[counter] = n
			}
			return err
		})
	})
}

// table turns the text of the step into addresses. The way is left out.
func (f Forwarding) table() (forward.Table, error) {
	t := forward.Table{}
	for _, m := range f.Members {
		c := forward.Container{Link: m.Link}
		var err error
		if c.MAC, err = net.ParseMAC(m.MAC); err != nil {
			return t, fmt.Errorf("forward to link %q: %w", m.Link, err)
		}
		if c.LinkMAC, err = net.ParseMAC(m.LinkMAC); err != nil {
			return t, fmt.Errorf("forward to link %q: %w", m.Link, err)
		}
		for _, text := range m.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return t, fmt.Errorf("forward to link %q: %w", m.Link, err)
			}
			c.Addresses = append(c.Addresses, a)
		}
		t.Containers = append(t.Containers, c)
	}
	for _, r := range f.Ranges {
		to, err := netip.ParsePrefix(r.To)
		if err != nil {
			return t, fmt.Errorf("forward to %q: %w", r.To, err)
		}
		via, err := netip.ParseAddr(r.Via)
		if err != nil {
			return t, fmt.Errorf("forward to %q via %q: %w", r.To, r.Via, err)
		}
		encap, err := r.Encap.Parse()
		if err != nil {
			return t, fmt.Errorf("forward to %q: %w", r.To, err)
		}
		t.Ranges = append(t.Ranges, forward.Range{To: to, Via: via, Link: r.Link, Encap: encap})
	}
	return t, nil
}

// A Netkit makes a pair of netkit links in mode l2. The near end is up; the peer is made directly in its namespace,
// where a later step sets it up.
type Netkit struct {
	// Name and MAC are those of the near end, on the host.
	Name string `json:"name"`
	MAC  string `json:"mac"`
	// MTU in bytes, of both ends.
	MTU      int    `json:"mtu"`
	PeerNS   string `json:"peer_ns"`
	PeerName string `json:"peer_name"`
	PeerMAC  string `json:"peer_mac"`
}

// Kind returns "netkit".
func (Netkit) Kind() string { return "netkit" }

// String says the step as a person would.
func (n Netkit) String() string {
	return fmt.Sprintf("netkit %s, mac %s, mtu %d; peer %s in %s, mac %s", n.Name, n.MAC, n.MTU, n.PeerName, n.PeerNS,
		n.PeerMAC)
}

// Apply makes both ends.
func (n Netkit) Apply(ctx context.Context, k *host.Kernel) error {
	mac, err := net.ParseMAC(n.MAC)
	if err != nil {
		return err
	}
	peerMAC, err := net.ParseMAC(n.PeerMAC)
	if err != nil {
		return err
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	far, err := k.Open(n.PeerNS)
	if err != nil {
		return err
	}
	defer far.Close()
	index, err := h.AddNetkit(link.Netkit{
		Name: n.Name, MAC: mac, MTU: n.MTU, PeerName: n.PeerName, PeerMAC: peerMAC, PeerNS: far,
	})
	if err != nil {
		return err
	}
	made := host.Made{Index: index}
	if err := k.Keep(made); err != nil {
		return errors.Join(err, made.Remove(ctx, k, "", n.Name, ""))
	}
	if err := h.SetUp(index, true); err != nil {
		return errors.Join(err, made.Remove(ctx, k, "", n.Name, ""))
	}
	return nil
}

// Remove removes both ends. They go with the namespace of the peer, too.
func (n Netkit) Remove(ctx context.Context, k *host.Kernel) error {
	var made host.Made
	if ok, err := k.Kept(&made); !ok {
		return err
	}
	return made.Remove(ctx, k, "", n.Name, n.PeerNS)
}

const (
	// settle is how long both ends may take to find their carrier, after which packets are not dropped any more
	// (net/core/link_watch.c).
	settle    = 2 * time.Second
	pollPause = 2 * time.Millisecond
)

// Verify reads both ends back. It waits for their carrier.
func (n Netkit) Verify(k *host.Kernel) error {
	for deadline := time.Now().Add(settle); ; time.Sleep(pollPause) {
		drifts, running, err := n.read(k)
		if err != nil {
			return err
		}
		if len(drifts) == 0 && !running && time.Now().After(deadline) {
			drifts = []linux.Difference{{What: "carrier of " + n.Name, Want: "present", Got: "absent"}}
		}
		if len(drifts) > 0 {
			return &host.DriftError{Step: n.String(), Drifts: drifts}
		}
		if running {
			return nil
		}
	}
}

func (n Netkit) read(k *host.Kernel) (drifts []linux.Difference, running bool, err error) {
	running = true
	for _, end := range []struct{ ns, name, mac string }{{"", n.Name, n.MAC}, {n.PeerNS, n.PeerName, n.PeerMAC}} {
		equal := func(what, want, got string) {
			if want != got {
				drifts = append(drifts, linux.Difference{What: what + " of " + end.name, Want: want, Got: got})
			}
		}
		h, err := k.Links(end.ns)
		if err != nil {
			return nil, false, err
		}
		l, err := h.ByName(end.name)
		if errors.Is(err, link.ErrNotFound) {
			drifts = append(drifts, linux.Difference{What: "link " + end.name, Want: "present", Got: "absent"})
			continue
		}
		if err != nil {
			return nil, false, err
		}
		equal("type", "netkit", l.Type)
		equal("mac", end.mac, l.MAC.String())
		equal("mtu", fmt.Sprint(n.MTU), fmt.Sprint(l.MTU))
		equal("state", "up", map[bool]string{true: "up", false: "down"}[l.Up])
		running = running && l.Running
	}
	return drifts, running, nil
}

// Silent says that no event reports changes of its maps, see [host.Silent].
func (Forwarding) Silent() {}

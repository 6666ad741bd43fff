package encap

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// places returns the places of the programs: one for the link of each peer, then one for each link below.
func (t Tunnel) places() []bpf.Place {
	var list, below []bpf.Place
	for _, p := range t.Peers {
		list = append(list, bpf.Place{Link: p.Link, Program: objectProgNettollEncap, Hook: bpf.TCXEgress})
		at := bpf.Place{Link: p.Below, Program: objectProgNettollDecap, Hook: bpf.TCXIngress}
		if !slices.Contains(below, at) {
			below = append(below, at)
		}
	}
	return append(list, below...)
}

// Add loads the programs and their maps, in the network namespace of the calling thread, and hooks them to the links,
// whose MAC addresses do not change. They stay while held is open, as with [bpf.Hooked]. If the kernel lacks something,
// or a privilege is missing, the error is a [linux.UnsupportedError].
func Add(t Tunnel) (attached []bpf.Attachment, held io.Closer, err error) {
	links, err := bpf.Open()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := t.load(links)
	if err != nil {
		links.Close()
		return nil, nil, err
	}
	hooked, err := links.HoldAt(loaded, t.places())
	if err != nil {
		return nil, nil, err
	}
	return hooked.Attached(), hooked, nil
}

func (t Tunnel) load(links *bpf.Links) (*ebpf.Collection, error) {
	entries, err := t.entries(links)
	if err != nil {
		return nil, err
	}
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the programs: %w", err)
	}
	bare := len(t.Peers) > 0 && links.BareIn(t.Peers[0].Below)
	for _, p := range t.Peers {
		if links.BareIn(p.Below) != bare {
			return nil, fmt.Errorf("tunnel to %s by link %q: only some of the links below carry Ethernet frames", p.Remote,
				p.Below)
		}
	}
	for name, set := range map[string]bool{objectVarWithGre: t.GRE, objectVarOver6: t.over6(), objectVarBare: bare} {
		value := uint8(0)
		if set {
			value = 1
		}
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %q of the programs: %w", name, err)
		}
	}
	for m, s := range spec.Maps {
		if n := len(entries[m]); n > 0 {
			s.MaxEntries = uint32(n)
		}
	}
	spec.Maps[objectMapCounts].MaxEntries = uint32(len(t.Peers) + 1)
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, bpf.Explain("load the programs that encapsulate", bpf.TCXEgress, err)
	}
	if err := t.fill(loaded, entries, links); err != nil {
		loaded.Close()
		return nil, err
	}
	return loaded, nil
}

func (t Tunnel) fill(loaded *ebpf.Collection, entries tables, links *bpf.Links) error {
	for m, list := range entries {
		for key, value := range list {
			if err := loaded.Maps[m].Put([]byte(key), []byte(value)); err != nil {
				return fmt.Errorf("fill map %q: %w", m, err)
			}
		}
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	counted := []uint32{0}
	for _, p := range t.Peers {
		counted = append(counted, uint32(links.Index(p.Link)))
	}
	for _, index := range counted {
		if err := loaded.Maps[objectMapCounts].Put(index, make([]Counts, cpus)); err != nil {
			return fmt.Errorf("fill map %q: %w", objectMapCounts, err)
		}
	}
	return nil
}

// over6 reports whether the addresses of outer packets are IPv6.
func (t Tunnel) over6() bool { return len(t.Peers) > 0 && t.Peers[0].Remote.Is6() }

// tables holds the contents of the maps, by their names, as the structures of encap.c.
type tables map[string]map[string]string

// entries returns the contents of the maps, with the indexes of the tunnel's links.
func (t Tunnel) entries(links *bpf.Links) (tables, error) {
	h, err := link.Open()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	e := tables{objectMapWays: {}, objectMapPeers: {}}
	for _, p := range t.Peers {
		for _, a := range []netip.Addr{p.Local, p.Remote} {
			if !a.IsValid() || a.Is6() != t.over6() {
				return nil, fmt.Errorf("tunnel to %s from %s: they are not of one family", p.Remote, p.Local)
			}
		}
		for _, name := range []string{p.Link, p.Far, p.Below} {
			if links.Index(name) == 0 {
				return nil, fmt.Errorf("tunnel to %s by link %q: %w", p.Remote, name, link.ErrNotFound)
			}
		}
		near, err := h.ByName(p.Link)
		if err != nil {
			return nil, err
		}
		below, out := number(links.Index(p.Below)), number(links.Index(p.Far))
		e[objectMapWays][number(near.Index)] = below + address(p.Local) + address(p.Remote)
		e[objectMapPeers][below+address(p.Remote)+address(p.Local)] = out + number(near.Index) + string(near.MAC) + "\x00\x00"
	}
	return e, nil
}

func number(n int) string { return string(binary.NativeEndian.AppendUint32(nil, uint32(n))) }

// address returns an address in the form of encap.c.
func address(a netip.Addr) string {
	whole := make([]byte, 16)
	copy(whole, a.AsSlice())
	return string(whole)
}

// Compare returns the differences between the kernel and the tunnel: the programs at the links of the namespace of the
// calling thread, and the entries of their maps.
func Compare(t Tunnel) ([]linux.Difference, error) {
	links, err := bpf.Open()
	if err != nil {
		return nil, err
	}
	defer links.Close()
	var names []string
	for _, p := range t.Peers {
		names = append(names, p.Link, p.Far, p.Below)
	}
	if missing := links.Missing(names...); missing != nil {
		return missing, nil
	}
	want, err := t.entries(links)
	if err != nil {
		return nil, err
	}
	return links.ComparePlaces(t.places(), want)
}

// Count returns the counters of a tunnel's programs in the namespace of the calling thread, by the names of the links
// of the peers. Those of "" count refused packets of the tunnel's protocol.
func Count(t Tunnel) (map[string]Counts, error) {
	links, err := bpf.Open()
	if err != nil {
		return nil, err
	}
	defer links.Close()
	counts := map[string]Counts{}
	if len(t.Peers) == 0 {
		return counts, nil
	}
	ids, err := links.Attached(bpf.TCXEgress, links.Index(t.Peers[0].Link))
	if err != nil {
		return nil, err
	}
	p, err := bpf.Find(ids, objectProgNettollEncap)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("program %s at link %q: %w", objectProgNettollEncap, t.Peers[0].Link, link.ErrNotFound)
	}
	defer p.Close()
	read := func(name string, m *ebpf.Map, index int) error {
		var each []Counts
		if err := m.Lookup(uint32(index), &each); err != nil {
			return fmt.Errorf("read map %q: %w", objectMapCounts, err)
		}
		var sum Counts
		for _, c := range each {
			sum.Sent, sum.Received = sum.Sent+c.Sent, sum.Received+c.Received
		}
		counts[name] = sum
		return nil
	}
	if err := read("", p.Maps[objectMapCounts], 0); err != nil {
		return nil, err
	}
	for _, peer := range t.Peers {
		if err := read(peer.Link, p.Maps[objectMapCounts], links.Index(peer.Link)); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// Check tries a tunnel on a pair of links in a namespace of its own, which it removes. If something is missing, the
// error is a [linux.UnsupportedError].
func Check(gre, over6 bool) error {
	near, far := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2") // RFC 5737
	if over6 {
		near, far = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2") // RFC 3849
	}
	return bpf.Try(false, func(name string) (io.Closer, error) {
		_, held, err := Add(Tunnel{GRE: gre, Peers: []Peer{{
			Link: name, Far: name, Below: name, Local: near, Remote: far,
		}}})
		return held, err
	})
}

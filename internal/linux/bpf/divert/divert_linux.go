package divert

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

// places returns the places of the programs: one for the gate, then one for each link below.
func (t Tunnel) places() []bpf.Place {
	list := []bpf.Place{{Link: t.Gate, Program: objectProgNettollOut, Hook: bpf.TCXIngress}}
	for _, p := range t.Peers {
		if h := (bpf.Place{Link: p.Below, Program: objectProgNettollIn, Hook: bpf.TCXIngress}); !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list
}

// Add loads the programs and their maps, in the network namespace of the calling thread, and hooks them to the links.
// They stay while held is open, as with [bpf.Hooked]. If the kernel lacks something, or a privilege is missing, the
// error is a [linux.UnsupportedError].
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
	flag := func(on bool) uint8 {
		if on {
			return 1
		}
		return 0
	}
	for name, value := range map[string]any{
		objectVarProtocol: t.Protocol, objectVarPort: t.Port, objectVarOver6: flag(t.over6()), objectVarBare: flag(bare),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %q of the programs: %w", name, err)
		}
	}
	for m, s := range spec.Maps {
		if n := len(entries[m]); n > 0 {
			s.MaxEntries = uint32(n)
		}
	}
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, bpf.Explain("load the programs that divert packets", bpf.TCXIngress, err)
	}
	for m, list := range entries {
		for key, value := range list {
			if err := loaded.Maps[m].Put([]byte(key), []byte(value)); err != nil {
				loaded.Close()
				return nil, fmt.Errorf("fill map %q: %w", m, err)
			}
		}
	}
	return loaded, nil
}

// over6 reports whether the addresses of outer packets are IPv6.
func (t Tunnel) over6() bool { return len(t.Peers) > 0 && t.Peers[0].Remote.Is6() }

// tables holds the contents of the maps, by their names, as the structures of divert.c.
type tables map[string]map[string]string

// entries returns the contents of the maps, with the indexes of the tunnel's links.
func (t Tunnel) entries(links *bpf.Links) (tables, error) {
	h, err := link.Open()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	gate, err := h.ByName(t.Gate)
	if err != nil {
		return nil, err
	}
	end := number(gate.Index) + string(t.To) + string(gate.MAC)
	e := tables{objectMapWays: {}, objectMapPeers: {}}
	for _, p := range t.Peers {
		for _, a := range []netip.Addr{p.Local, p.Remote} {
			if !a.IsValid() || a.Is6() != t.over6() {
				return nil, fmt.Errorf("tunnel to %s from %s: they are not of one family", p.Remote, p.Local)
			}
		}
		if links.Index(p.Below) == 0 {
			return nil, fmt.Errorf("tunnel to %s by link %q: %w", p.Remote, p.Below, link.ErrNotFound)
		}
		below := number(links.Index(p.Below))
		e[objectMapWays][address(p.Remote)] = below
		e[objectMapPeers][below+address(p.Remote)+address(p.Local)] = end
	}
	return e, nil
}

func number(n int) string { return string(binary.NativeEndian.AppendUint32(nil, uint32(n))) }

// address returns an address in the form of divert.c.
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
	for _, at := range t.places() {
		names = append(names, at.Link)
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

// Check tries the programs on a pair of links in a namespace of its own, which it removes. If something is missing, the
// error is a [linux.UnsupportedError].
func Check() error {
	return bpf.Try(false, func(name string) (io.Closer, error) {
		_, held, err := Add(Tunnel{
			Gate: name, To: make([]byte, 6), Protocol: protocolUDP, Port: 1,
			Peers: []Peer{{
				Below: name, Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2"), // RFC 5737
			}},
		})
		return held, err
	})
}

const protocolUDP = 17 // IANA, Protocol Numbers

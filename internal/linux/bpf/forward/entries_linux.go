package forward

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// tables is what the maps hold, by their names, as the structures of forward.c.
type tables map[string]map[string]string

// entries looks the links of the table up.
func (t Table) entries(links *bpf.Links) (tables, error) {
	e := tables{objectMapContainers4: {}, objectMapContainers6: {}, objectMapRanges4: {}, objectMapRanges6: {}}
	for _, c := range t.Containers {
		index := links.Index(c.Link)
		if index == 0 {
			return nil, fmt.Errorf("forward to link %q: %w", c.Link, link.ErrNotFound)
		}
		value := binary.NativeEndian.AppendUint32(nil, uint32(index))
		for _, mac := range []net.HardwareAddr{c.MAC, c.LinkMAC} {
			if len(mac) != 6 {
				return nil, fmt.Errorf("forward to link %q: invalid MAC address %q", c.Link, mac)
			}
			value = append(value, mac...)
		}
		for _, a := range c.Addresses {
			m := objectMapContainers4
			if a.Is6() {
				m = objectMapContainers6
			}
			e[m][string(a.AsSlice())] = string(value)
		}
	}
	for _, r := range t.Ranges {
		index := links.Index(t.Uplink)
		if index == 0 {
			return nil, fmt.Errorf("forward to %s by link %q: %w", r.To, t.Uplink, link.ErrNotFound)
		}
		if r.Via.Is6() != r.To.Addr().Is6() {
			return nil, fmt.Errorf("forward to %s via %s, which is of the other family", r.To, r.Via)
		}
		m := objectMapRanges4
		if r.To.Addr().Is6() {
			m = objectMapRanges6
		}
		e[m][key(r.To)] = string(append(binary.NativeEndian.AppendUint32(nil, uint32(index)), r.Via.AsSlice()...))
	}
	return e, nil
}

// key is a prefix as a trie has it: its bits, then its address.
func key(p netip.Prefix) string {
	return string(append(binary.NativeEndian.AppendUint32(nil, uint32(p.Bits())), p.Masked().Addr().AsSlice()...))
}

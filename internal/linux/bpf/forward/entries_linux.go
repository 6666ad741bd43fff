package forward

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// tables holds the contents of the maps, by their names, as the structures of forward.c.
type tables map[string]map[string]string

// entries returns the contents of the maps, with the indexes of the table's links.
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
		index := links.Index(r.Link)
		if index == 0 {
			return nil, fmt.Errorf("forward to %s by link %q: %w", r.To, r.Link, link.ErrNotFound)
		}
		if r.Via.Is6() != r.To.Addr().Is6() {
			return nil, fmt.Errorf("forward to %s via %s, which is of the other family", r.To, r.Via)
		}
		m := objectMapRanges4
		if r.To.Addr().Is6() {
			m = objectMapRanges6
		}
		value := binary.NativeEndian.AppendUint32(nil, uint32(index))
		value = append(binary.NativeEndian.AppendUint32(value, uint32(links.MTU(r.Link))), r.Via.AsSlice()...)
		e[m][key(r.To)] = string(tunnel(value, r.Encap))
	}
	return e, nil
}

// key returns a prefix as a key of a trie: its number of bits, then its address.
func key(p netip.Prefix) string {
	return string(append(binary.NativeEndian.AppendUint32(nil, uint32(p.Bits())), p.Masked().Addr().AsSlice()...))
}

// tunnelled is TUNNELLED of forward.c.
const tunnelled = 1 << 31

// tunnel appends the structure of forward.c.
func tunnel(b []byte, e link.Encap) []byte {
	number := binary.NativeEndian.AppendUint32
	var flags uint32
	if e != (link.Encap{}) {
		flags = tunnelled
		if !e.Checksum {
			flags |= unix.BPF_F_ZERO_CSUM_TX
		}
		if e.Remote.Is6() {
			flags |= unix.BPF_F_TUNINFO_IPV6
		}
	}
	b = number(number(b, flags), uint32(e.ID))
	for _, a := range []netip.Addr{e.Remote, e.Local} {
		var words [16]byte
		switch {
		case a.Is4():
			four := a.As4()
			binary.NativeEndian.PutUint32(words[:], binary.BigEndian.Uint32(four[:]))
		case a.Is6():
			words = a.As16()
		}
		b = append(b, words[:]...)
	}
	return b
}

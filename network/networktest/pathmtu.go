package networktest

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/network"
)

// PathMTU gives containers links with the MTU of the underlay, as somebody does who does not know what tunnels add. It
// wants the first pair to learn what fits from the hosts on the way (RFC 1191, RFC 8201): a stream passes in segments
// that fit, and the container's own kernel refuses a datagram that is one byte larger and may not be cut.
//
// Containers whose link has no other end at the host share a device of the host, and can have no larger MTU: there is
// nothing to learn.
func (b *Bed) PathMTU(n network.Network) (err error) {
	for h, ends := range b.Ends {
		for _, e := range ends {
			if e.Namespace == "" || e.Link == "" {
				return nil
			}
			for ns, name := range map[string]string{e.Namespace: e.Inner, "": e.Link} {
				back, gerr := b.Hosts[h].grow(ns, name, b.Lab.Spans[0].MTU)
				if gerr != nil {
					return errors.Join(err, gerr)
				}
				defer func() { err = errors.Join(err, back()) }()
			}
		}
	}
	source, sink := b.ends("src", 0), b.ends("snk", 0)
	for _, family := range b.families() {
		ip := b.Lab.MTU - ipHeader(family)
		err := learn(source, sink, family, ip-udpHeader)
		if err == nil && !translated(n, b.Lab) {
			err = transfer(sink, source, family, portStreamBack, ip-tcpHeader)
		}
		if err == nil {
			err = datagrams(source, sink, family, portForth, whole, ip-udpHeader)
		}
		if err != nil {
			return fmt.Errorf("containers with an MTU of %d bytes on a path of %d, over %s: %w", b.Lab.Spans[0].MTU, b.Lab.MTU,
				family, err)
		}
	}
	return nil
}

// grow sets the MTU of a link, and returns what puts the former one back.
func (m *Machine) grow(ns, name string, mtu int) (back func() error, err error) {
	h, err := m.Kernel.Links(ns)
	if err != nil {
		return nil, err
	}
	var l link.Link
	if l, err = h.ByName(name); err == nil {
		err = h.SetMTU(l.Index, mtu)
	}
	return func() error { return h.SetMTU(l.Index, l.MTU) }, err
}

// learn sends datagrams of one byte more than fits until the source's own kernel refuses them.
func learn(source, sink end, family string, fits int) error {
	out, err := source.udp(source.bind(family, portDiscarding), whole)
	if err != nil {
		return err
	}
	defer out.Close()
	end := time.Now().Add(patience)
	if err := out.SetDeadline(end.Add(patience)); err != nil {
		return err
	}
	for ; ; time.Sleep(patience / 100) {
		_, err := out.WriteToUDPAddrPort(pattern(fits+1, 0), sink.public(family, portDiscarding))
		switch {
		case errors.Is(err, syscall.EMSGSIZE):
			return nil
		case err != nil && !errors.Is(err, syscall.ECONNREFUSED): // it arrives, and nobody listens
			return err
		case time.Now().After(end):
			return fmt.Errorf("nobody told %s in %v that datagrams of %d bytes, which may not be cut, are too large",
				source.name, patience, fits+1)
		}
	}
}

package bpf

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// Hooked is programs that are loaded, with their maps, and hooked to links.
type Hooked struct {
	loaded *ebpf.Collection
	links  *Links
	hooked []io.Closer
}

// Hold returns loaded programs that nothing holds yet. They and the links are closed with what it returns.
func (l *Links) Hold(loaded *ebpf.Collection) *Hooked { return &Hooked{loaded: loaded, links: l} }

// Attach hooks a program to a link, by the names of both, as [Links.Attach] does.
func (h *Hooked) Attach(program string, at Hook, name string, first bool) error {
	index := h.links.Index(name)
	if index == 0 {
		return fmt.Errorf("link %q: %w", name, link.ErrNotFound)
	}
	c, err := h.links.Attach(h.loaded.Programs[program], at, index, first)
	if err != nil {
		return fmt.Errorf("link %q: %w", name, err)
	}
	h.hooked = append(h.hooked, c)
	return nil
}

// Remove takes the programs away from their links and closes everything. It may be called from any thread, more than once, and when the links are gone.
func (h *Hooked) Remove() error {
	if h.links == nil {
		return nil
	}
	var errs []error
	for _, c := range h.hooked {
		errs = append(errs, c.Close())
	}
	h.loaded.Close()
	h.links.Close()
	h.links = nil
	return errors.Join(errs...)
}

// Try hooks programs to a pair of links in a namespace of its own, which is gone afterwards: add is given the name of one, veth or netkit, and returns how to take them away.
func Try(netkit bool, add func(name string) (remove func() error, err error)) error {
	ns, err := netns.New(func() error {
		here, err := netns.Current()
		if err != nil {
			return err
		}
		defer here.Close()
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		const near, far = "near", "far"
		if netkit {
			_, err = h.AddNetkit(link.Netkit{Name: near, PeerName: far, PeerNS: here})
		} else {
			_, err = h.AddVeth(link.Veth{Name: near, PeerName: far, PeerNS: here})
		}
		if err != nil {
			return err
		}
		remove, err := add(near)
		if err != nil {
			return err
		}
		return remove()
	})
	if err != nil {
		return err
	}
	return ns.Close()
}

package bpf

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
)

// Hooked holds programs that this process has loaded, with their maps, and hooked to links.
type Hooked struct {
	loaded   *ebpf.Collection
	links    *Links
	hooked   []io.Closer
	attached []Attachment
}

// Hold takes ownership of loaded programs. Closing the result closes them and the links.
func (l *Links) Hold(loaded *ebpf.Collection) *Hooked { return &Hooked{loaded: loaded, links: l} }

// Attach hooks a program to a link, both given by name, like [Links.Attach].
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
	a := Attachment{Link: name, Index: index}
	if one, ok := c.(attached); ok {
		info, err := one.link.Info()
		if err != nil {
			return fmt.Errorf("link %q: read the number of its program's attachment: %w", name, err)
		}
		a.ID = uint32(info.ID)
	}
	h.attached = append(h.attached, a)
	return nil
}

// Attached lists the hooked programs.
func (h *Hooked) Attached() []Attachment { return h.attached }

// Close removes the programs from their links and closes everything. It may be called from any thread, more than once,
// when the links are gone, and after [Detach].
func (h *Hooked) Close() error {
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

// Detach removes programs from the links of the namespace of the calling thread, whichever process has hooked them. A
// program that is already gone is not an error.
func Detach(list []Attachment) error {
	links, err := Open()
	if err != nil {
		return err
	}
	defer links.Close()
	var errs []error
	for _, a := range list {
		if links.Index(a.Link) != a.Index {
			continue // the link is gone, and another one has its name
		}
		if a.ID == 0 {
			errs = append(errs, classifier{links, a.Index}.Close())
			continue
		}
		c, err := ebpflink.NewFromID(ebpflink.ID(a.ID))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = attached{c}.Close()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("take a program away from link %q: %w", a.Link, err))
		}
	}
	return errors.Join(errs...)
}

// Try hooks programs to a pair of links, veth or netkit, in a namespace of its own, which it removes. add receives the
// name of one link and returns a Closer that removes the programs.
func Try(netkit bool, add func(name string) (io.Closer, error)) error {
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
		held, err := add(near)
		if err != nil {
			return err
		}
		return held.Close()
	})
	if err != nil {
		return err
	}
	return ns.Close()
}

// A Place is a program at a hook of a link.
type Place struct {
	Link, Program string
	Hook          Hook
}

// HoldAt hooks programs of a collection to links, like [Links.Hold] and [Hooked.Attach]. Programs at an ingress come
// first and those at an egress last. So filters on the same hook see packets as hosts see them: before they are
// wrapped, and after they are unwrapped. If it fails, it closes the collection and the links.
func (l *Links) HoldAt(loaded *ebpf.Collection, places []Place) (*Hooked, error) {
	hooked := l.Hold(loaded)
	for _, p := range places {
		if err := hooked.Attach(p.Program, p.Hook, p.Link, p.Hook == TCXIngress); err != nil {
			return nil, errors.Join(err, hooked.Close())
		}
	}
	return hooked, nil
}

// Missing lists the links that do not exist.
func (l *Links) Missing(names ...string) (list []linux.Difference) {
	for _, name := range names {
		if l.Index(name) == 0 {
			list = append(list, linux.Difference{What: "link " + name, Want: linux.Present, Got: linux.Absent})
		}
	}
	return list
}

// ComparePlaces returns the differences in the kernel: programs that are not at their places, and map entries that
// differ from the wanted ones. The wanted entries are given as bytes, by the name of the map. A program has some of the
// maps. The links must exist.
func (l *Links) ComparePlaces(places []Place, want map[string]map[string]string) (list []linux.Difference, err error) {
	for _, at := range places {
		some, err := l.comparePlace(at, want)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func (l *Links) comparePlace(at Place, want map[string]map[string]string) (list []linux.Difference, err error) {
	ids, err := l.Attached(at.Hook, l.Index(at.Link))
	if err != nil {
		return nil, err
	}
	p, err := Find(ids, at.Program)
	if err != nil {
		return nil, err
	}
	if p == nil {
		what := fmt.Sprintf("program %s at %s of %s", at.Program, at.Hook, at.Link)
		return []linux.Difference{{What: what, Want: linux.Present, Got: linux.Absent}}, nil
	}
	defer p.Close()
	for name, entries := range want {
		if p.Maps[name] == nil {
			continue // a map of another program
		}
		some, err := CompareMap(p.Maps[name], name, entries)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

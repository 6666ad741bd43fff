package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
)

// program returns the name of the program for the links of containers, and its hook.
func program(way string) (string, bpf.Hook) {
	switch way {
	case TC:
		return objectProgNettollForward, bpf.Classifier
	case XDP:
		return objectProgNettollXdp, bpf.XDP
	case Netkit:
		return objectProgNettollNetkit, bpf.NetkitPeer
	default:
		return objectProgNettollForward, bpf.TCXIngress
	}
}

// uplink returns the same for an uplink, which carries Ethernet frames or, if bare, none. XDP on an uplink would also
// require an XDP program in the driver at its other end, so the stack does that work instead.
func uplink(way string, bare bool) (name string, hook bpf.Hook, none bool) {
	name = objectProgNettollForward
	if bare {
		name = objectProgNettollBare
	}
	switch way {
	case TC:
		return name, bpf.Classifier, false
	case XDP:
		return "", 0, true
	default:
		return name, bpf.TCXIngress, false
	}
}

// A hooking is a link with the program for it.
type hooking struct {
	link, program string
	hook          bpf.Hook
}

func (t Table) hookings(links *bpf.Links) []hooking {
	name, hook := program(t.Way)
	list := make([]hooking, 0, len(t.Containers)+1)
	for _, c := range t.Containers {
		list = append(list, hooking{c.Link, name, hook})
	}
	for _, link := range t.uplinks() {
		if name, hook, none := uplink(t.Way, links.BareIn(link)); !none {
			list = append(list, hooking{link, name, hook})
		}
	}
	return list
}

// Add loads the programs and the table, in the network namespace of the calling thread, and hooks them to the links,
// after other programs. They stay while held is open and the process lives. Closing held removes everything, from any
// thread, more than once, and even when the links are gone. Another process can remove them with [bpf.Detach]. If the
// kernel lacks something, or a privilege is missing, the error is a [linux.UnsupportedError].
func Add(t Table) (attached []bpf.Attachment, held io.Closer, err error) {
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	links, err := bpf.Open()
	if err != nil {
		return nil, nil, err
	}
	entries, err := t.entries(links)
	if err != nil {
		links.Close()
		return nil, nil, err
	}
	loaded, err := load(t.hookings(links), entries)
	if err != nil {
		links.Close()
		return nil, nil, err
	}
	hooked := links.Hold(loaded)
	for _, h := range t.hookings(links) {
		if err := hooked.Attach(h.program, h.hook, h.link, false); err != nil {
			return nil, nil, errors.Join(err, hooked.Close())
		}
	}
	return hooked.Attached(), hooked, nil
}

// load loads the programs to hook, with maps that hold the entries.
func load(hookings []hooking, entries tables) (*ebpf.Collection, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the programs: %w", err)
	}
	for p := range spec.Programs {
		if !slices.ContainsFunc(hookings, func(h hooking) bool { return h.program == p }) {
			delete(spec.Programs, p) // this kernel may not know its type
		}
	}
	for m, s := range spec.Maps {
		s.MaxEntries = uint32(max(1, len(entries[m])))
	}
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		hook := bpf.TCXIngress
		if len(hookings) > 0 {
			hook = hookings[0].hook // the hook for containers
		}
		return nil, bpf.Explain("load the programs that forward", hook, err)
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

// Compare returns the differences between the kernel and the table: the programs at the links of the namespace of the
// calling thread, and the entries of their maps.
func Compare(t Table) ([]linux.Difference, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	links, err := bpf.Open()
	if err != nil {
		return nil, err
	}
	defer links.Close()
	var differences []linux.Difference
	differ := func(what, want, got string) {
		differences = append(differences, linux.Difference{What: what, Want: want, Got: got})
	}
	found := map[string]*bpf.Program{}
	defer func() {
		for _, p := range found {
			p.Close()
		}
	}()
	for _, h := range t.hookings(links) {
		index := links.Index(h.link)
		if index == 0 {
			differ("link "+h.link, linux.Present, linux.Absent)
			continue
		}
		ids, err := links.Attached(h.hook, index)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("program %s at %s of %s", h.program, h.hook, h.link)
		p := found[h.program]
		if p == nil {
			if p, err = bpf.Find(ids, h.program); err != nil {
				return nil, err
			}
			if p != nil {
				found[h.program] = p
			}
		}
		switch {
		case p == nil:
			differ(what, linux.Present, linux.Absent)
		case !p.Has(ids):
			differ(what, fmt.Sprintf("number %d", p.ID), fmt.Sprintf("%d others", len(ids)))
		}
	}
	if len(differences) > 0 {
		return differences, nil // the entries name links that may be gone
	}
	entries, err := t.entries(links)
	if err != nil {
		return nil, err
	}
	name, _ := program(t.Way)
	if p := found[name]; p != nil {
		for m, want := range entries {
			list, err := compare(p.Maps[m], m, want)
			if err != nil {
				return nil, err
			}
			differences = append(differences, list...)
		}
	}
	return differences, nil
}

// compare reads a map and compares it.
func compare(m *ebpf.Map, name string, want map[string]string) ([]linux.Difference, error) {
	if m == nil {
		return nil, nil // the program for this method does not use the map
	}
	var list []linux.Difference
	seen := map[string]bool{}
	key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	i := m.Iterate()
	for i.Next(&key, &value) {
		seen[string(key)] = true
		what := fmt.Sprintf("entry %s of map %s", address(key), name)
		if w, ok := want[string(key)]; !ok {
			list = append(list, linux.Difference{What: what, Want: linux.Absent, Got: linux.Present})
		} else if w != string(value) {
			list = append(list, linux.Difference{What: what, Want: fmt.Sprintf("%x", w), Got: fmt.Sprintf("%x", value)})
		}
	}
	if err := i.Err(); err != nil {
		return nil, fmt.Errorf("read map %q: %w", name, err)
	}
	for k := range want {
		if !seen[k] {
			list = append(list, linux.Difference{
				What: fmt.Sprintf("entry %s of map %s", address([]byte(k)), name), Want: linux.Present, Got: linux.Absent,
			})
		}
	}
	return list, nil
}

// address returns the address at the end of a key.
func address(key []byte) netip.Addr {
	n := 4
	if len(key) >= 16 {
		n = 16
	}
	a, _ := netip.AddrFromSlice(key[len(key)-n:])
	return a
}

// Forwarded returns how many packets the programs at the links of the table have sent on, in the network namespace of
// the calling thread; false if none of them is there. A large segment is one packet.
func Forwarded(t Table) (n uint64, ok bool, err error) {
	if err := t.check(); err != nil {
		return 0, false, err
	}
	links, err := bpf.Open()
	if err != nil {
		return 0, false, err
	}
	defer links.Close()
	for _, h := range t.hookings(links) { // all of them count in one map
		index := links.Index(h.link)
		if index == 0 {
			continue
		}
		ids, err := links.Attached(h.hook, index)
		if err != nil {
			return 0, false, err
		}
		p, err := bpf.Find(ids, h.program)
		if err != nil {
			return 0, false, err
		}
		if p == nil {
			continue
		}
		n, err := sum(p.Maps[objectMapForwarded])
		p.Close()
		return n, err == nil, err
	}
	return 0, false, nil
}

// sum returns the sum of a counter over the CPUs.
func sum(m *ebpf.Map) (n uint64, err error) {
	var byCPU []uint64
	if err := m.Lookup(uint32(0), &byCPU); err != nil {
		return 0, fmt.Errorf("read map %q: %w", objectMapForwarded, err)
	}
	for _, on := range byCPU {
		n += on
	}
	return n, nil
}

// Check tries a method on a pair of links in a namespace of its own, which it removes. If something is missing, the
// error is a [linux.UnsupportedError].
func Check(way string) error {
	return bpf.Try(way == Netkit, func(name string) (io.Closer, error) {
		mac := make(net.HardwareAddr, 6)
		_, held, err := Add(Table{Way: way, Containers: []Container{{Link: name, MAC: mac, LinkMAC: mac}}})
		return held, err
	})
}

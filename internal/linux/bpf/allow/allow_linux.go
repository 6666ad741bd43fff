package allow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
	"github.com/nettoll/nettoll/internal/linux/link"
)

const (
	// spare is the room for rules that are added to a list.
	spare = 64
	// maxFlows is the largest number of known flows, of both families together. A new flow replaces the one that was
	// quiet for longest.
	maxFlows = 1 << 16
)

// Add loads the program and its list, in the network namespace of the calling thread, and hooks it to the links, before
// other programs. The program stays while held is open and the process lives. Closing held removes everything, from any
// thread, more than once, and even when the links are gone. Another process can remove it with [bpf.Detach]. If the
// kernel or the privileges lack something, the error is a [linux.UnsupportedError].
func Add(l List) (attached []bpf.Attachment, held io.Closer, err error) {
	if err := l.check(); err != nil {
		return nil, nil, err
	}
	links, err := bpf.Open()
	if err != nil {
		return nil, nil, err
	}
	bound, err := l.bindings(links)
	if err != nil {
		links.Close()
		return nil, nil, err
	}
	loaded, err := load(l, bound, links)
	if err != nil {
		links.Close()
		return nil, nil, err
	}
	hooked := links.Hold(loaded)
	for _, p := range l.places(links) {
		if err := vacant(links, p); err != nil {
			return nil, nil, errors.Join(err, hooked.Close())
		}
		if err := hooked.Attach(p.Program, p.Hook, p.Link, true); err != nil {
			return nil, nil, errors.Join(err, hooked.Close())
		}
	}
	return hooked.Attached(), hooked, nil
}

// places returns where the programs are: one at the ingress of each link, and another at the egress of those that have
// a binding.
func (l List) places(links *bpf.Links) []bpf.Place {
	list := make([]bpf.Place, 0, len(l.Links)+len(l.Bound))
	for _, name := range l.Links {
		list = append(list, bpf.Place{Link: name, Program: program(links, name), Hook: bpf.TCXIngress})
	}
	for _, b := range l.Bound {
		list = append(list, bpf.Place{Link: b.Link, Program: objectProgNettollToward, Hook: bpf.TCXEgress})
	}
	return list
}

// program returns the name of that for the ingress of a link.
func program(links *bpf.Links, link string) string {
	if links.Bare(link) {
		return objectProgNettollFilter3
	}
	return objectProgNettollFilter
}

// vacant wants no program of a filter at a place.
func vacant(links *bpf.Links, at bpf.Place) error {
	index := links.Index(at.Link)
	if index == 0 {
		return fmt.Errorf("filter at link %q: %w", at.Link, link.ErrNotFound)
	}
	ids, err := links.Attached(at.Hook, index)
	if err != nil {
		return fmt.Errorf("link %q: %w", at.Link, err)
	}
	p, err := bpf.Find(ids, at.Program)
	if err != nil {
		return fmt.Errorf("link %q: %w", at.Link, err)
	}
	if p != nil {
		p.Close()
		return fmt.Errorf("link %q has a filter already", at.Link)
	}
	return nil
}

// load loads the programs with maps that hold the list.
func load(l List, bound bindings, links *bpf.Links) (*ebpf.Collection, error) {
	v4, v6, err := l.entries()
	if err != nil {
		return nil, err
	}
	addresses, macs, err := itself()
	if err != nil {
		return nil, err
	}
	layers, err := l.layers(links)
	if err != nil {
		return nil, err
	}
	spec, err := specify(l, links, nil)
	if err != nil {
		return nil, err
	}
	for name, n := range map[string]int{
		objectMapRules4: len(v4.pairs) + spare, objectMapRules6: len(v6.pairs) + spare,
		objectMapSources4: len(v4.sources) + spare, objectMapSources6: len(v6.sources) + spare,
		objectMapOwn: len(addresses) + spare, objectMapOwnLinks: len(macs) + spare,
		objectMapBindings: max(1, len(bound.links)), objectMapLayers: max(1, len(layers)),
	} {
		spec.Maps[name].MaxEntries = uint32(n)
	}
	if l.Stateful {
		spec.Maps[objectMapFlows].MaxEntries = maxFlows
	}
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, bpf.Explain("load the program that filters", bpf.TCXIngress, err)
	}
	m := loaded.Maps
	if err := errors.Join(
		fill(m[objectMapSources4], v4.sources, v4.numbers), fill(m[objectMapSources6], v6.sources, v6.numbers),
		fill(m[objectMapRules4], v4.pairs, v4.ports), fill(m[objectMapRules6], v6.pairs, v6.ports),
		fill(m[objectMapOwn], addresses, make([]byte, len(addresses))),
		fill(m[objectMapOwnLinks], macs, make([]byte, len(macs))),
		fill(m[objectMapBindings], bound.links, bound.values),
		fill(m[objectMapLayers], layers, make([]byte, len(layers))),
	); err != nil {
		loaded.Close()
		return nil, fmt.Errorf("fill the list: %w", err)
	}
	return loaded, nil
}

// specify returns the programs for a way to look into a list, with its rules and more where they are compiled. Those
// that no link has are left out: the one for links without frames, and the one for what leaves by a bound link.
func specify(l List, links *bpf.Links, more []Rule) (*ebpf.CollectionSpec, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	ways := map[string]uint8{Hash: 0, LPM: 1, Program: 2}
	on := map[bool]uint8{true: 1}
	var uplink uint32
	if l.Uplink != "" {
		found, err := net.InterfaceByName(l.Uplink)
		if err != nil {
			return nil, fmt.Errorf("link %q: %w", l.Uplink, err)
		}
		uplink = uint32(found.Index)
	}
	if err := errors.Join(
		spec.Variables[objectVarUplink].Set(uplink), spec.Variables[objectVarFrames].Set(l.EtherType),
		spec.Variables[objectVarLayered].Set(on[len(l.Layers) > 0]),
		spec.Variables[objectVarWay].Set(ways[l.Way]), spec.Variables[objectVarStateful].Set(on[l.Stateful]),
		spec.Variables[objectVarOneLink].Set(on[l.OneLink]),
		spec.Variables[objectVarAntispoof].Set(on[l.Bound != nil]),
	); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(l.Links, links.Bare) {
		delete(spec.Programs, objectProgNettollFilter3)
	}
	if len(l.Bound) == 0 {
		delete(spec.Programs, objectProgNettollToward)
	}
	if l.Way == Program {
		err = l.compile(spec, more)
	}
	return spec, err
}

// layers returns the indexes of the links of that name.
func (l List) layers(links *bpf.Links) (list []uint32, err error) {
	for _, name := range l.Layers {
		index := links.Index(name)
		if index == 0 {
			return nil, fmt.Errorf("packets of other hosts by link %q: %w", name, link.ErrNotFound)
		}
		list = append(list, uint32(index))
	}
	return list, nil
}

// bindings are what the map of that name holds.
type bindings struct {
	links  []uint32
	values []binding
}

// binding is a structure of allow.c.
type binding struct {
	V6, Local  [16]byte
	V4         [4]byte
	MAC        [6]byte
	Free, Zero uint8
}

// bindings returns the bindings of a list, by the indexes of its links.
func (l List) bindings(links *bpf.Links) (b bindings, err error) {
	if l.Bound == nil {
		return b, nil
	}
	of := map[string]Binding{}
	for _, one := range l.Bound {
		of[one.Link] = one
	}
	for _, name := range l.Links {
		value := binding{Free: 1}
		if one, ok := of[name]; ok {
			value = binding{V6: one.IPv6.As16(), Local: one.Local.As16(), V4: one.IPv4.As4(), MAC: one.MAC}
		}
		index := links.Index(name)
		if index == 0 {
			return b, fmt.Errorf("bind addresses to link %q: %w", name, link.ErrNotFound)
		}
		b.links, b.values = append(b.links, uint32(index)), append(b.values, value)
	}
	return b, nil
}

type (
	ownAddress struct {
		Address [16]byte
		V6      uint32
	}
	ownLink [8]byte
)

// itself returns the addresses of the host, and the MAC addresses of its links.
func itself() (addresses []ownAddress, macs []ownLink, err error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, nil, fmt.Errorf("list links: %w", err)
	}
	seen := map[ownLink]bool{}
	for _, i := range list {
		var mac ownLink
		if copy(mac[:], i.HardwareAddr) == 6 && !seen[mac] {
			seen[mac] = true
			macs = append(macs, mac)
		}
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, nil, fmt.Errorf("list addresses: %w", err)
	}
	known := map[ownAddress]bool{}
	for _, one := range all {
		p, err := netip.ParsePrefix(one.String())
		if err != nil {
			return nil, nil, fmt.Errorf("list addresses: %w", err)
		}
		a := ownKey(p.Addr())
		if !known[a] {
			known[a] = true
			addresses = append(addresses, a)
		}
	}
	return addresses, macs, nil
}

func ownKey(a netip.Addr) (k ownAddress) {
	copy(k.Address[:], a.AsSlice())
	if a.Is6() {
		k.V6 = 1
	}
	return k
}

// programs are those at the links of a list, by their names.
type programs map[string]*bpf.Program

// frames is the one for links that carry Ethernet frames, which all containers have; nil if it is at none of them.
func (p programs) frames() *bpf.Program { return p[objectProgNettollFilter] }

// others are the other programs, by their names. They share its maps.
func (p programs) others() iter.Seq2[string, *bpf.Program] {
	return func(yield func(string, *bpf.Program) bool) {
		for _, name := range []string{objectProgNettollFilter3, objectProgNettollToward} {
			if one := p[name]; one != nil && !yield(name, one) {
				return
			}
		}
	}
}

func (p programs) close() {
	for _, one := range p {
		one.Close()
	}
}

// find finds the programs at the links of a list, and what of them is not where it should be. The caller closes them.
func find(l List, links *bpf.Links) (found programs, missing []linux.Difference, err error) {
	if err := l.check(); err != nil {
		return nil, nil, err
	}
	found = programs{}
	for _, at := range l.places(links) {
		index, program := links.Index(at.Link), at.Program
		if index == 0 {
			missing = append(missing, linux.Difference{What: "link " + at.Link, Want: linux.Present, Got: linux.Absent})
			continue
		}
		ids, err := links.Attached(at.Hook, index)
		if err == nil && found[program] == nil {
			var p *bpf.Program
			if p, err = bpf.Find(ids, program); p != nil {
				found[program] = p
			}
		}
		if err != nil {
			found.close()
			return nil, nil, err
		}
		if what := fmt.Sprintf("program %s, the first at %s of %s", program, at.Hook,
			at.Link); found[program] == nil || !found[program].Has(ids) {
			missing = append(missing, linux.Difference{What: what, Want: linux.Present, Got: linux.Absent})
		} else if id := found[program].ID; ids[0] != id {
			missing = append(missing, linux.Difference{
				What: what, Want: fmt.Sprintf("number %d", id), Got: fmt.Sprintf("number %d", ids[0]),
			})
		}
	}
	return found, missing, nil
}

// with calls f with the programs that find finds and the links of the namespace of the calling thread, if there is one
// for links with frames: otherwise it is an error about what is done.
func with(l List, what string, f func(p programs, links *bpf.Links) error) error {
	links, err := bpf.Open()
	if err != nil {
		return err
	}
	defer links.Close()
	p, _, err := find(l, links)
	if err != nil {
		return err
	}
	defer p.close()
	if p.frames() == nil {
		return fmt.Errorf("%s: no program %s at any link", what, objectProgNettollFilter)
	}
	return f(p, links)
}

// Compare returns in what the kernel differs from the list: where the programs are in the namespace of the calling
// thread, and the entries of their maps.
func Compare(l List) ([]linux.Difference, error) {
	links, err := bpf.Open()
	if err != nil {
		return nil, err
	}
	defer links.Close()
	all, list, err := find(l, links)
	if err != nil {
		return nil, err
	}
	defer all.close()
	p := all.frames()
	if p == nil {
		return list, nil
	}
	spec, err := specify(l, links, nil)
	if err != nil {
		return nil, err
	}
	for name := range spec.Maps {
		if p.Maps[name] == nil {
			list = append(list, linux.Difference{
				What: "map " + name + " of the program", Want: linux.Present, Got: linux.Absent,
			})
		}
	}
	if len(list) > 0 { // another program with the same name
		return list, nil
	}
	for _, compare := range []func() ([]linux.Difference, error){
		func() ([]linux.Difference, error) { return compareShared(all) },
		func() ([]linux.Difference, error) { return compareConstants(p, spec) },
		func() ([]linux.Difference, error) { return compareOwn(p) },
		func() ([]linux.Difference, error) { return compareLists(p, l) },
		func() ([]linux.Difference, error) { return compareLinks(p, l, links) },
	} {
		differences, err := compare()
		if err != nil {
			return nil, err
		}
		list = append(list, differences...)
	}
	return list, nil
}

// compareConstants compares the constants that were set before the program was loaded, including the digest of compiled
// rules.
func compareConstants(p *bpf.Program, spec *ebpf.CollectionSpec) ([]linux.Difference, error) {
	m := p.Maps[constants]
	want, got := make([]byte, m.ValueSize()), make([]byte, m.ValueSize())
	for _, v := range spec.Variables {
		if int(v.Offset)+len(v.Value) <= len(want) {
			copy(want[v.Offset:], v.Value)
		}
	}
	if err := m.Lookup(uint32(0), got); err != nil {
		return nil, fmt.Errorf("read map %q: %w", constants, err)
	}
	if !bytes.Equal(want, got) {
		return []linux.Difference{{What: "rules of the program", Want: fmt.Sprintf("%x", want), Got: fmt.Sprintf("%x", got)}},
			nil
	}
	return nil, nil
}

// constants is the name of the map that the loader makes from them.
const constants = ".rodata"

func compareLists(p *bpf.Program, l List) ([]linux.Difference, error) {
	v4, v6, err := l.entries()
	if err != nil {
		return nil, err
	}
	four, err := v4.compare(p, objectMapRules4, objectMapSources4)
	if err != nil {
		return nil, err
	}
	six, err := v6.compare(p, objectMapRules6, objectMapSources6)
	return append(four, six...), err
}

func (e entries[A]) compare(p *bpf.Program, pairs, sources string) ([]linux.Difference, error) {
	list, err := differ(pairs, p.Maps[pairs], e.pairs, e.ports)
	if err != nil {
		return nil, err
	}
	more, err := differ(sources, p.Maps[sources], e.sources, e.numbers)
	return append(list, more...), err
}

// compareLinks compares what is bound to links, and which are layers.
func compareLinks(p *bpf.Program, l List, links *bpf.Links) ([]linux.Difference, error) {
	b, err := l.bindings(links)
	if err != nil {
		return nil, err
	}
	layers, err := l.layers(links)
	if err != nil {
		return nil, err
	}
	bound, err := differ(objectMapBindings, p.Maps[objectMapBindings], b.links, b.values)
	if err != nil {
		return nil, err
	}
	others, err := differ(objectMapLayers, p.Maps[objectMapLayers], layers, make([]byte, len(layers)))
	return append(bound, others...), err
}

// compareShared wants the maps of the other programs to be those of the program for links with frames.
func compareShared(p programs) (list []linux.Difference, err error) {
	for program, other := range p.others() {
		if other.Maps[objectMapCounters] == nil { // another program with the same name
			list = append(list, linux.Difference{
				What: fmt.Sprintf("map %s of program %s", objectMapCounters, program), Want: linux.Present, Got: linux.Absent,
			})
		}
		for name, m := range other.Maps {
			got, err := m.Info()
			if err != nil {
				return nil, fmt.Errorf("read map %q: %w", name, err)
			}
			number, _ := got.ID()
			want := "none"
			if same := p.frames().Maps[name]; same != nil {
				info, err := same.Info()
				if err != nil {
					return nil, fmt.Errorf("read map %q: %w", name, err)
				}
				id, _ := info.ID()
				want = fmt.Sprintf("number %d", id)
			}
			if got := fmt.Sprintf("number %d", number); got != want {
				list = append(list, linux.Difference{
					What: fmt.Sprintf("map %s of program %s", name, program), Want: want, Got: got,
				})
			}
		}
	}
	return list, nil
}

// compareOwn lists addresses that the program accepts as the host's, but that are not.
func compareOwn(p *bpf.Program) (list []linux.Difference, err error) {
	addresses, macs, err := itself()
	if err != nil {
		return nil, err
	}
	a, err := all[ownAddress, byte](p.Maps[objectMapOwn])
	if err != nil {
		return nil, err
	}
	m, err := all[ownLink, byte](p.Maps[objectMapOwnLinks])
	if err != nil {
		return nil, err
	}
	for _, own := range addresses {
		delete(a, own)
	}
	for _, own := range macs {
		delete(m, own)
	}
	for k := range a {
		list = append(list, linux.Difference{
			What: fmt.Sprintf("entry %v of map %s", k, objectMapOwn), Want: linux.Absent, Got: linux.Present,
		})
	}
	for k := range m {
		list = append(list, linux.Difference{
			What: fmt.Sprintf("entry %v of map %s", k, objectMapOwnLinks), Want: linux.Absent, Got: linux.Present,
		})
	}
	return list, nil
}

// UpdateRule adds a rule to the loaded ones, or removes an added one. Each packet is decided by the old or by the new
// list.
func UpdateRule(l List, r Rule, allow bool) error {
	return with(l, "change a rule", func(p programs, links *bpf.Links) (err error) {
		if r.Sink.Is6() {
			err = change[[16]byte](p.frames(), l, r, allow, objectMapRules6, objectMapSources6)
		} else {
			err = change[[4]byte](p.frames(), l, r, allow, objectMapRules4, objectMapSources4)
		}
		if err != nil || l.Way != Program {
			return err
		}
		return replace(p, l, links)
	})
}

func change[A address](p *bpf.Program, l List, r Rule, allow bool, pairs, sources string) error {
	key := pair[A]{of[A](r.Source), of[A](r.Sink)}
	if l.Way == LPM {
		number, err := numberOf(p.Maps[sources], key.Source, allow)
		if err != nil {
			return err
		}
		key.Source = numbered[A](number)
	}
	m := p.Maps[pairs]
	var v ports
	if err := m.Lookup(key, &v); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("change %s to %s: %w", r.Source, r.Sink, err)
	}
	one := r.ports()
	switch {
	case allow:
		if !v.add(one) {
			return tooMany(r)
		}
		return m.Put(key, v)
	case !v.remove(one):
		return fmt.Errorf("remove the rule for %s to %s, ports %d to %d: not found", r.Source, r.Sink, r.First, r.Last)
	case v.N > 0:
		return m.Put(key, v)
	}
	return m.Delete(key)
}

// numberOf returns the number of a source. If the source has none and give is true, it assigns one.
func numberOf[A address](m *ebpf.Map, source A, give bool) (number uint32, err error) {
	err = m.Lookup(whole(source), &number)
	if !errors.Is(err, ebpf.ErrKeyNotExist) || !give {
		return number, err
	}
	known, err := all[prefix[A], uint32](m)
	if err != nil {
		return 0, err
	}
	for _, n := range known {
		number = max(number, n)
	}
	number++
	return number, m.Put(whole(source), number)
}

// Memory returns what the programs and their maps take, in bytes.
func Memory(l List) (sum int64, err error) {
	err = with(l, "read the memory", func(p programs, _ *bpf.Links) (err error) {
		if sum, err = p.frames().Memory(); err != nil {
			return err
		}
		for _, other := range p.others() {
			alone := *other
			alone.Maps = nil // they are those of the first
			more, err := alone.Memory()
			if err != nil {
				return err
			}
			sum += more
		}
		return nil
	})
	return sum, err
}

// Flows returns the flows that pass without a rule, because they were answered and still stand.
func Flows(l List) (list []conntrack.Flow, err error) {
	err = with(l, "list flows", func(p programs, _ *bpf.Links) error {
		entries, err := all[flowKey, flow](p.frames().Maps[objectMapFlows])
		if err != nil {
			return fmt.Errorf("list flows: %w", err)
		}
		now := uint32(clock.Now() / 1e9)
		for k, f := range entries {
			// the coarse clock of the program is a little behind
			if f.Replied != 0 && (f.Seen > now || now-f.Seen <= f.lifetime(k.Protocol)) {
				list = append(list, k.tracked(f))
			}
		}
		return nil
	})
	return list, err
}

// Read returns what was counted since the programs were loaded.
func Read(l List) (c Counters, err error) {
	err = with(l, "read counters", func(p programs, _ *bpf.Links) error {
		for i, n := range []*uint64{&c.Allowed, &c.Refused} {
			var each []uint64
			key := binary.NativeEndian.AppendUint32(nil, uint32(i))
			if err := p.frames().Maps[objectMapCounters].Lookup(key, &each); err != nil {
				return fmt.Errorf("read counters: %w", err)
			}
			for _, v := range each {
				*n += v
			}
		}
		return nil
	})
	return c, err
}

// Check tries a lookup method on a pair of links in a namespace of its own, which it removes. If something is missing,
// the error is a [linux.UnsupportedError].
func Check(way string, stateful, antispoof bool) error {
	return bpf.Try(false, func(name string) (io.Closer, error) {
		l := List{Way: way, Stateful: stateful, Links: []string{name}, Rules: func(bool) iter.Seq[Rule] {
			return func(func(Rule) bool) {}
		}}
		if antispoof {
			l.Bound = []Binding{{
				Link: name, IPv4: netip.IPv4Unspecified(), IPv6: netip.IPv6Unspecified(), Local: netip.IPv6Unspecified(),
			}}
		}
		_, held, err := Add(l)
		return held, err
	})
}

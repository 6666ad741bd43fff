package allow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/conntrack"
)

// An address is an address of either family as it is in packets.
type address interface{ [4]byte | [16]byte }

// The structures of allow.c.
type (
	pair[A address] struct{ Source, Sink A }

	prefix[A address] struct {
		Bits    uint32
		Address A
	}

	portRange struct{ First, Last, SourceFirst, SourceLast uint16 }

	ports struct {
		N     uint32
		Range [maxRanges]portRange
	}
)

// flowKey and flow are the structures flow_key and flow of allow.c.
type (
	flowKey struct {
		A, B         [16]byte
		PortA, PortB uint16
		Protocol, V6 uint8
		Zero         uint16
	}

	flow struct {
		Seen                           uint32
		Opener, Replied, Closing, Zero uint8
	}
)

// lifetime is how long the flow stands in which nothing is said, in s, as in allow.c. It was answered.
func (f flow) lifetime(protocol uint8) uint32 {
	switch {
	case protocol == unix.IPPROTO_TCP && f.Closing == 0:
		return 5 * 24 * 3600 // TCP_REPLIED
	}
	return 120 // TCP_CLOSING, UDP_REPLIED
}

// tracked is the flow as others track connections.
func (k flowKey) tracked(f flow) conntrack.Flow {
	end := func(a [16]byte, port uint16) netip.AddrPort {
		if k.Protocol != unix.IPPROTO_TCP && k.Protocol != unix.IPPROTO_UDP {
			port = 0 // the number of an echo
		}
		if k.V6 == 0 {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[:4])), port)
		}
		return netip.AddrPortFrom(netip.AddrFrom16(a), port)
	}
	way := conntrack.Way{Source: end(k.A, k.PortA), Destination: end(k.B, k.PortB)}
	back := conntrack.Way{Source: way.Destination, Destination: way.Source}
	if f.Opener != 0 {
		way, back = back, way
	}
	return conntrack.Flow{Protocol: k.Protocol, Original: way, Reply: back, Answered: true}
}

// maxRanges is RANGES of allow.c.
const maxRanges = 8

func (r Rule) ports() portRange { return portRange{r.First, r.Last, r.SourceFirst, r.SourceLast} }

// add adds a range, and reports whether there was room.
func (p *ports) add(r portRange) bool {
	if p.N == maxRanges {
		return false
	}
	p.Range[p.N] = r
	p.N++
	return true
}

// remove removes a range, and reports whether it was there.
func (p *ports) remove(r portRange) bool {
	for i := range p.Range[:p.N] {
		if p.Range[i] == r {
			p.N--
			p.Range[i], p.Range[p.N] = p.Range[p.N], portRange{}
			return true
		}
	}
	return false
}

// has reports whether a range is there.
func (p *ports) has(r portRange) bool {
	q := *p
	return q.remove(r)
}

// entries holds the contents of the maps of a family: each pair with its ports, and with LPM each source with its
// number.
type entries[A address] struct {
	pairs   []pair[A]
	ports   []ports
	sources []prefix[A]
	numbers []uint32
}

// of returns an address as it is in packets.
func of[A address](a netip.Addr) (to A) {
	switch to := any(&to).(type) {
	case *[4]byte:
		*to = a.As4()
	case *[16]byte:
		*to = a.As16()
	}
	return to
}

// whole returns an address as a key of a trie.
func whole[A address](a A) prefix[A] {
	return prefix[A]{Bits: uint32(unsafe.Sizeof(a)) * 8, Address: a}
}

// numbered returns the number of a source in place of its address.
func numbered[A address](number uint32) (to A) {
	switch to := any(&to).(type) {
	case *[4]byte:
		binary.NativeEndian.PutUint32(to[:], number)
	case *[16]byte:
		binary.NativeEndian.PutUint32(to[:], number)
	}
	return to
}

// entries returns the contents of the maps. For compiled rules, these are the rules that were added later.
func (l List) entries() (v4 entries[[4]byte], v6 entries[[16]byte], err error) {
	if l.Way == Program {
		return v4, v6, nil
	}
	if v4, err = newEntries[[4]byte](l.Way, l.Rules(false)); err != nil {
		return v4, v6, err
	}
	v6, err = newEntries[[16]byte](l.Way, l.Rules(true))
	return v4, v6, err
}

// newEntries returns the contents of the maps of a family for rules.
func newEntries[A address](way string, rules iter.Seq[Rule]) (e entries[A], err error) {
	known := map[pair[A]]int{}
	numbers := map[A]uint32{}
	for r := range rules {
		p := pair[A]{of[A](r.Source), of[A](r.Sink)}
		if way == LPM {
			number, ok := numbers[p.Source]
			if !ok {
				number = uint32(len(numbers) + 1)
				numbers[p.Source] = number
				e.sources, e.numbers = append(e.sources, whole(p.Source)), append(e.numbers, number)
			}
			p.Source = numbered[A](number)
		}
		i, ok := known[p]
		if !ok {
			i = len(e.pairs)
			known[p] = i
			e.pairs, e.ports = append(e.pairs, p), append(e.ports, ports{})
		}
		if ports := r.ports(); !e.ports[i].has(ports) && !e.ports[i].add(ports) {
			return e, tooMany(r)
		}
	}
	return e, nil
}

func tooMany(r Rule) error {
	return fmt.Errorf("list %s to %s: a pair has more than %d ranges of ports (hint: filter nftables takes more)",
		r.Source, r.Sink, maxRanges)
}

// fill writes entries to a map.
func fill[K, V any](m *ebpf.Map, keys []K, values []V) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := m.BatchUpdate(keys, values, nil)
	if errors.Is(err, ebpf.ErrNotSupported) { // before Linux 5.6, or for a kind of map without batches
		for i := range keys {
			if err := m.Put(keys[i], values[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return err
}

// chunk is the number of entries that are read at a time.
const chunk = 4096

// all reads all entries of a map.
func all[K comparable, V any](m *ebpf.Map) (map[K]V, error) {
	list := map[K]V{}
	keys, values := make([]K, chunk), make([]V, chunk)
	var at ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&at, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, err
		}
		for i := range n {
			list[keys[i]] = values[i]
		}
		if err != nil {
			return list, nil //nolint:nilerr // it was the last
		}
	}
}

// differ compares the contents of a map with the wanted ones.
func differ[K comparable, V comparable](name string, m *ebpf.Map, keys []K, values []V) ([]linux.Difference, error) {
	got, err := all[K, V](m)
	if err != nil {
		return nil, fmt.Errorf("read map %q: %w", name, err)
	}
	var list []linux.Difference
	for i, k := range keys {
		v, ok := got[k]
		if !ok {
			list = append(list, linux.Difference{
				What: fmt.Sprintf("entry %v of map %s", k, name), Want: linux.Present, Got: linux.Absent,
			})
		} else if v != values[i] {
			list = append(list, linux.Difference{
				What: fmt.Sprintf("entry %v of map %s", k, name), Want: fmt.Sprint(values[i]), Got: fmt.Sprint(v),
			})
		}
		delete(got, k)
	}
	for k := range got {
		list = append(list, linux.Difference{
			What: fmt.Sprintf("entry %v of map %s", k, name), Want: linux.Absent, Got: linux.Present,
		})
	}
	return list, nil
}

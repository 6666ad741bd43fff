package carriertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/ethtool"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/stack"
)

// underlayMTU is that of the labs of [Between] in bytes: the MTU of containers is what docs/between.md says.
const underlayMTU = 1500

// Between runs the suite on carriers that stand on each other, the uppermost first, under a network. All checks but the
// last two share one lab of two hosts, and each is a subtest:
//
//   - packets: echoes, datagrams of 28 bytes, of the full MTU and of 65,507 bytes, which are cut, and a stream pass in
//     both families and both directions, and one byte more than the MTU is refused. A host of the lab sends whole what
//     its span takes, is refused one byte more, and sends that in fragments if it may.
//   - wire: those datagrams pass the underlay in frames of the lowest carrier's protocol, whose length is that of the
//     overheads of all. Nothing in any frame, those of fragments, streams and answers included, can be read.
//   - way: packets went to the neighbours in the plan, and every device counted them.
//   - path MTU: containers whose MTU is that of the underlay learn what fits.
//   - route around: host 1 has a route to the containers of host 2 over the underlay. Verify notices it. What passes
//     then can be read on the underlay, or is still encrypted: eBPF may redirect packets without asking for a route.
//   - undo: all is gone, without a trace.
//   - null cipher: a device that does not encrypt has the name and the addresses of the encryption's. Verify notices
//     it, and what passes then can be read. Undoing what was tampered with succeeds. An encryption without a device, as
//     IPsec in transport mode is, has no such check.
//   - other key: host 2 has another secret than host 1. Verify notices it, or nothing passes; nothing can be read.
//
// The last two have labs of their own, and are left out if no carrier encrypts. So is the last one without keys: it
// waits long for what must not come, and what it shows does not depend on the network. Between returns the lab,
// composed, and whether it stood.
func Between(t *testing.T, n network.Network, between stack.Stack, keys bool) (lab network.Lab, stood bool) {
	lab = networktest.Lab(2, 1)
	lab.MTU = underlayMTU
	lab, err := network.Compose(lab, between)
	if err != nil {
		t.Error(err)
		return lab, false
	}
	lab.Params, err = n.Describe().Params.Resolve("network "+n.Describe().Name, nil)
	if err != nil {
		t.Error(err)
		return lab, false
	}
	s := &composed{network: n, lab: lab}
	if !s.shared(t) {
		return lab, false
	}
	if !s.hidden() {
		return lab, true
	}
	if s.device() {
		t.Run("null cipher", func(t *testing.T) { report(t, s.nullCipher(t)) })
	}
	if keys {
		t.Run("other key", func(t *testing.T) { report(t, s.otherKey(t)) })
	}
	return lab, true
}

func report(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		testnet.Skip(t, err)
	} else if err != nil {
		t.Error(err)
	}
}

// composed is a lab with carriers on each other.
type composed struct {
	network network.Network
	lab     network.Lab
	bed     *networktest.Bed
	taps    [2]Tap
}

// hidden says whether a carrier encrypts.
func (s *composed) hidden() bool {
	for _, span := range s.lab.Spans {
		if span.Protected {
			return true
		}
	}
	return false
}

// device says whether the encryption has a device, which another one can replace.
func (s *composed) device() bool {
	return !slices.ContainsFunc(s.lab.Spans, func(span network.Span) bool { return span.Protected && span.Addressed })
}

// shared runs the checks that share a lab, and says whether it stood.
func (s *composed) shared(t *testing.T) (stood bool) {
	var err error
	if s.bed, err = networktest.MakeBed(t, s.network, s.lab); err != nil {
		report(t, err)
		return false
	}
	before, err := s.bed.Snapshot()
	if err != nil {
		t.Error(err)
		return false
	}
	if err = errors.Join(s.bed.Apply(t), s.bed.Verify(t)); err == nil {
		err = s.listen()
	}
	if err != nil {
		report(t, errors.Join(err, s.bed.Undo()))
		return false
	}
	t.Run("wire", func(t *testing.T) { report(t, s.wire()) })
	t.Run("packets", func(t *testing.T) { report(t, s.packets(t)) })
	t.Run("way", func(t *testing.T) {
		next, counted, err := s.bed.Carry(t, s.network)
		report(t, errors.Join(err, next, counted, s.bed.Verify(t)))
	})
	t.Run("path MTU", func(t *testing.T) { report(t, s.bed.PathMTU(s.network)) })
	t.Run("route around", func(t *testing.T) { report(t, s.around(t)) })
	t.Run("undo", func(t *testing.T) { report(t, s.undo(before)) })
	return true
}

// listen taps the underlay at both hosts.
func (s *composed) listen() (err error) {
	for i := range s.taps {
		if s.taps[i], err = Listen(s.bed, i); err != nil {
			return err
		}
	}
	return nil
}

// raise builds another lab, which has listeners. The caller undoes it.
func (s *composed) raise(t testing.TB, prepare func(*networktest.Bed)) (err error) {
	bed, err := networktest.MakeBed(t, s.network, s.lab)
	if err != nil {
		s.bed = &networktest.Bed{} // nothing to undo
		return err
	}
	s.bed = bed
	prepare(s.bed)
	if err := s.bed.Apply(t); err != nil {
		return err
	}
	return s.listen()
}

// undo wants everything as it was before.
func (s *composed) undo(before map[string]string) error {
	s.close()
	if err := s.bed.Undo(); err != nil {
		return err
	}
	after, err := s.bed.Snapshot()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(before, after); diff != "" {
		return fmt.Errorf("undone, it is not as it was (-before +after):\n%s", diff)
	}
	return nil
}

func (s *composed) close() {
	for _, tap := range s.taps {
		if tap.File != nil {
			_ = tap.Close()
		}
	}
}

// heard returns what has passed the underlay, by the host that sent it.
func (s *composed) heard() (frames [2][][]byte, err error) {
	for i := range s.taps {
		var terr error
		frames[i], terr = s.taps[i].Passed()
		err = errors.Join(err, terr)
	}
	return frames, err
}

// headers is the length of those of IP by family: RFC 791 section 3.1, RFC 8200 section 3.
func headers() map[string]int { return map[string]int{"ipv4": header4, "ipv6": header6} }

// wire judges what passes, from the first packet of a container on.
func (s *composed) wire() error {
	lengths := map[int]string{}
	for family, header := range headers() {
		for _, size := range []int{small, s.lab.MTU - header - udpHeader} {
			if err := s.bed.Exchange(family, size); err != nil {
				return fmt.Errorf("datagrams of %d bytes over %s: %w", size, family, err)
			}
			lengths[s.length(header+udpHeader+size)] = fmt.Sprintf("datagrams of %d bytes over %s", size, family)
		}
	}
	frames, err := s.heard()
	if err != nil {
		return err
	}
	for i, list := range frames {
		for length, what := range lengths {
			found := 0
			for _, f := range list {
				if len(f) == length && s.carried(f) {
					found++
				}
			}
			if found < networktest.Exchanged {
				return fmt.Errorf("%s: of %d frames from host %d, %d are %v of %d bytes, and %d were sent (%s)", what, len(list),
					i+1, found, s.lab.Spans[1].Wire, length, networktest.Exchanged, lengthsOf(list))
			}
		}
	}
	if read := s.readable(frames); (read == "") != s.hidden() {
		return fmt.Errorf("an encryption: %t, and what can be read: %q", s.hidden(), read)
	}
	return nil
}

// lengthsOf counts frames by their length.
func lengthsOf(frames [][]byte) string {
	counts := map[int]int{}
	for _, f := range frames {
		counts[len(f)]++
	}
	return fmt.Sprintf("by length: %v", counts)
}

// length is that of the frame on the underlay which carries a packet, in bytes.
func (s *composed) length(packet int) int { return ethernetHeader + onUnderlay(s.lab, packet) }

// carried says whether the outermost headers of a frame are those of the lowest carrier.
func (s *composed) carried(f []byte) bool {
	lowest := s.lab.Spans[1]
	if lowest.Outer == "" { // frames of Ethernet, which name the protocol themselves
		return len(f) >= ethernetHeader && slices.ContainsFunc(lowest.Wire, func(p network.Protocol) bool {
			return p.Number == int(binary.BigEndian.Uint16(f[12:]))
		})
	}
	at, kind, protocol := ethernetHeader+header4, uint16(0x0800), ethernetHeader+9
	if lowest.Outer == "ipv6" {
		at, kind, protocol = ethernetHeader+header6, 0x86dd, ethernetHeader+6
	}
	if len(f) < at+4 || binary.BigEndian.Uint16(f[12:]) != kind {
		return false
	}
	for _, p := range lowest.Wire {
		port := int(binary.BigEndian.Uint16(f[at+2:]))
		if p.Number == int(f[protocol]) && (p.Port == 0 || p.Port <= port && port <= max(p.Port, p.Last)) {
			return true
		}
	}
	return false
}

// readable says what of the payloads of the suite, in which each byte is one more than the last, can be read in frames.
func (s *composed) readable(frames [2][][]byte) string {
	count, first := 0, ""
	for i, list := range frames {
		for _, f := range list {
			if !consecutive(f) {
				continue
			}
			if count++; count == 1 {
				first = fmt.Sprintf("a frame of %d bytes from host %d (%x…)", len(f), i+1, f[:min(len(f), 80)])
			}
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s, and %d more", first, count-1)
}

// consecutive reports whether enough bytes of a frame follow each other as those of a payload do. In an encrypted frame
// that does not happen by chance.
func consecutive(f []byte) bool {
	const enough = 24
	for i, run := 1, 1; i < len(f); i++ {
		if f[i] == f[i-1]+1 {
			run++
		} else {
			run = 1
		}
		if run >= enough {
			return true
		}
	}
	return false
}

// packets wants all kinds of packets to pass, of containers and of hosts, and nothing of them to be read.
//
// What a tap reads of a frame in pieces may be what the receiver has made of it since: the kernel's ESP in UDP copies
// the first piece alone before it decrypts in place (net/ipv4/xfrm4_input.c, skb_unclone; net/ipv4/esp4.c, esp_input),
// and host 2 gets the same pages as the tap. So what can be read is looked for again in frames of one piece.
func (s *composed) packets(t testing.TB) error {
	read, err := s.exchanged()
	if err == nil && read != "" && s.hidden() {
		t.Logf("in frames in pieces, %s can be read", read)
		read, err = s.whole(t)
	}
	if err == nil && read != "" && s.hidden() {
		return fmt.Errorf("an encryption, and what can be read: %s", read)
	}
	return err
}

// whole says what can be read in a lab of its own, whose hosts send frames of one piece (net/core/dev.c,
// validate_xmit_skb).
func (s *composed) whole(t testing.TB) (read string, err error) {
	again := &composed{network: s.network, lab: s.lab}
	if err := again.raise(t, func(*networktest.Bed) {}); err != nil {
		return "", errors.Join(err, again.bed.Undo())
	}
	defer func() {
		again.close()
		err = errors.Join(err, again.bed.Undo())
	}()
	for i, m := range again.bed.Hosts {
		if err := m.Kernel.Do("", func() error {
			return ethtool.Set(s.lab.Hosts[i].Uplink, ethtool.SG, false)
		}); err != nil {
			return "", err
		}
	}
	if err := again.bed.Verify(t); err != nil {
		return "", err
	}
	return again.exchanged()
}

// exchanged sends all kinds of packets, and says what can be read of them.
func (s *composed) exchanged() (read string, err error) {
	if err := s.bed.Packets(s.network); err != nil {
		return "", err
	}
	for family, header := range headers() {
		if err := larger(s.bed, family, s.lab.Top().MTU-header-udpHeader+1); err != nil {
			return "", fmt.Errorf("over %s: %w", family, err)
		}
	}
	frames, err := s.heard()
	return s.readable(frames), err
}

// noticed wants Verify to name what differs.
func (s *composed) noticed(t testing.TB) error {
	err := s.bed.Verify(t)
	if err == nil {
		return errors.New("nothing is noticed by Verify")
	}
	if _, ok := errors.AsType[*host.DriftError](err); !ok {
		return fmt.Errorf("want a host.DriftError of Verify: %w", err)
	}
	return nil
}

// exposed wants whatever passes now to be read on the underlay: else this suite sees no leak. Some may still be
// carried.
func (s *composed) exposed(some bool) error {
	for family := range headers() {
		if _, err := s.heard(); err != nil {
			return err
		}
		passes := s.bed.Exchange(family, small) == nil
		frames, err := s.heard()
		if err != nil {
			return err
		}
		if some && slices.ContainsFunc(slices.Concat(frames[:]...), s.carried) {
			continue
		}
		if read := s.readable(frames); passes && read == "" {
			return fmt.Errorf("datagrams pass over %s, and none can be read on the underlay", family)
		}
	}
	return nil
}

// around has host 1 reach the containers of host 2 over the underlay, and then as before.
func (s *composed) around(t testing.TB) error {
	k, below := s.bed.Hosts[0].Kernel, s.lab.Spans[0].Reach[0][1]
	h, err := k.Links("")
	if err != nil {
		return err
	}
	up, err := h.ByName(s.lab.Hosts[0].Uplink)
	if err != nil {
		return err
	}
	var back []func() error
	for _, to := range network.Serves(s.network, s.lab, s.lab.Hosts[1]) {
		planned := s.route(to)
		if planned == nil {
			continue
		}
		if err := planned.Remove(t.Context(), k); err != nil {
			return err
		}
		plain := link.Route{To: to, Via: below.Pick(to.Addr()), Link: up.Index}
		if err := h.AddRoute(plain); err != nil {
			return err
		}
		back = append(back, func() error { return errors.Join(h.DeleteRoute(plain), planned.Apply(t.Context(), k)) })
	}
	if len(back) == 0 {
		return errors.New("host 1 has no route to containers of host 2: the test shows nothing")
	}
	err = errors.Join(s.noticed(t), s.exposed(true))
	for _, f := range back {
		err = errors.Join(err, f())
	}
	if err != nil {
		return err
	}
	return s.bed.Verify(t)
}

// route is the step of host 1 for such a route, nil if it has none.
func (s *composed) route(to netip.Prefix) *host.Route {
	for _, p := range s.bed.Hosts[0].Plans {
		for _, step := range p.Steps {
			if r, ok := step.(host.Route); ok && r.NS == "" && r.To == to.String() {
				return &r
			}
		}
	}
	return nil
}

// nullCipher puts a device that does not encrypt in the place of the encryption's, on both hosts.
func (s *composed) nullCipher(t testing.TB) (err error) {
	defer func() {
		s.close()
		if uerr := s.bed.Undo(); uerr != nil {
			err = errors.Join(err, fmt.Errorf("undo what was tampered with: %w", uerr))
		}
	}()
	if err := s.raise(t, func(*networktest.Bed) {}); err != nil {
		return err
	}
	if err := s.bed.Verify(t); err != nil {
		return err
	}
	at := 0
	for i, span := range s.lab.Spans {
		if span.Protected {
			at = i
		}
	}
	for i := range s.lab.Hosts {
		if err := s.pretend(t, at, i); err != nil {
			return fmt.Errorf("put a device that does not encrypt on host %d: %w", i+1, err)
		}
	}
	return errors.Join(s.noticed(t), s.exposed(false))
}

// pretend does so on a host, for a span.
func (s *composed) pretend(t testing.TB, span, on int) error {
	m, other := s.bed.Hosts[on], 1-on
	reach, below := s.lab.Spans[span].Reach, s.lab.Spans[span-1].Reach
	h, err := m.Kernel.Links("")
	if err != nil {
		return err
	}
	name := reach[on][other].Link
	hidden, err := h.ByName(name)
	if err != nil {
		return err
	}
	if err := errors.Join(h.SetUp(hidden.Index, false), h.SetName(hidden.Index, "was0")); err != nil {
		return err
	}
	mac := func(host int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(host + 1)} }
	index, err := h.AddVXLAN(link.VXLAN{
		Name: name, MAC: mac(on), MTU: s.lab.Spans[span].MTU - 100, ID: 1, Port: 14789, Local: below[on][on].IPv4,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(h.SetUp(index, true),
		h.AddFDBEntry(link.FDBEntry{Link: index, MAC: mac(other), At: below[on][other].IPv4})); err != nil {
		return err
	}
	v4, v6 := network.SpanAddr(span, on+1)
	for _, a := range []netip.Prefix{v4, v6} {
		_ = h.DeleteAddress(hidden.Index, a) // one of IPv6 is gone since the link is down
		if err := h.AddAddress(index, a); err != nil {
			return err
		}
	}
	for _, a := range []netip.Addr{reach[on][other].IPv4, reach[on][other].IPv6} {
		if err := h.SetNeighbour(link.Neighbour{Link: index, Address: a, MAC: mac(other)}); err != nil {
			return err
		}
	}
	for _, p := range m.Plans { // routes through the device are gone with it
		for _, step := range p.Steps {
			if r, ok := step.(host.Route); ok && r.NS == "" && r.Dev == name {
				_ = r.Apply(t.Context(), m.Kernel) // one that stands is none the worse
			}
		}
	}
	return nil
}

// otherKey gives host 2 a secret of its own.
func (s *composed) otherKey(t testing.TB) (err error) {
	defer func() {
		s.close()
		if uerr := s.bed.Undo(); uerr != nil {
			err = errors.Join(err, fmt.Errorf("undo hosts with different keys: %w", uerr))
		}
	}()
	built := s.raise(t, func(b *networktest.Bed) { b.Hosts[1].Kernel.Entrust(host.NewSecret()) })
	if built != nil { // it was noticed at once
		return nil
	}
	verified := s.bed.Verify(t)
	var group sync.WaitGroup
	var passes [2]bool
	for i, family := range []string{"ipv4", "ipv6"} { // both at once: each waits for what must not come
		group.Go(func() { passes[i] = s.bed.Exchange(family, small) == nil })
	}
	if group.Wait(); passes[0] || passes[1] {
		return fmt.Errorf("datagrams pass between hosts with different keys: ipv4 %t, ipv6 %t (Verify says %w)", passes[0],
			passes[1], verified)
	}
	frames, err := s.heard()
	if err != nil {
		return err
	}
	if read := s.readable(frames); read != "" {
		return fmt.Errorf("between hosts with different keys: %s can be read", read)
	}
	return nil
}

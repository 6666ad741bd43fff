package attack

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/proof/packet"
	"github.com/nettoll/nettoll/proof/threat"
)

const (
	// settle is how long packets that were sent are waited for.
	settle = 120 * time.Millisecond
	// longest is how long they are waited for if more and more arrive.
	longest = 10 * time.Second
	// burst is how many frames are sent without a pause: a switch in userspace reads its ports by queues that have room
	// for some hundreds.
	burst = 32
	pause = 200 * time.Microsecond
)

// A stand is a lab with its taps.
type stand struct {
	Target
	Rules    // of the lab's filter, for its claims
	ends     []*end
	machines []*machine
	known    map[bool]map[[2]*end]net.HardwareAddr // see way
	taps     *taps
	magic    [8]byte
	forged   [8]byte // begins keys in errors of ICMP: those that are honest may quote the other
	filled   bool    // the table of connections of a host
	begun    int     // flows of containers in it
	flooded  bool    // switches, with MAC addresses
	number   uint32  // of the last try
	pieces   uint16  // number of the last packet that was cut
	pace     *pace   // of all containers
}

// An end is a container as it is attacked from.
type end struct {
	proof.Container
	index   int // among all
	machine *machine
	pace    *pace
	ns      *os.File
	frames  *os.File // at its link, with the rights of this process: what it receives is the evidence
	out     *os.File // at its link, with its own rights: what it sends, nil if they refuse that
	refusal string   // why they do, "" if they do not
	bare    bool     // its link may drop all that is not IP or not for one receiver, see send
	at      int      // index of its link
	mac     net.HardwareAddr
	outer   net.HardwareAddr // of its host's link to it, nil where there is none
	gates   []netip.Addr     // that its default routes lead to
	onLink  []netip.Prefix   // that it reaches without them
}

// A machine is a host as it is attacked.
type machine struct {
	name      string
	index     int
	ns        *os.File
	links     []link.Surveyed
	addresses []netip.Addr // of all links, those of link scope and of loopback among them
}

// Run makes the attacks on a lab, one after another, and returns what came of each in each family. If one fails, or
// takes longer than its limit, those after it are not made: an outcome says so of each of them ([Outcome.Failed]). The
// error is [ErrForeign], [errors.ErrUnsupported], that of the context, or says that the lab could not be left as it
// was; outcomes are returned with it.
func Run(ctx context.Context, lab Target, attacks []Attack) (list []Outcome, err error) {
	s := newStand(lab)
	var hung <-chan struct{}
	defer func() {
		if hung == nil {
			err = errors.Join(err, s.close())
			return
		}
		go func() {
			<-hung
			_ = s.close() // nobody waits for it any more
		}()
	}()
	failed := s.open()
	if errors.Is(failed, ErrForeign) || errors.Is(failed, errors.ErrUnsupported) {
		return nil, failed
	}
	for _, a := range All() {
		if !slices.Contains(attacks, a) {
			continue
		}
		for _, v6 := range []bool{false, true} {
			if err := ctx.Err(); err != nil {
				return list, err
			}
			if v6 && a == threat.Abstract {
				continue // it has no family
			}
			o := Outcome{Attack: a, Family: familyOf(a, v6)}
			if !s.speaks(v6) {
				o.NotTried = "its containers have no addresses of " + measure.FamilyName(o.Family)
				list = append(list, o)
				continue
			}
			if failed != nil {
				o.Failed = "it was not made: " + failed.Error()
				list = append(list, o)
				continue
			}
			if o, hung, err = s.limited(ctx, o, v6); err != nil {
				if ctx.Err() != nil {
					return append(list, o), ctx.Err()
				}
				failed = fmt.Errorf("attack %q, %s: %w", a, o.Family, err)
				o.Failed = failed.Error()
			}
			list = append(list, o)
		}
	}
	return list, nil
}

// Longest is how long an attack may take in one family, if a lab has no limit of its own. The longest ones take a
// minute or two on a busy machine.
const Longest = 10 * time.Minute

// grace is how long an attack may take to end after its limit.
const grace = 5 * time.Second

// limited makes an attack, for as long as it may take at most. If it does not end then, nothing may use the stand until
// the channel is closed.
func (s *stand) limited(ctx context.Context, o Outcome, v6 bool) (Outcome, <-chan struct{}, error) {
	limit := cmp.Or(s.Limit, Longest)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it takes longer than %v", limit))
	defer cancel()
	s.pace.over = func() error { return context.Cause(ctx) }
	none := o
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = s.attack(&o, v6)
	}()
	select {
	case <-ended:
		return o, nil, err
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return o, nil, cmp.Or(err, context.Cause(ctx))
	case <-time.After(grace):
		return none, ended, fmt.Errorf("%w, and does not end", context.Cause(ctx))
	}
}

// familyOf is the family of an attack with packets of one.
func familyOf(a Attack, v6 bool) string {
	switch {
	case a == threat.Abstract:
		return Neither
	case v6:
		return "ipv6"
	}
	return "ipv4"
}

// speaks reports whether containers have addresses of a family. Without any, nothing can be made in it.
func (s *stand) speaks(v6 bool) bool {
	return !slices.ContainsFunc(s.Hosts, func(h proof.Host) bool {
		return slices.ContainsFunc(h.Containers, func(c proof.Container) bool { return !c.Own(v6).IsValid() })
	})
}

func newStand(lab Target) *stand {
	s := &stand{
		Target: lab, taps: newTaps(), known: map[bool]map[[2]*end]net.HardwareAddr{false: {}, true: {}},
		pace: &pace{pause: pause},
	}
	_, _ = rand.Read(s.magic[:]) // it never fails
	_, _ = rand.Read(s.forged[:])
	return s
}

func (s *stand) attack(o *Outcome, v6 bool) error {
	a := o.Attack
	if s.Observe != nil {
		s.Observe(a, o.Family)
	}
	if made := s.tries()[a]; made != nil {
		return s.try(o, made(v6))
	}
	switch a { // those of which not only tries are frames of containers
	case threat.Answers, threat.Listening, threat.Takeover, threat.MACFlood, threat.TableFull, threat.Starvation:
		if s.confined(o) {
			return nil
		}
	}
	return s.otherwise()[a](o, v6)
}

// tries are the attacks that send packets and count them.
func (s *stand) tries() map[Attack]func(v6 bool) []try {
	return map[Attack]func(v6 bool) []try{
		threat.Detours: s.detours, threat.Bypass: s.bypass, threat.Misdirected: s.misdirected, threat.Ports: s.ports,
		threat.PortZero: s.portZero, threat.Protocols: s.protocols, threat.Types: s.types, threat.Options: s.options,
		threat.Wrapped: s.wrapped, threat.Fragments: s.fragments, threat.Replies: s.replies, threat.SynAck: s.synAck,
		threat.Errors: s.errors, threat.DHCP: s.dhcp, threat.Collusion: s.collusion, threat.ToHost: s.toHost,
		threat.Guise: s.guise, threat.Router: s.router,
	}
}

// otherwise are the attacks that do more than that.
func (s *stand) otherwise() map[Attack]func(o *Outcome, v6 bool) error {
	return map[Attack]func(o *Outcome, v6 bool) error{
		threat.Answers: s.answers, threat.KnownErrors: s.knownErrors, threat.Listening: s.listening,
		threat.Abstract: s.abstract, threat.Stray: s.stray, threat.Services: s.services, threat.FromHost: s.fromHost,
		threat.Takeover: s.takeover, threat.MACFlood: s.macFlood, threat.TableFull: s.tableFull,
		threat.Starvation: s.starvation,
	}
}

func (s *stand) close() error {
	errs := []error{s.emptied()}
	for _, e := range s.ends { // the taps end with what they read
		if e.out != e.frames {
			errs = append(errs, shut(e.out))
		}
		errs = append(errs, shut(e.frames), shut(e.ns))
	}
	errs = append(errs, s.taps.close())
	for _, m := range s.machines {
		errs = append(errs, shut(m.ns))
	}
	return errors.Join(errs...)
}

func shut(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// open finds everybody, and opens the taps.
func (s *stand) open() error {
	for i, h := range s.Hosts {
		m := &machine{name: h.Name, index: i}
		s.machines = append(s.machines, m)
		var err error
		if m.ns, err = s.Open(i, ""); err != nil {
			return err
		}
		if err := Foreign(m.ns); err != nil {
			return fmt.Errorf("look at %s: %w", h.Name, err)
		}
		found, err := survey(m.ns)
		if err != nil {
			return fmt.Errorf("look at %s: %w", h.Name, err)
		}
		m.links = found.Links
		for _, l := range m.links {
			for _, a := range l.Addresses {
				m.addresses = append(m.addresses, a.Addr())
			}
			if local, ok := linkLocal(l.MAC); ok && l.Type != "device" {
				m.addresses = append(m.addresses, local)
			}
		}
		slices.SortFunc(m.addresses, netip.Addr.Compare)
		m.addresses = slices.Compact(m.addresses)
		if err := s.taps.host(m, s.magic[:], s.forged[:]); err != nil {
			return fmt.Errorf("tap %s: %w", h.Name, err)
		}
		for _, c := range h.Containers {
			e := &end{Container: c, index: len(s.ends), machine: m, pace: s.pace}
			s.ends = append(s.ends, e)
			if e.ns, err = s.Open(i, c.Namespace); err != nil {
				return err
			}
			if err := e.look(); err != nil {
				return fmt.Errorf("look at %s: %w", c.Name, err)
			}
			if err := s.taps.container(e, s.magic[:], s.forged[:]); err != nil {
				return fmt.Errorf("tap %s: %w", c.Name, err)
			}
		}
	}
	for _, p := range s.Pairs {
		for _, name := range []string{p.Source, p.Sink} {
			if s.end(name) == nil {
				return fmt.Errorf("pair %s and %s: unknown container %q", p.Source, p.Sink, name)
			}
		}
	}
	return nil
}

// survey looks at what there is in a namespace.
func survey(ns *os.File) (found link.Survey, err error) {
	err = within(ns, func(h *link.Handle) (err error) {
		found, err = h.Survey()
		return err
	})
	return found, err
}

// within calls f in a namespace.
func within(ns *os.File, f func(h *link.Handle) error) error {
	return netns.Do(int(ns.Fd()), func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	})
}

// look finds the container's link and opens it. What is sent leaves by that link alone, so it has to be one that was
// made for the lab: neither a link of the namespace that nettoll was started in, nor a network card.
func (e *end) look() error {
	if err := Foreign(e.ns); err != nil {
		return err
	}
	found, err := survey(e.ns)
	if err != nil {
		return err
	}
	for _, l := range found.Links {
		if l.Name == e.Inner {
			e.mac, e.at, e.bare = l.MAC, l.Index, l.Type == "ipvlan"
			if l.Type == "device" && l.Name != "lo" {
				return fmt.Errorf("%w: link %q is a network card", ErrForeign, l.Name)
			}
		}
	}
	if e.at == 0 {
		return fmt.Errorf("it has no link %q", e.Inner)
	}
	for _, r := range found.Routes {
		if r.Table == 0 && r.To.Bits() == 0 && r.Via.IsValid() {
			e.gates = append(e.gates, r.Via)
		}
		if r.Table == 0 && r.Kind == 1 && r.To.Bits() > 0 && !r.Via.IsValid() {
			e.onLink = append(e.onLink, r.To)
		}
	}
	for _, l := range e.machine.links {
		if l.Name == e.Link {
			e.outer = l.MAC
		}
	}
	if err := netns.Do(int(e.ns.Fd()), func() (err error) {
		e.frames, err = sock.Frames(e.at)
		return err
	}); err != nil {
		return err
	}
	if e.out = e.frames; e.Capabilities == nil {
		return nil
	}
	err = e.Within(e.ns, func() (err error) {
		e.out, err = sock.FramesOut(e.at)
		return err
	})
	if e.refused(err) {
		e.refusal, err = noFrames, nil
	}
	return err
}

// What the rights of a container may refuse.
const (
	noFrames  = "the kernel does not let the container's root send frames (CAP_NET_RAW)"
	noAddress = "the kernel does not let the container's root add an address (CAP_NET_ADMIN)"
)

// refused says whether an error is that of a container whose rights do not suffice.
func (e *end) refused(err error) bool {
	return e.Capabilities != nil && errors.Is(err, os.ErrPermission)
}

// confined notes for all containers whose rights refuse to send frames that an attack was not sent from there. It
// returns false if there are none.
func (s *stand) confined(o *Outcome) bool {
	for _, e := range s.ends {
		if e.refusal != "" {
			o.unsent(1, e.refusal)
		}
	}
	return o.Unsent > 0
}

// unsent notes that rights have refused tries.
func (o *Outcome) unsent(tries int, refusal string) {
	o.Unsent += tries
	o.Refusal = cmp.Or(o.Refusal, refusal)
}

// Foreign returns [ErrForeign] if a namespace is that which this process was started in.
func Foreign(ns *os.File) error {
	own, err := os.Stat("/proc/thread-self/ns/net") // the first thread may be in a lab just now
	if err != nil {
		return fmt.Errorf("find the namespace of this process: %w", err)
	}
	there, err := ns.Stat()
	if err != nil {
		return fmt.Errorf("find the namespace of a lab: %w", err)
	}
	if os.SameFile(own, there) {
		return fmt.Errorf("%w: the namespace is that of this process", ErrForeign)
	}
	return nil
}

// linkLocal is the address of link scope that a link makes of its MAC address (RFC 4291, appendix A).
func linkLocal(mac net.HardwareAddr) (netip.Addr, bool) {
	if len(mac) != 6 || slices.Equal(mac, make(net.HardwareAddr, 6)) {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16([16]byte{
		0xfe, 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	}), true
}

func (s *stand) end(name string) *end {
	if i := slices.IndexFunc(s.ends, func(e *end) bool { return e.Name == name }); i >= 0 {
		return s.ends[i]
	}
	return nil
}

// paired says whether a source may talk to a sink.
func (s *stand) paired(source, sink *end) bool {
	return slices.Contains(s.Pairs, proof.Pair{Source: source.Name, Sink: sink.Name})
}

// listed says whether pairs may talk in a family.
func (s *stand) listed(v6 bool) bool {
	return slices.Contains(s.Families, map[bool]string{false: "ipv4", true: "ipv6"}[v6])
}

// others yields each ordered two containers.
func (s *stand) others(f func(from, to *end)) {
	for _, from := range s.ends {
		for _, to := range s.ends {
			if from != to {
				f(from, to)
			}
		}
	}
}

// ofFirst yields the ends of the first pair with each other container: those of other pairs are like them.
func (s *stand) ofFirst(f func(from, to *end)) {
	if len(s.Pairs) == 0 {
		return
	}
	s.others(func(from, to *end) {
		if p := s.Pairs[0]; from.Name == p.Source || from.Name == p.Sink {
			f(from, to)
		}
	})
}

// ways are the MAC addresses by which a packet of one container could reach another in an honest way: that of the
// other, and those of its own host that route or have its link as a port. The host's end of the link is the last: where
// packets pass there and by another way, the other one is that of the network, and [stand.bypass] looks at this one.
func (s *stand) ways(from, to *end) []net.HardwareAddr {
	list, master := []net.HardwareAddr{to.mac}, 0
	for _, l := range from.machine.links {
		if l.Name == from.Link {
			master = l.Master
		}
	}
	for _, l := range from.machine.links {
		if l.Type != "device" && len(l.Addresses) > 0 || l.Name == from.Link || master != 0 && l.Index == master {
			list = append(list, l.MAC)
		}
	}
	list = unique(list)
	if i := slices.IndexFunc(list, func(mac net.HardwareAddr) bool { return slices.Equal(mac, from.outer) }); i >= 0 {
		list = append(slices.Delete(list, i, i+1), from.outer)
	}
	return list
}

// everywhere are the MAC addresses of all links of a container's host and of all other containers.
func (s *stand) everywhere(from *end) []net.HardwareAddr {
	var list []net.HardwareAddr
	for _, m := range s.machines {
		for _, l := range m.links {
			if l.Name != "lo" {
				list = append(list, l.MAC)
			}
		}
	}
	for _, e := range s.ends {
		if e != from {
			list = append(list, e.mac)
		}
	}
	return unique(append(list, packet.Broadcast()))
}

func unique(list []net.HardwareAddr) []net.HardwareAddr {
	slices.SortStableFunc(list, func(a, b net.HardwareAddr) int { return slices.Compare(a, b) })
	return slices.CompactFunc(list, func(a, b net.HardwareAddr) bool { return slices.Equal(a, b) })
}

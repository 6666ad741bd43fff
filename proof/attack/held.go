package attack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof/busy"
)

// Rules are what a filter says of packets that its list does not decide alone.
type Rules struct {
	// ByAddress: pieces of packets pass where any packet from their source to their destination may.
	ByAddress bool
	// ByConnection: errors of ICMP pass to the end that has sent what they quote, whoever sends them.
	ByConnection bool
	// Followed: packets of IPv6 are what they are behind their options.
	Followed bool
	// Bound: addresses are bound to links.
	Bound bool
	// Floods says that what a container sends to all of its link is heard by the other containers of its host.
	Floods bool
	// Places are the addresses of each host on what joins the hosts, the uppermost last.
	Places [][]Place
}

// A Place is where a host is on what joins hosts.
type Place struct {
	Name       string // "underlay", "vxlan"
	IPv4, IPv6 netip.Addr
}

// Names of the claims about what a list decides. Each is one record.
const (
	Talks      = "talks"
	Carries    = "carries"
	Sockets    = "sockets"
	Pieces     = "pieces"
	OwnPorts   = "own-ports"
	Messages   = "messages"
	Quotes     = "quotes"
	Extensions = "extensions"
	ToHosts    = "to-hosts"
	FromHosts  = "from-hosts"
	Spoofed    = "spoofed"
	MadeUp     = "made-up"
	GoesOn     = "goes-on" // see [Connections]
)

// A Held is what came of a claim.
type Held struct {
	measure.Proof
	// Wrong is each packet of which something else was seen than what is expected.
	Wrong []string
	// Frames is how many frames were sent for it, each try counted once for each of them.
	Frames int
}

// Hold tries claims about the list of a lab's filter, in the order given, with packets of sockets and with frames: what
// is on the list passes, and nothing else does. Without a filter (see [proof.Lab]) everything has to pass that a claim
// sends to hosts, from them, and in their names: what a filter refuses is not refused because a try does not work. A
// claim that has nothing to send in such a lab has no record.
func Hold(ctx context.Context, lab Target, rules Rules, claims ...string) (list []Held, err error) {
	s := newStand(lab)
	s.Rules = rules
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(); err != nil {
		return nil, err
	}
	known := map[string]func(context.Context) (Held, error){
		Talks: s.talks, Carries: s.carries, Sockets: s.sockets, Pieces: s.alone, OwnPorts: s.ownPorts, Messages: s.links,
		Quotes: s.quotesOfFlows, Extensions: s.extensions, ToHosts: s.toHosts, FromHosts: s.fromHosts, Spoofed: s.spoofed,
		MadeUp: s.madeUp,
	}
	for _, name := range claims {
		try := known[name]
		if try == nil {
			return list, fmt.Errorf("unknown claim %q", name)
		}
		h, err := try(ctx)
		if err != nil {
			return list, fmt.Errorf("claim %q: %w", name, err)
		}
		if len(h.Tried) > 0 {
			list = append(list, h)
		}
	}
	return list, nil
}

// expectation is what is expected of a probe.
type expectation int

const (
	refused expectation = iota // nobody hears it
	passes                     // who it is for hears it
	either
)

// expect is what is expected of a probe that is or is not to pass.
func expect(pass bool) expectation {
	if pass {
		return passes
	}
	return refused
}

// A probe is one packet of a claim, or a question of a socket, and what is expected of it.
type probe struct {
	text   string
	v6     bool
	from   *end // who sends it, or in whose name its host does
	expect expectation
	// send sends it, and returns how many frames that were.
	send func(key string) (frames int, err error)
	// asks, in place of send: it says whether the sender was answered within a time.
	asks func(within time.Duration) bool
	// to is who has to take it for its own, if it passes, and at which port; nil: anybody who hears it.
	to   *end
	port uint16
	// forwarded: it is heard only where a router has passed it on.
	forwarded bool
	// own is the host that sends it: what arrives there is nothing. ends: it is heard by containers only.
	own    *machine
	ends   bool
	number uint32
	yes    *atomic.Bool
}

// held sends probes, all at the same time, and says what came of them. What has to pass and does not is sent once more
// only if other work is to blame (see [stand.watch]) and it is seldom.
func (s *stand) held(ctx context.Context, name, text string, list []probe) (Held, error) {
	h := newHeld(name, text, "what the list and the filter's description say")
	for i := range list {
		s.number++
		list[i].number, list[i].yes = s.number, new(atomic.Bool)
	}
	if len(list) == 0 {
		return h, nil
	}
	next, of := list, 0
	for range 1 + busy.Again {
		var excused func() bool
		if err := s.unlost(func() error {
			excused = s.watch()
			frames, err := s.ask(next)
			h.Frames += frames
			return err
		}); err != nil {
			return h, err
		}
		if err := ctx.Err(); err != nil {
			return h, err
		}
		due := slices.DeleteFunc(slices.Clone(next), func(p probe) bool { return p.expect != passes })
		if of == 0 {
			of = len(due)
		}
		next = slices.DeleteFunc(due, s.heard)
		if len(next) == 0 || len(next) > busy.Few(of) || !excused() {
			break
		}
	}
	for _, p := range list {
		switch heard := s.heard(p); {
		case heard && p.expect == refused:
			h.saw(p.v6, p.text+" passes, and must not")
		case !heard && p.expect == passes:
			h.saw(p.v6, p.text+" does not pass")
		default:
			h.saw(p.v6, "")
		}
	}
	return h.done(), nil
}

// ask sends probes, and waits for what comes of them. It returns how many frames that were. An answer that has to come
// may be late: a switch whose daemon got no CPU asks it about the first packet of a flow, and TCP repeats one that was
// lost after 1 s, 3 s and 7 s.
func (s *stand) ask(list []probe) (sent int, err error) {
	var asked sync.WaitGroup
	defer asked.Wait()
	for _, p := range list {
		if p.asks != nil {
			within := patience
			if p.expect == passes {
				within = longest
			}
			asked.Go(func() {
				if p.asks(within) {
					p.yes.Store(true)
				}
			})
			continue
		}
		frames, err := p.send(s.key(p.number, 0))
		if err != nil && !refusedAtOnce(err) {
			return sent, fmt.Errorf("%s: %w", p.text, err)
		}
		sent += frames
	}
	asked.Wait()
	return sent, s.settle()
}

func newHeld(name, text, expected string) Held {
	return Held{Proof: measure.Proof{
		Name: name, Claim: text, Expected: expected, Tried: map[string]int{}, Seen: map[string]int{},
	}}
}

// saw notes what was seen of a try: wrong is "" if that is what is expected.
func (h *Held) saw(v6 bool, wrong string) {
	family := map[bool]string{false: "ipv4", true: "ipv6"}[v6]
	h.Tried[family]++
	if wrong == "" {
		h.Seen[family]++
	} else {
		h.Wrong = append(h.Wrong, wrong)
	}
}

// done says whether the claim holds, and the first that shows that it does not.
func (h Held) done() Held {
	if h.OK = len(h.Wrong) == 0; !h.OK {
		h.Detail = h.Wrong[0]
		if more := len(h.Wrong) - 1; more > 0 {
			h.Detail += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return h
}

// Err is what was seen that is not expected; nil if the claim holds.
func (h Held) Err() error {
	if h.OK {
		return nil
	}
	return fmt.Errorf("it does not hold that %s:\n%s", h.Claim, strings.Join(h.Wrong, "\n"))
}

// heard says whether somebody but who has sent it has heard a probe, or who has sent it was answered.
func (s *stand) heard(p probe) bool {
	if p.asks != nil {
		return p.yes.Load()
	}
	if p.expect == passes && p.to != nil {
		return slices.Contains(s.taps.got(inside, p.to.index, p.number), 0) &&
			s.taps.port(inside, p.to.index, p.number, 0) == p.port
	}
	where := s.behind()
	if p.forwarded {
		where = passedOn
	}
	for _, e := range s.ends {
		if e != p.from && len(s.taps.got(where, e.index, p.number)) > 0 {
			return true
		}
	}
	if p.forwarded || p.ends {
		return false
	}
	for _, m := range s.machines {
		if m != p.own && len(s.taps.got(onHost, m.index, p.number)) > 0 {
			return true
		}
	}
	return false
}

// refusedAtOnce says whether the sender was told that its packet is not let through, or that there is no way.
func refusedAtOnce(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EPERM, syscall.EACCES, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	}, func(no error) bool { return errors.Is(err, no) })
}

// framed sends frames from a container's link.
func framed(from *end, made func(key string) [][]byte) func(key string) (int, error) {
	return func(key string) (frames int, err error) {
		for _, f := range made(key) {
			if err := from.send(f); err != nil && !refusedAtOnce(err) {
				return frames, err
			}
			frames++
		}
		return frames, nil
	}
}

// translates says whether containers have other addresses to others than their own.
func (s *stand) translates() bool {
	return slices.ContainsFunc(s.ends, func(e *end) bool { return e.Own(false) != e.Public(false) })
}

// may says whether a datagram from here to the first port of there is on the list, by addresses that nobody changes.
func (s *stand) may(from, to *end, v6 bool) bool {
	return !s.translates() && s.listed(v6) && s.paired(from, to)
}

// told puts whom a probe is from and for behind what it is.
func told(what string, from, to *end, v6 bool) string {
	return fmt.Sprintf("%s, %s from %s to %s", what, map[bool]string{false: "ipv4", true: "ipv6"}[v6], from.Name, to.Name)
}

// families are those of the packets of claims: IPv4, and IPv6.
func families() []bool { return []bool{false, true} }

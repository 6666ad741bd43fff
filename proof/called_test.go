package proof_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nettoll/nettoll/proof"
)

// A line is a network that judges the first packets of all connections one after the other.
type line struct {
	each   time.Duration // how long it takes for one
	passes func(from netip.Addr, to netip.AddrPort) bool
	public map[netip.Addr]netip.Addr // other addresses of containers, and their own

	mu     sync.Mutex
	free   time.Time // when it has judged all that have come
	judged []judged
}

// judged is a packet that passes, at a time.
type judged struct {
	proof.Shot
	from netip.Addr
	at   time.Time
}

// An inLine is a party that sends into a line, and hears what comes out of it.
type inLine struct {
	*line
	proof.Listening
}

func (p *inLine) Open(_ context.Context, l proof.Listening) (proof.Opened, error) {
	p.Listening = l
	return proof.Opened{}, nil
}

func (p *inLine) own(to netip.Addr) netip.Addr {
	if to.Is6() {
		return p.IPv6
	}
	return p.IPv4
}

// Send has a connection that does not stand in time be given up: its sender then sends no number.
func (p *inLine) Send(_ context.Context, list []proof.Shot) (proof.Sent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, s := range list {
		if p.free.Before(now) {
			p.free = now
		}
		p.free = p.free.Add(p.each)
		if p.passes(p.own(s.To.Addr()), s.To) && (!s.Stream || p.free.Sub(now) < max(p.Wait, s.Wait)) {
			p.judged = append(p.judged, judged{s, p.own(s.To.Addr()), p.free})
		}
	}
	return proof.Sent{}, nil
}

func (p *inLine) Heard(context.Context) (h proof.Heard, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.judged {
		at := j.To.Addr()
		if own := p.public[at]; own.IsValid() {
			at = own
		}
		if at == p.own(at) && !j.at.After(time.Now()) {
			h.Numbers = append(h.Numbers, j.Number)
		}
	}
	return h, nil
}

func (p *inLine) Close(context.Context) error { return nil }

// A network may judge packets slowly, and have those of others to judge before. What is on the list then arrives late,
// connections as well as datagrams. A leak is found, too, also if what is on the list would have come before it. Of
// connections it is found only if the line is shorter than their senders wait. What never arrives is missing.
func TestReachInLine(t *testing.T) {
	l := described(2)
	of := map[netip.Addr]*proof.Container{}
	for i := range l.Hosts[0].Containers {
		c := &l.Hosts[0].Containers[i]
		of[c.IPv4], of[c.IPv6] = c, c
	}
	listed := func(from netip.Addr, to netip.AddrPort) bool {
		source, sink := of[from], of[to.Addr()]
		pair := source.Name[:3] == "src" && sink.Name == "snk"+source.Name[3:]
		return pair && to.Port() >= sink.First && to.Port() < sink.Last
	}
	open := func(from netip.Addr, to netip.AddrPort) bool {
		return listed(from, to) || of[from].Name == "snk1" && of[to.Addr()].Name == "src0"
	}
	for _, tt := range []struct {
		name   string
		before time.Duration // how long the line is
		each   time.Duration // for a packet
		passes func(from netip.Addr, to netip.AddrPort) bool
		leaks  []string
		misses bool
	}{
		{"short", 0, 10 * time.Millisecond, listed, nil, false},
		{"long", 1500 * time.Millisecond, 10 * time.Millisecond, listed, nil, false},
		{"leak", 0, 10 * time.Millisecond, open, []string{"UDP"}, false},
		{"leak of connections", 0, 2 * time.Millisecond, open, []string{"UDP", "TCP SYN"}, false},
		{"lost", 0, 10 * time.Millisecond, func(from netip.Addr, to netip.AddrPort) bool {
			return listed(from, to) && of[from].Name != "src1"
		}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := &line{each: tt.each, passes: tt.passes, free: time.Now().Add(tt.before)}
				m := proof.Reach(t.Context(), l, proof.Survey{Party: func(proof.Container) proof.Party {
					return &inLine{line: all}
				}})
				if m.NotTried != "" || m.Untold != "" || m.LeaksAll > 0 != (tt.leaks != nil) || m.MissingAll > 0 != tt.misses {
					t.Errorf("not tried: %q, untold: %q, leaks %q, missing %q", m.NotTried, m.Untold, m.Leaks, m.Missing)
				}
				for _, kind := range tt.leaks {
					if !slices.ContainsFunc(m.Leaks, func(s string) bool { return strings.HasPrefix(s, kind+" from snk1 for src0") }) {
						t.Errorf("leaks %q, want one of %s", m.Leaks, kind)
					}
				}
				t.Logf("%v tries in %.2f s", m.Tried, m.Took)
			})
		})
	}
}

// A sink that is reached at another address gets what must arrive there before the same at its own address. Everything
// else comes before both.
func TestReachOrder(t *testing.T) {
	l := described(2)
	public := map[netip.Addr]netip.Addr{}
	for i := range l.Hosts[0].Containers {
		c := &l.Hosts[0].Containers[i]
		if c.Name[:3] != "snk" {
			continue
		}
		c.PublicIPv4 = netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})
		c.PublicIPv6 = netip.AddrFrom16([16]byte{0xfd, 1, 15: byte(i)})
		public[c.PublicIPv4], public[c.PublicIPv6] = c.IPv4, c.IPv6
	}
	synctest.Test(t, func(t *testing.T) {
		all := &line{each: time.Millisecond, public: public, passes: func(netip.Addr, netip.AddrPort) bool { return true }}
		proof.Reach(t.Context(), l, proof.Survey{Party: func(proof.Container) proof.Party { return &inLine{line: all} }})
		for i, first := range []uint16{20_050, 20_150} {
			for _, v6 := range []bool{false, true} {
				sink := l.Hosts[0].Containers[2*i+1]
				var order []string // of the datagrams for the sink's listed port, from its source
				for _, j := range all.judged {
					if j.Stream || j.To.Port() != first || j.To.Addr().Is6() != v6 || j.from != l.Hosts[0].Containers[2*i].Own(v6) {
						continue
					}
					switch j.To.Addr() {
					case sink.Public(v6):
						order = append(order, "public")
					case sink.Own(v6):
						order = append(order, "own")
					}
				}
				if want := []string{"public", "own"}; !slices.Equal(order, want) {
					t.Errorf("pair %d, IPv6 %t: %q, want %q", i, v6, order, want)
				}
			}
		}
		const last = 2 * 2 * 2 * 2 // pairs, families, addresses, UDP and TCP
		for _, j := range all.judged[len(all.judged)-last:] {
			if p := j.To.Port(); p != 20_050 && p != 20_150 {
				t.Errorf("one of the last tries is for port %d", p)
			}
		}
	})
}

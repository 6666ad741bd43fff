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

	mu     sync.Mutex
	free   time.Time // when it has judged all that have come
	judged []judged
}

// judged is a packet that passes, at a time.
type judged struct {
	proof.Shot
	at time.Time
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
		if p.passes(p.own(s.To.Addr()), s.To) && (!s.Stream || p.free.Sub(now) < p.Wait) {
			p.judged = append(p.judged, judged{s, p.free})
		}
	}
	return proof.Sent{}, nil
}

func (p *inLine) Heard(context.Context) (h proof.Heard, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.judged {
		if j.To.Addr() == p.own(j.To.Addr()) && !j.at.After(time.Now()) {
			h.Numbers = append(h.Numbers, j.Number)
		}
	}
	return h, nil
}

func (p *inLine) Close(context.Context) error { return nil }

// A network may judge packets slowly, and have those of others to judge before. What is on the list then arrives late,
// connections as well as datagrams. A leak is found, too, also if what is on the list would have come before it. What
// never arrives is missing.
func TestReachInLine(t *testing.T) {
	l := described(2)
	of := map[netip.Addr]*proof.Container{}
	for i := range l.Hosts[0].Containers {
		c := &l.Hosts[0].Containers[i]
		of[c.IPv4], of[c.IPv6] = c, c
	}
	listed := func(from netip.Addr, to netip.AddrPort) bool {
		source, sink := of[from], of[to.Addr()]
		return source.Name[:3] == "src" && sink.Name == "snk"+source.Name[3:] && to.Port() >= sink.First && to.Port() < sink.Last
	}
	for _, tt := range []struct {
		name   string
		before time.Duration // how long the line is
		passes func(from netip.Addr, to netip.AddrPort) bool
		leaks  bool
		misses bool
	}{
		{"short", 0, listed, false, false},
		{"long", 1500 * time.Millisecond, listed, false, false},
		{"leak", 0, func(from netip.Addr, to netip.AddrPort) bool {
			return listed(from, to) || of[from].Name == "snk1" && of[to.Addr()].Name == "src0"
		}, true, false},
		{"lost", 0, func(from netip.Addr, to netip.AddrPort) bool {
			return listed(from, to) && of[from].Name != "src1"
		}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := &line{each: 10 * time.Millisecond, passes: tt.passes, free: time.Now().Add(tt.before)}
				m := proof.Reach(t.Context(), l, proof.Survey{Party: func(proof.Container) proof.Party {
					return &inLine{line: all}
				}})
				if m.NotTried != "" || m.Untold != "" || m.LeaksAll > 0 != tt.leaks || m.MissingAll > 0 != tt.misses {
					t.Errorf("not tried: %q, untold: %q, leaks %q, missing %q", m.NotTried, m.Untold, m.Leaks, m.Missing)
				}
				if has := slices.ContainsFunc(m.Leaks, func(s string) bool {
					return strings.HasPrefix(s, "TCP SYN from snk1 for src0")
				}); has != tt.leaks {
					t.Errorf("leaks %q", m.Leaks)
				}
				t.Logf("%v tries in %.2f s", m.Tried, m.Took)
			})
		})
	}
}

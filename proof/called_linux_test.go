package proof_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/proof"
)

// many is a lab of that number of pairs without a filter, whose containers are addresses of one namespace.
func many(t *testing.T, pairs int) (proof.Lab, func(proof.Container) proof.Party) {
	t.Helper()
	machine := testnet.New(t)
	testnet.Skip(t, machine.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		return h.SetUp(lo.Index, true)
	}))
	l := described(pairs)
	l.Filtered, l.Families = false, []string{"ipv4"}
	for i := range l.Hosts[0].Containers {
		c := &l.Hosts[0].Containers[i]
		c.IPv4, c.IPv6 = netip.AddrFrom4([4]byte{127, 1, 0, byte(1 + i)}), netip.Addr{}
		c.PublicIPv4, c.PublicIPv6 = c.IPv4, c.IPv6
	}
	return l, func(proof.Container) proof.Party { return &proof.Plain{In: machine.Do} }
}

// Parties of many containers all try at the same time, and everything arrives. If time is short, some is left out, but
// nothing between pairs.
func TestReachByParties(t *testing.T) {
	const pairs = 10
	l, party := many(t, pairs)
	for _, budget := range []time.Duration{0, 1} {
		// a packet that arrives 120 ms after the last one was sent is missed
		witness.Until(t, witness.Limit{Lost: 60 * time.Millisecond}, func() error {
			m := proof.Reach(t.Context(), l, proof.Survey{Party: party, Budget: budget, Seed: 1})
			tried, of := m.All()
			if m.NotTried != "" || m.Untold != "" || (tried == of) != (budget == 0) {
				return fmt.Errorf("not tried: %q, untold: %q, %d of %d tries", m.NotTried, m.Untold, tried, of)
			}
			if arrived := m.Arrived["udp"] + m.Arrived["tcp-syn"]; arrived != tried-m.Unsent["ipv4"] {
				return fmt.Errorf("%d of %d packets arrived", arrived, tried-m.Unsent["ipv4"])
			}
			for i, from := range m.From {
				for k, to := range m.From {
					pair := from[3:] == to[3:]
					want := measure.ReachOpen
					if i == k {
						want = measure.ReachNotTried
					}
					if got := m.At("ipv4", i, k); got != want && (budget == 0 || pair) {
						return fmt.Errorf("from %s to %s: %c, want %c", from, to, got, want)
					}
				}
			}
			t.Logf("%d of %d tries in %.2f s", tried, of, m.Took)
			return nil
		})
	}
}

// failing is a party that fails after so many sends of all.
type failing struct {
	proof.Party
	left *atomic.Int32
	err  error
}

func (f failing) Send(ctx context.Context, list []proof.Shot) (proof.Sent, error) {
	if f.left.Add(-1) < 0 {
		return proof.Sent{}, f.err
	}
	return f.Party.Send(ctx, list)
}

// If a party fails after the first packet was sent, what has not arrived cannot be told: it is neither refused nor
// missing. What has arrived is known.
func TestReachGivenUp(t *testing.T) {
	const pairs = 10
	l, party := many(t, pairs)
	gone := errors.New("it is gone")
	for _, sends := range []int32{0, 1, 30} {
		var left atomic.Int32
		left.Store(sends)
		m := proof.Reach(t.Context(), l, proof.Survey{Party: func(c proof.Container) proof.Party {
			return failing{party(c), &left, gone}
		}})
		if m.NotTried != "" || !strings.Contains(m.Untold, gone.Error()) || m.MissingAll > 0 || m.LeaksAll > 0 {
			t.Errorf("after %d sends: not tried: %q, cannot be told: %q, missing %q, leaks %q", sends, m.NotTried, m.Untold,
				m.Missing, m.Leaks)
		}
		tried, of := m.All()
		arrived := 0
		for _, n := range m.Arrived {
			arrived += n
		}
		if tried != arrived+m.Unsent["ipv4"] || tried >= of {
			t.Errorf("after %d sends: %d of %d tried, %d arrived, %d were not sent", sends, tried, of, arrived, m.Unsent["ipv4"])
		}
		cells := strings.Join(m.Cells["ipv4"], "")
		known := string([]byte{byte(measure.ReachRefused), byte(measure.ReachClosed), byte(measure.ReachMissing)})
		if !strings.ContainsRune(cells, rune(measure.ReachUntold)) || strings.ContainsAny(cells, known) {
			t.Errorf("after %d sends: %q", sends, m.Cells["ipv4"])
		}
	}
}

// stuck is a party that cannot send datagrams.
type stuck struct {
	proof.Party
	kept *atomic.Int32 // how many it did not send
}

func (s stuck) Send(ctx context.Context, list []proof.Shot) (proof.Sent, error) {
	failed := map[int]string{}
	rest := slices.DeleteFunc(slices.Clone(list), func(shot proof.Shot) bool {
		if shot.Stream || shot.To.Port() == 0 {
			return false
		}
		failed[shot.Number] = "no buffer space available"
		s.kept.Add(1)
		return true
	})
	sent, err := s.Party.Send(ctx, rest)
	sent.Failed = failed
	return sent, err
}

// A packet that could not be sent is no evidence: it is not among the tries of a claim, and of the claims it cannot be
// told whether they hold unless something shows that they do not.
func TestReachOfWhatWasNotSent(t *testing.T) {
	l, party := many(t, 2)
	l.Filtered = true // nothing stands there: what must be refused arrives
	var kept atomic.Int32
	m := proof.Reach(t.Context(), l, proof.Survey{Party: func(c proof.Container) proof.Party {
		return stuck{party(c), &kept}
	}})
	if m.NotTried != "" || !strings.Contains(m.Untold, "no buffer space available") || m.Unknown["ipv4"] == 0 ||
		m.Unknown["ipv4"] > int(kept.Load()) {
		t.Fatalf("not tried: %q, cannot be told: %q, %v of %d tries", m.NotTried, m.Untold, m.Unknown, kept.Load())
	}
	if want := []string{measure.MatrixListed, measure.MatrixLeaks}; !slices.Equal(m.UntoldClaims, want) {
		t.Errorf("claims %q, want %q", m.UntoldClaims, want)
	}
	tried, _ := m.All()
	for _, p := range m.Proofs() {
		if p.Tried["ipv4"] != tried-m.Unsent["ipv4"]-m.Unknown["ipv4"] {
			t.Errorf("%s: %d tries of %d, %v not sent", p.Name, p.Tried["ipv4"], tried, m.Unknown)
		}
		if leaks := p.Name == measure.MatrixLeaks; leaks == p.OK || leaks == (p.Untold != "") {
			t.Errorf("%s: holds %t, cannot be told: %q", p.Name, p.OK, p.Untold)
		}
	}
}

// If a container has nobody who sends for it, nothing is tried, and the matrix says why.
func TestReachWithoutParty(t *testing.T) {
	l, _ := many(t, 1)
	gone := errors.New("it is gone")
	m := proof.Reach(t.Context(), l, proof.Survey{Party: func(proof.Container) proof.Party {
		return &proof.Plain{In: func(func() error) error { return gone }}
	}})
	if !strings.Contains(m.NotTried, gone.Error()) || m.Cells != nil {
		t.Errorf("not tried: %q, cells %v", m.NotTried, m.Cells)
	}
}

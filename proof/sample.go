package proof

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/measure"
)

// Watched is the name of the claim that nothing changes in a lab while it is measured, and Sampled that of samples of
// what must not pass meanwhile.
const (
	Watched = "watched"
	Sampled = measure.Sampled
)

// WatchedClaim is the record of the claim that nothing changes, without place and time.
func WatchedClaim() measure.Proof {
	return measure.Proof{
		Name: Watched, Claim: "nothing changed in the namespaces of hosts and containers between blocks or during them",
		Expected: "no change",
	}
}

// SampledClaim is the record of the claim that samples of what must not pass did not arrive, without place and time.
func SampledClaim() measure.Proof {
	return measure.Proof{
		Name: Sampled, Claim: "datagrams that the filter must refuse did not arrive between blocks",
		Expected: "no datagram at its receiver",
	}
}

// Sample returns the nth of the tries that go round through all pairs, with both kinds of what must not pass, in both
// families: to a port that is not on the list, and to the sink of another pair. Only what arrives refutes it.
func (l Lab) Sample(n int) Try {
	pair, round := n%len(l.Pairs), n/len(l.Pairs)
	family := families()[round%len(families())]
	round /= len(families())
	source, to := l.container(l.Pairs[pair].Source), pair
	if len(l.Pairs) > 1 && round%2 == 1 {
		to = (pair + 1 + round/2%(len(l.Pairs)-1)) % len(l.Pairs)
	}
	sink := l.container(l.Pairs[to].Sink)
	port, name := sink.Last, fmt.Sprintf("pair %d to a port that is not on the list, %s", pair, family)
	if to != pair {
		port, name = sink.First, fmt.Sprintf("pair %d to the sink of pair %d, %s", pair, to, family)
	}
	if !slices.Contains(l.Families, family) {
		port = sink.First // no port of that family is on the list
	}
	return Try{
		Name: name, Pair: pair, Family: family, From: source.End(family, source.First), To: sink.End(family, port),
		Patience: l.Patience,
	}
}

// sampleWait is how long a sample may take to arrive where nothing delays packets: programs that carry them wake up
// within a millisecond.
const sampleWait = 2 * time.Millisecond

// Wait is how long a sample may take to arrive.
func (p Patience) Wait() time.Duration { return sampleWait + p.Trip }

// Listen opens the receiver of a sample, which counts and does not answer.
func (h *Here) Listen(_ context.Context, t Try) error {
	return h.In(t.To, func() error {
		s, err := openSample(t.To, t.From)
		if err == nil {
			h.samples = append(h.samples, s)
		}
		return err
	})
}

// Send sends the datagrams of a sample. If the kernel refuses to send at once, the datagram counts as refused.
func (h *Here) Send(_ context.Context, t Try) error {
	return h.In(t.From, func() error {
		s, err := openSample(t.From, t.To)
		if err != nil {
			return err
		}
		defer s.Close()
		out := []byte("nettoll sample")
		for range tries {
			s.Send(&out[0], len(out), 0) // an error is a refusal, too
		}
		return nil
	})
}

// Arrived counts what the receivers of samples have got, and closes them.
func (h *Here) Arrived(context.Context) (n int64) {
	for _, s := range h.samples {
		n += s.Drain()
		s.Close()
	}
	h.samples = nil
	return n
}

func openSample(at, peer End) (s sock.Socket, err error) {
	err = sock.Rebind(func() (err error) {
		s, err = sock.UDPBeside(at.Local, peer.Public)
		return err
	})
	return s, err
}

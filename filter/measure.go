package filter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
)

const (
	// the first is left out, since it finds neighbours that nobody has asked for yet; the median of the others counts
	changes     = 6
	changeLimit = 5 * time.Second       // for all of them: a filter that takes longer is asked twice
	effectLimit = 2 * time.Second       // until a packet passes after a change
	quiet       = 20 * time.Millisecond // in which nothing must pass
	// between packets, at least: the runtime waits for timers in epoll_wait, which counts in ms, where nothing else wakes
	// it
	proofPause   = 10 * time.Microsecond
	closingLimit = 2 * time.Second // until none passes any more: a daemon may look after its flows twice a second
	sentLeast    = 5               // packets in a time in which none is to pass
)

// MeasureCost measures a rule update: rule_update_time is the time until the update has returned (s), rule_effect_time
// the time from its beginning to the first packet that the rule allows (s). Packets are sent every 50 µs to 1 ms, so
// smaller differences mean nothing.
//
// Steps call it from their own MeasureCost. It does nothing if the list has no proof packet: if the ends of a pair are
// on different hosts, the caller of [Try] must reach both. It is an error if a proof packet passes before it is
// allowed, or after its rule was removed: the filter does not filter.
func MeasureCost(ctx context.Context, k *host.Kernel, s Step) error {
	proof := s.Listed().Proof
	if proof == nil {
		return nil
	}
	ends := Ends{
		Source: func(f func() error) error { return k.Do(proof.SourceNS, f) },
		Sink:   func(f func() error) error { return k.Do(proof.SinkNS, f) },
	}
	took, err := Try(ctx, *proof, ends, func(allow bool) (host.RuleUpdate, error) {
		began := clock.Now()
		err := s.UpdateRule(k, proof.Rule, allow)
		return host.RuleUpdate{Began: began, Took: time.Duration(clock.Now() - began)}, err
	})
	if err != nil {
		return err
	}
	k.Metric(UpdateTime, took.Update.Seconds())
	k.Metric(EffectTime, took.Effect.Seconds())
	return nil
}

// Names of what a change costs, as package measure has them.
const (
	UpdateTime = "rule_update_time"
	EffectTime = "rule_effect_time"
)

// UpdateRule is a [host.RuleUpdater]: it allows the proof packet of a list whose other end is on another host, or
// refuses it again.
func UpdateRule(k *host.Kernel, step host.Step, allow bool) (known bool, err error) {
	s, ok := step.(Step)
	if !ok || s.Listed().Across == nil {
		return false, nil
	}
	return true, s.UpdateRule(k, s.Listed().Across.Rule, allow)
}

// Ends call a function inside the namespaces of the two ends of a proof packet.
type Ends struct{ Source, Sink func(func() error) error }

// Took holds the median times of rule updates.
type Took struct{ Update, Effect time.Duration }

// Try adds and removes the rule of a proof packet several times while proof packets are sent, and returns the median
// times.
func Try(
	ctx context.Context, proof ProofPacket, ends Ends, change func(allow bool) (host.RuleUpdate, error),
) (Took, error) {
	p, err := openSender(proof, ends)
	if err != nil {
		return Took{}, fmt.Errorf("measure a rule update: %w", err)
	}
	defer p.close()
	var update, effect []time.Duration
	began := time.Now()
	for i := range changes {
		if ctx.Err() != nil {
			return Took{}, ctx.Err()
		}
		if i == 0 && !p.closes() { // another try may have just ended, which let it pass here
			return Took{}, fmt.Errorf("measure a rule update: a packet to %s passes although no rule allows it", proof.Public)
		}
		p.first.Store(0)
		allowed, err := change(true)
		if err != nil {
			return Took{}, fmt.Errorf("measure a rule update: %w", err)
		}
		first, err := p.wait()
		if err != nil {
			_, undo := change(false)
			return Took{}, errors.Join(err, undo)
		}
		if i > 0 {
			update, effect = append(update, allowed.Took), append(effect, max(0, time.Duration(first-allowed.Began)))
		}
		if _, err := change(false); err != nil {
			return Took{}, fmt.Errorf("measure a rule update: remove the rule: %w", err)
		}
		if !p.closes() {
			return Took{}, fmt.Errorf("measure a rule update: packets to %s still pass after their rule was "+
				"removed", proof.Public)
		}
		if i > 0 && time.Since(began) > changeLimit {
			break
		}
	}
	return Took{median(update), median(effect)}, nil
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// sender sends packets all the time and notes when the first arrives.
type sender struct {
	source, sink *net.UDPConn
	sent         atomic.Int64
	first        atomic.Int64 // ns of CLOCK_MONOTONIC, 0: none has come
	ended        chan struct{}
	stop         atomic.Bool
}

func openSender(p ProofPacket, ends Ends) (*sender, error) {
	listen := func(in func(func() error) error, a netip.AddrPort) (c *net.UDPConn, err error) {
		err = in(func() error {
			return sock.Rebind(func() (err error) { // a sender before this one had the address, too
				c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(a))
				return err
			})
		})
		return c, err
	}
	sink, err := listen(ends.Sink, p.Sink)
	if err != nil {
		return nil, err
	}
	source, err := listen(ends.Source, p.Source)
	if err != nil {
		return nil, errors.Join(err, sink.Close())
	}
	r := &sender{source: source, sink: sink, ended: make(chan struct{}, 2)}
	go func() { // ends with the socket
		defer func() { r.ended <- struct{}{} }()
		buf := make([]byte, 16)
		for {
			if _, _, err := sink.ReadFromUDPAddrPort(buf); err != nil {
				if errors.Is(err, net.ErrClosed) {
					return
				}
				continue
			}
			r.first.CompareAndSwap(0, clock.Now())
		}
	}()
	go func() {
		defer func() { r.ended <- struct{}{} }()
		message := []byte("nettoll proof")
		for !r.stop.Load() {
			// refused where the filter stands inside the container: that is its answer
			_, err := source.WriteToUDPAddrPort(message, p.Public)
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
				return
			}
			r.sent.Add(1)
			time.Sleep(proofPause)
		}
	}()
	return r, nil
}

func (p *sender) close() {
	p.stop.Store(true)
	_ = p.source.Close()
	_ = p.sink.Close()
	<-p.ended
	<-p.ended
}

// passes says whether a packet comes within a time, in which some are sent: on a busy machine it may take longer.
func (p *sender) passes(within time.Duration) bool {
	p.first.Store(0)
	sent, deadline := p.sent.Load(), time.Now().Add(closingLimit)
	time.Sleep(within)
	for p.first.Load() == 0 && p.sent.Load() < sent+sentLeast && time.Now().Before(deadline) {
		time.Sleep(within)
	}
	return p.first.Load() != 0
}

// closes says whether packets stop coming.
func (p *sender) closes() bool {
	deadline := time.Now().Add(closingLimit)
	for p.passes(quiet) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// wait returns when the first packet came, in ns of CLOCK_MONOTONIC.
func (p *sender) wait() (int64, error) {
	deadline := time.Now().Add(effectLimit)
	for {
		if first := p.first.Load(); first != 0 {
			return first, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("measure a rule update: no packet passes within %v after its rule was added", effectLimit)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

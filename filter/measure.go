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
)

const (
	changes      = 6                     // of which the first does not count, and of the others the median: it finds neighbours that nobody has asked for yet
	changeLimit  = 5 * time.Second       // for all of them: a filter that takes longer is asked twice
	effectLimit  = 2 * time.Second       // until a packet passes after a change
	quiet        = 20 * time.Millisecond // in which nothing must pass
	probePause   = 10 * time.Microsecond // between packets
	closingLimit = 2 * time.Second       // until none passes any more: a daemon may look after its flows twice a second
	sentLeast    = 5                     // packets in a time in which none is to pass
)

// Measure notes what changing one rule among those that stand costs (rule_update_time, s: until the change has returned) and how long it is from there, its beginning, to the first packet
// that the new rule lets through (rule_effect_time, s; packets are sent every 10 µs and a bit). Steps call it from their own Measure. Without a probe it notes nothing.
// A probe that passes before it is allowed, or after it was taken back, is an error: the filter filters nothing.
func Measure(ctx context.Context, k *host.Kernel, s Step) error {
	probe := s.Listed().Probe
	if probe == nil {
		return nil
	}
	p, err := openProber(k, *probe)
	if err != nil {
		return fmt.Errorf("measure a change: %w", err)
	}
	defer p.close()
	var update, effect []time.Duration
	began := time.Now()
	for i := range changes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if i == 0 && p.passes(quiet) {
			return fmt.Errorf("measure a change: a packet to %s passes, and no rule allows it", probe.Public)
		}
		p.first.Store(0)
		at := time.Now()
		if err := s.Change(k, probe.Rule, true); err != nil {
			return fmt.Errorf("measure a change: %w", err)
		}
		took := time.Since(at)
		first, err := p.wait()
		if err != nil {
			return errors.Join(err, s.Change(k, probe.Rule, false))
		}
		if i > 0 {
			update, effect = append(update, took), append(effect, max(0, first.Sub(at)))
		}
		if err := s.Change(k, probe.Rule, false); err != nil {
			return fmt.Errorf("measure a change: take it back: %w", err)
		}
		if !p.closes() {
			return fmt.Errorf("measure a change: packets to %s pass on after their rule was taken back", probe.Public)
		}
		if i > 0 && time.Since(began) > changeLimit {
			break
		}
	}
	k.Metric("rule_update_time", median(update).Seconds())
	k.Metric("rule_effect_time", median(effect).Seconds())
	return nil
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// prober sends packets all the time and notes when the first arrives.
type prober struct {
	source, sink *net.UDPConn
	began        time.Time
	sent         atomic.Int64
	first        atomic.Int64 // ns since began, 0: none has come
	ended        chan struct{}
	stop         atomic.Bool
}

func openProber(k *host.Kernel, p Probe) (*prober, error) {
	listen := func(ns string, a netip.AddrPort) (c *net.UDPConn, err error) {
		err = k.Do(ns, func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(a))
			return err
		})
		return c, err
	}
	sink, err := listen(p.SinkNS, p.Sink)
	if err != nil {
		return nil, err
	}
	source, err := listen(p.SourceNS, p.Source)
	if err != nil {
		return nil, errors.Join(err, sink.Close())
	}
	r := &prober{source: source, sink: sink, began: time.Now(), ended: make(chan struct{}, 2)}
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
			r.first.CompareAndSwap(0, max(1, int64(time.Since(r.began))))
		}
	}()
	go func() {
		defer func() { r.ended <- struct{}{} }()
		message := []byte("nettoll probe")
		for !r.stop.Load() {
			_, err := source.WriteToUDPAddrPort(message, p.Public) // refused where the filter stands inside the container: that is its answer
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
				return
			}
			r.sent.Add(1)
			time.Sleep(probePause)
		}
	}()
	return r, nil
}

func (p *prober) close() {
	p.stop.Store(true)
	_ = p.source.Close()
	_ = p.sink.Close()
	<-p.ended
	<-p.ended
}

// passes says whether a packet comes within a time, in which some are sent: on a busy machine it may take longer.
func (p *prober) passes(within time.Duration) bool {
	p.first.Store(0)
	sent, deadline := p.sent.Load(), time.Now().Add(closingLimit)
	time.Sleep(within)
	for p.first.Load() == 0 && p.sent.Load() < sent+sentLeast && time.Now().Before(deadline) {
		time.Sleep(within)
	}
	return p.first.Load() != 0
}

// closes says whether packets stop coming.
func (p *prober) closes() bool {
	deadline := time.Now().Add(closingLimit)
	for p.passes(quiet) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// wait returns when the first packet came.
func (p *prober) wait() (time.Time, error) {
	deadline := time.Now().Add(effectLimit)
	for {
		if first := p.first.Load(); first != 0 {
			return p.began.Add(time.Duration(first)), nil
		}
		if time.Now().After(deadline) {
			return time.Time{}, fmt.Errorf("measure a change: no packet passes %v after its rule was added", effectLimit)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

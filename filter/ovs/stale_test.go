package ovs_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
)

// within is what opening a connection may take on a busy machine. Where its first packet or the answer is lost it takes
// a second (RFC 6298, section 2.1).
const within = 900 * time.Millisecond

// answering lets everyone connect at the port of a sink, until the test ends.
func answering(t *testing.T, k *host.Kernel, ns string, at netip.AddrPort) {
	t.Helper()
	var l net.Listener
	if err := k.Do(ns, func() (err error) {
		l, err = net.Listen("tcp", at.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
}

// What the datapath remembers of the time before a filter does not decide any more when its step has been applied, nor
// after it was undone: no packet of a connection is lost that is opened at once. It would be: the first packet passes
// by what is remembered and is not tracked, and its answer is refused by what is new.
func TestRemembered(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	for _, stateful := range []string{"true", "false"} {
		t.Run("stateful="+stateful, func(t *testing.T) {
			m, site, step := bare(t, map[string]string{"stateful": stateful, "rules": "1"})
			k, r := m.Kernel, site.List.Allowed[0]
			at := netip.AddrPortFrom(r.Sink, r.First)
			answering(t, k, site.List.Proof.SinkNS, at)
			open := func(when string) error {
				if err := k.Do(site.List.Proof.SourceNS, func() error {
					c, err := net.DialTimeout("tcp", at.String(), within)
					if err != nil {
						return err
					}
					_, err = io.Copy(io.Discard, c)
					return errors.Join(err, c.Close())
				}); err != nil {
					return fmt.Errorf("%s: %w", when, err)
				}
				return nil
			}
			var filters host.Stack
			plan := host.Plan{Steps: []host.Step{step}}
			// If the daemon has no CPU, its packets are as late as ones that are lost.
			limit := witness.Limit{Lost: 50 * time.Millisecond, Share: 0.1}
			witness.Until(t, limit, func() error { return open("without a filter") })
			rounds := 0
			for n := range 8 {
				witness.Until(t, limit, func() (err error) {
					if rounds++; rounds > 8+2 { // what fails now and then is no disturbance
						t.Fatal("more than two rounds had to be repeated")
					}
					if err := filters.Apply(t.Context(), k, plan); err != nil {
						t.Fatal(err)
					}
					for c := range 3 {
						err = errors.Join(err, open(fmt.Sprintf("time %d, connection %d", n, c)))
						time.Sleep(10 * time.Millisecond)
					}
					if err := filters.Undo(t.Context(), k); err != nil {
						t.Fatal(err)
					}
					return errors.Join(err, open("when it is gone"))
				})
			}
		})
	}
}

// A conversation whose rule is taken back while packets of it are sent is at an end: what the datapath remembers of the
// rule does not commit it once more.
func TestTakenBack(t *testing.T) {
	testnet.NotInGuest(t, "it shows what it has shown on the machine")
	m, site, step := raise(t, map[string]string{"stateful": "true"})
	k, proof := m.Kernel, site.List.Proof
	r := filter.Rule{Source: proof.Source.Addr(), Sink: proof.Sink.Addr(), First: 9, Last: 9}
	other := r
	other.First, other.Last = 10, 10
	var in *net.UDPConn
	var out net.Conn
	if err := errors.Join(
		k.Do(proof.SinkNS, func() (err error) {
			in, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.Sink, r.First)))
			return err
		}),
		k.Do(proof.SourceNS, func() (err error) {
			out, err = net.Dial("udp", netip.AddrPortFrom(r.Sink, r.First).String())
			return err
		}),
	); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	go func() {
		for {
			if _, err := out.Write([]byte("nettoll")); err != nil {
				return // it is closed
			}
			time.Sleep(20 * time.Microsecond)
		}
	}()
	arrives := func(limit time.Duration) bool {
		buf := make([]byte, 16)
		_ = in.SetReadDeadline(time.Now().Add(limit))
		_, from, err := in.ReadFromUDPAddrPort(buf)
		if err == nil { // a conversation is known when both have spoken
			_, err = in.WriteToUDPAddrPort(buf, from)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	}
	for n := range 10 {
		if err := step.UpdateRule(k, r, true); err != nil {
			t.Fatal(err)
		}
		if !arrives(5 * time.Second) {
			t.Fatalf("%d: no packet passes that is allowed", n)
		}
		// The daemon looks through what is remembered at once, and then not for 5 ms (udpif_revalidator in
		// ofproto-dpif-upcall.c).
		if err := step.UpdateRule(k, other, n%2 == 0); err != nil {
			t.Fatal(err)
		}
		if err := step.UpdateRule(k, r, false); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for arrives(50 * time.Millisecond) { // what had arrived before
			if time.Since(began) > 5*time.Second {
				t.Fatalf("%d: packets pass on after their rule was taken back", n)
			}
		}
	}
}

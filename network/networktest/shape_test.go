package networktest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/macvlan"
	"github.com/nettoll/nettoll/network/passthrough"
)

// TestUnderlayRate wants what arrives at a container of another host to be as much as the underlay carries, however
// much is sent.
func TestUnderlayRate(t *testing.T) {
	for _, n := range []network.Network{bridge.Network{}, macvlan.Network{}, passthrough.Network{}} {
		t.Run(n.Describe().Name, func(t *testing.T) {
			const rate = 20e6 // bit/s
			lab := Lab(2, 1)
			lab.Underlay.Rate = rate
			b := raised(t, n, lab)
			witness.Until(t, witness.Limit{Lost: 50 * time.Millisecond}, func() error {
				if got := arriving(t, b); got < 0.9*rate || got > 1.1*rate {
					return fmt.Errorf("%.1f Mbit/s of frames arrive over an underlay of %.1f", got/1e6, rate/1e6)
				}
				return nil
			})
		})
	}
}

// TestUnderlayDelay wants a round trip to take two delays.
func TestUnderlayDelay(t *testing.T) {
	lab := Lab(2, 1)
	lab.Underlay.Delay = 20 * time.Millisecond
	testnet.Skip(t, lab.Underlay.Check())
	b := raised(t, bridge.Network{}, lab)
	if err := b.exchange(); err != nil { // neighbours are asked for
		t.Fatal(err)
	}
	began := time.Now()
	if err := datagrams(b.ends("src", 0), b.ends("snk", 0), "ipv4", portForth, whole, small); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < Exchanged*2*lab.Underlay.Delay {
		t.Errorf("%d round trips take %v, and each packet is to be delayed by %v", Exchanged, took, lab.Underlay.Delay)
	}
}

// TestUnderlayUndone wants a shaped underlay to be undone from data, and its queues to be missed when somebody takes
// them away.
func TestUnderlayUndone(t *testing.T) {
	lab := Lab(2, 1)
	lab.Underlay.Rate = 1e9
	seen := map[string]bool{}
	if err := errors.Join(undo(t, passthrough.Network{}, lab), fromData(t, passthrough.Network{}, lab),
		tampering(t, passthrough.Network{}, seen, lab)); err != nil {
		testnet.Skip(t, err)
	}
	if !seen["send at full speed by a link"] {
		t.Errorf("nobody tampered with a shape: %v", seen)
	}
}

// raised is a lab that stands until the test ends.
func raised(t *testing.T, n network.Network, lab network.Lab) *Bed {
	t.Helper()
	b, err := MakeBed(t, n, lab)
	testnet.Skip(t, err)
	t.Cleanup(func() {
		if err := b.Undo(); err != nil {
			t.Error(err)
		}
	})
	testnet.Skip(t, b.Apply(t))
	if err := b.Verify(t); err != nil {
		t.Fatal(err)
	}
	return b
}

// arriving sends datagrams for a time without a pause, and returns at which rate their frames arrive, in bit/s.
func arriving(t *testing.T, b *Bed) float64 {
	t.Helper()
	const size = 1000
	const lasting = 600 * time.Millisecond
	source, sink := b.ends("src", 0), b.ends("snk", 0)
	out, err := source.udp(source.bind("ipv4", portForth), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := sink.udp(sink.bind("ipv4", portForth), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	end := time.Now().Add(lasting)
	if err := errors.Join(out.SetWriteDeadline(end), in.SetReadDeadline(end)); err != nil {
		t.Fatal(err)
	}
	go func() {
		for payload := make([]byte, size); time.Now().Before(end); {
			if _, err := out.WriteToUDPAddrPort(payload, sink.public("ipv4", portForth)); err != nil {
				time.Sleep(time.Millisecond) // the queue is full
			}
		}
	}()
	var first, last time.Time
	frames := 0
	for got := make([]byte, size); ; frames++ {
		if _, err := in.Read(got); err != nil {
			break
		}
		if last = time.Now(); frames == 0 {
			first = last
		}
	}
	if frames < 2 {
		t.Fatalf("%d datagrams arrive", frames)
	}
	return float64(frames-1) * 8 * (size + 8 + 20 + 14) / last.Sub(first).Seconds()
}

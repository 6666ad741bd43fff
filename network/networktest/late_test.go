package networktest

import (
	"encoding/binary"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ebpflink "github.com/cilium/ebpf/link"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux/bpf"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/passthrough"
)

// late is a lab whose packets are delayed and lost between hosts.
func late(t *testing.T) network.Lab {
	t.Helper()
	lab := Lab(2, 1)
	lab.Underlay = network.Medium{Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, Loss: 0.1}
	testnet.Skip(t, lab.Underlay.Check())
	return lab
}

// TestUnderlayLate wants datagrams to arrive late, in order and as seldom as the underlay says, and a tap to hear each
// of them once: those that are lost, too, unless their host loses them.
func TestUnderlayLate(t *testing.T) {
	for _, n := range []network.Network{bridge.Network{}, passthrough.Network{}} {
		t.Run(n.Describe().Name, func(t *testing.T) {
			lab := late(t)
			b := raised(t, n, lab)
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
			// a machine that stands still for longer than their patience has not lost what it sends afterwards, nor has a
			// reader that waits for a CPU while thousands arrive
			if err := errors.Join(out.SetDeadline(time.Time{}), control(in, func(s sock.Socket) error {
				return s.Set(sock.Options{RecvBuffer: 8 << 20})
			})); err != nil {
				t.Fatal(err)
			}
			send := func(number uint64) {
				payload := binary.BigEndian.AppendUint64([]byte(lateMark), number)
				payload = binary.BigEndian.AppendUint64(payload, uint64(time.Now().UnixNano()))
				if _, err := out.WriteToUDPAddrPort(payload, sink.public("ipv4", portForth)); err != nil {
					t.Error(err)
				}
			}
			for tries := 0; !arrives(t, in, 100*time.Millisecond); tries++ { // neighbours are asked for
				if tries > 100 {
					t.Fatal("no datagram arrives")
				}
				send(0)
			}
			time.Sleep(50 * time.Millisecond) // the last ones of those
			port := "host1"
			if n.Describe().Name == "passthrough" {
				port = "host1c0"
			}
			listen := host.Question{Tap: &host.Tap{Links: []string{port}, Mark: []byte(lateMark)}}
			if _, err := b.Underlay.Stack.Trace(t.Context(), b.Underlay.Kernel, listen); err != nil {
				t.Fatal(err)
			}
			const sent = 3000
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range uint64(sent) {
					if send(i + 1); i%20 == 0 {
						time.Sleep(time.Millisecond)
					}
				}
			}()
			numbers, delays := received(t, in, done)
			overtaken := 0
			for i, number := range numbers[1:] {
				if number < numbers[i] {
					overtaken++
				}
			}
			most := 0
			if netem(lab) { // packets that leave on several CPUs at the same time do that without jitter, too
				most = sent / 50
			}
			if overtaken > most {
				t.Errorf("%d of %d datagrams are overtaken by others", overtaken, len(numbers))
			}
			share, spread := 1-float64(len(numbers))/sent, math.Sqrt(lab.Underlay.Loss*(1-lab.Underlay.Loss)/sent)
			if math.Abs(share-lab.Underlay.Loss) > 5*spread {
				t.Errorf("%.2f %% of %d datagrams are lost, want %.2f %%", 100*share, sent, 100*lab.Underlay.Loss)
			}
			slices.Sort(delays)
			if least := lab.Underlay.Delay - lab.Underlay.Jitter; len(delays) > 0 && delays[0] < least {
				t.Errorf("a datagram arrives after %v, but none may before %v", delays[0], least)
			}
			trace, err := b.Underlay.Stack.Trace(t.Context(), b.Underlay.Kernel, host.Question{})
			if err != nil {
				t.Fatal(err)
			}
			heard := 0
			for _, f := range trace.Frames {
				heard += f.Marked
			}
			want := sent
			if port == "host1" && netem(lab) {
				want = len(numbers) // the host loses them
			}
			if heard != want {
				t.Errorf("the tap hears %d frames, want %d: %d were sent, and %d arrive", heard, want, sent, len(numbers))
			}
		})
	}
}

// netem says whether the kernel delays packets by itself.
func netem(lab network.Lab) bool {
	return link.CheckShape(link.Shape{Delay: lab.Underlay.Delay, MTU: lab.MTU}) == nil
}

const lateMark = "how late is it"

// arrives says whether a datagram comes within a time.
func arrives(t *testing.T, in *net.UDPConn, within time.Duration) bool {
	t.Helper()
	if err := in.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	_, err := in.Read(make([]byte, 100))
	return err == nil
}

// received reads what [TestUnderlayLate] sends until everything is sent and nothing comes any more.
func received(t *testing.T, in *net.UDPConn, done <-chan struct{}) (numbers []uint64, delays []time.Duration) {
	t.Helper()
	for got, all := make([]byte, 100), false; ; {
		if err := in.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := in.Read(got)
		switch {
		case err != nil && all:
			return numbers, delays
		case err != nil:
			<-done
			all = true
			continue
		case n != len(lateMark)+16:
			t.Fatalf("a datagram of %d bytes", n)
		}
		number := binary.BigEndian.Uint64(got[len(lateMark):])
		if number == 0 { // asked for neighbours
			continue
		}
		at := int64(binary.BigEndian.Uint64(got[len(lateMark)+8:]))
		numbers = append(numbers, number)
		delays = append(delays, time.Duration(time.Now().UnixNano()-at))
	}
}

// TestUnderlayLateUndone wants nothing to be left of a process that delays packets, also when another process undoes it
// from data.
func TestUnderlayLateUndone(t *testing.T) {
	lab := late(t)
	lab.Underlay.Rate = 1e9
	if err := errors.Join(undo(t, bridge.Network{}, lab), fromData(t, bridge.Network{}, lab)); err != nil {
		testnet.Skip(t, err)
	}
}

// TestUnderlayLateTampered wants Verify to notice what somebody does to a process that delays packets, and to what
// leads them there.
func TestUnderlayLateTampered(t *testing.T) {
	lab := late(t)
	if netem(lab) {
		testnet.Lacks(t, "a kernel without netem")
	}
	b, err := MakeBed(t, bridge.Network{}, lab)
	testnet.Skip(t, err)
	k := b.Underlay.Kernel
	tap := "dhost1"
	for _, c := range []struct {
		what, want string
		do         func() error
	}{
		{"kill the process", "delay-host1 died: signal: killed", func() error {
			r := k.Running("delay-host1")
			err := r.Signal(syscall.SIGKILL)
			<-r.Done()
			return err
		}},
		{"delete the TAP device", "the link is gone", func() error {
			h, err := k.Links("")
			if err != nil {
				return err
			}
			l, err := h.ByName(tap)
			if err != nil {
				return err
			}
			r := k.Running("delay-host1")
			err = h.Delete(l.Index)
			<-r.Done()
			return err
		}},
		{"set the TAP device down", "state of " + tap, func() error {
			h, err := k.Links("")
			if err != nil {
				return err
			}
			l, err := h.ByName(tap)
			if err != nil {
				return err
			}
			return h.SetUp(l.Index, false)
		}},
		{"take the program away", "program nettoll_away at host1", func() error {
			return k.Do("", func() error { return unhook("host1") })
		}},
		{"take the other program away", "program nettoll_back at " + tap, func() error {
			return k.Do("", func() error { return unhook(tap) })
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			testnet.Skip(t, b.Apply(t))
			err := b.Verify(t)
			if err == nil {
				if err = c.do(); err == nil {
					err = b.Verify(t)
					if _, drift := errors.AsType[*host.DriftError](err); !drift || !strings.Contains(err.Error(), c.want) {
						t.Errorf("Verify says %v, want a drift with %q", err, c.want)
					}
					err = nil
				}
			}
			if err := errors.Join(err, b.Undo()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// unhook takes all programs away from the ingress of a link of the calling thread's namespace.
func unhook(name string) error {
	links, err := bpf.Open()
	if err != nil {
		return err
	}
	defer links.Close()
	return bpf.EachLink(func(l ebpflink.Link) error {
		info, err := l.Info()
		if err != nil || info.TCX() == nil || int(info.TCX().Ifindex) != links.Index(name) {
			return err
		}
		return l.Detach()
	})
}

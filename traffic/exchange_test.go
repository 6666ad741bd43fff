package traffic

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet/witness"
)

const exchangeTrial = 7<<32 | 3

// exchange returns a prepared source, and the other end of its socket.
func exchange(t *testing.T, e *Exchange) sock.Socket {
	t.Helper()
	// A thread in a loop never gives its P back, and a garbage collection would wait for it, but the other end has to
	// run.
	before, collect := runtime.GOMAXPROCS(runtime.NumCPU()+2), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(collect)
	})
	loopback := netip.MustParseAddr("127.0.0.1")
	peer, err := sock.UDP(netip.AddrPortFrom(loopback, 0), netip.AddrPort{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	at, err := peer.Local()
	if err != nil {
		t.Fatal(err)
	}
	source, err := sock.UDP(netip.AddrPortFrom(loopback, 0), at)
	if err != nil {
		t.Fatal(err)
	}
	e.Flows, e.Out, e.In = []sock.Socket{source}, make([]byte, 64), make([]byte, 64)
	t.Cleanup(e.Close)
	for _, s := range []sock.Socket{peer, source} {
		if err := s.SetTimeout(Patience); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Init(); err != nil {
		t.Fatal(err)
	}
	e.Prepare(exchangeTrial)
	return peer
}

// serve calls answer for each request until it returns false, with the number and a function that sends an answer to a
// number of a trial. The source is to run on another thread, with its own CPU.
func serve(t *testing.T, peer sock.Socket, answer func(seq uint64, send func(trial, seq uint64)) bool) (run func(func()),
	stop func(),
) {
	t.Helper()
	threads := witness.Threads(t, 2)
	done := threads[0](func() {
		var buf [64]byte
		var from sock.Address
		for start := time.Now(); time.Since(start) < 5*time.Second; {
			n, errno := peer.RecvFrom(&buf[0], len(buf), 0, &from)
			if errno != 0 || n < HeaderSize {
				continue
			}
			_, seq, _ := Header((*[HeaderSize]byte)(buf[:]))
			if !answer(seq, func(trial, seq uint64) {
				PutHeader((*[HeaderSize]byte)(buf[:]), trial, seq, 0)
				peer.SendTo(&buf[0], HeaderSize, 0, &from)
			}) {
				return
			}
		}
	})
	return func(source func()) { <-threads[1](source) }, func() { <-done }
}

// Only answers of this trial to requests that wait for them count, each once.
func TestExchangeCounts(t *testing.T) {
	schedule := func() *Schedule {
		s, err := NewSchedule(ScheduleSpec{
			Rate: 1000, Arrivals: "constant", Sizes: "constant", Size: 64, Least: HeaderSize, Most: 64,
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, kind := range map[string]func() Exchange{
		"one in flight":         func() Exchange { return Exchange{} },
		"four in flight":        func() Exchange { return Exchange{InFlight: 4} },
		"on a schedule":         func() Exchange { return Exchange{Schedule: schedule()} },
		"on a schedule, asking": func() Exchange { return Exchange{Schedule: schedule(), Spin: true} },
	} {
		const lost, twice = 5, 7
		once := func(t *testing.T) (e *Exchange, seen int64) {
			e = new(Exchange)
			*e = kind()
			peer := exchange(t, e)
			held := false
			run, stop := serve(t, peer, func(seq uint64, send func(trial, seq uint64)) bool {
				if seq == Marker {
					if !held { // only a stray datagram and no answer: the source sends another request
						held = true
						send(exchangeTrial-1, Marker)
						return true
					}
					send(exchangeTrial, Marker)
					return false
				}
				seen++
				switch seq {
				case lost:
				case twice:
					send(exchangeTrial-1, seq)
					send(exchangeTrial, seq+1000) // a request that was not sent
					send(exchangeTrial, seq)
					send(exchangeTrial, seq)
				default:
					send(exchangeTrial, seq)
				}
				return true
			})
			length := int64(60e6)
			if e.Schedule == nil { // it waits for the lost one
				length += answerLimit
			}
			open := clock.Now()
			run(func() { e.Run(Window{Open: open, Start: open, Close: open + length}) })
			stop()
			return e, seen
		}
		t.Run(name, func(t *testing.T) {
			witness.Until(t, witness.Limit{Lost: DrainLimit / 2}, func() error {
				e, seen := once(t)
				s, latencies := e.Sample, e.Recorders[Latency].Count
				switch {
				case s.Total != seen || s.Sent != seen || s.Received != seen-1 || s.Late != 4 || s.Doubt != "":
					return fmt.Errorf("the other end saw %d requests and did not answer one: %+v", seen, s)
				case latencies != s.Received:
					return fmt.Errorf("%d latencies of %d answers", latencies, s.Received)
				case e.Schedule == nil:
					return nil
				case e.Recorders[Service].Count != s.Received || e.Recorders[Departure].Count != s.Sent:
					return fmt.Errorf("%d service times, %d departures of %+v", e.Recorders[Service].Count,
						e.Recorders[Departure].Count, s)
				case e.flying != 1:
					return fmt.Errorf("%d in flight at the end", e.flying)
				}
				return nil
			})
		})
	}
}

// On a schedule, latency counts from when a request was due. A source that stands still at that time does not make it
// shorter.
func TestExchangeDue(t *testing.T) {
	schedule, err := NewSchedule(ScheduleSpec{
		Rate: 1000, Arrivals: "constant", Sizes: "constant", Size: 64, Least: HeaderSize, Most: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &Exchange{Schedule: schedule}
	peer := exchange(t, e)
	run, stop := serve(t, peer, func(seq uint64, send func(trial, seq uint64)) bool {
		send(exchangeTrial, seq)
		return seq != Marker
	})
	open := clock.Now() - 20e6 // 20 ms ago: so the source is behind by that many requests
	run(func() { e.Run(Window{Open: open, Start: open, Close: open + 60e6}) })
	stop()
	if b := e.backlog; b < 19 {
		t.Errorf("backlog of %d, want 19 or more", b)
	}
	if r := e.Recorders[Latency]; e.Sample.Received > 0 && r.Max < 20e6 {
		t.Errorf("longest latency %d ns, want that of the first request, which was due 20 ms before it was sent", r.Max)
	}
	if r := e.Recorders[Service]; r.Max > e.Recorders[Latency].Max {
		t.Errorf("longest service time %d ns, longest latency %d", r.Max, e.Recorders[Latency].Max)
	}
}

// Requests that were due by the close but not sent, because the source stood still, are counted.
func TestUnsent(t *testing.T) {
	schedule, err := NewSchedule(ScheduleSpec{
		Rate: 1000, Arrivals: "constant", Sizes: "constant", Size: 64, Least: HeaderSize, Most: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &Exchange{Schedule: schedule, Unmarked: true}
	exchange(t, e)
	open := clock.Now() - 100e6 // the window closed 10 ms ago
	e.Run(Window{Open: open, Start: open + 10e6, Close: open + 90e6})
	if s := e.Sample; s.Unsent != 80 || s.Sent != 0 {
		t.Errorf("%d sent and %d not, want the 80 of the window not sent", s.Sent, s.Unsent)
	}
}

// A datagram of one byte identifies the request, and the end of the trial.
func TestCompact(t *testing.T) {
	e := &Exchange{Compact: true, In: make([]byte, 1)}
	seen := map[byte]bool{}
	for seq := range uint64(CompactMarker) {
		b := e.compact(seq)
		if b == CompactMarker || seen[b] {
			t.Errorf("request %d is %d", seq, b)
		}
		seen[b] = true
	}
	if got := e.compact(Marker); got != CompactMarker {
		t.Errorf("marker is %d", got)
	}
	e.In[0] = e.compact(3)
	if !e.answers(1, 3) || e.answers(1, 4) || e.answers(0, 3) || e.answers(1, Marker) {
		t.Error("a byte answers another request")
	}
	first := e.compact(0)
	if e.trial++; e.compact(0) == first {
		t.Error("the next trial begins with the same byte")
	}
}

// The checksum of an echo request is right (RFC 1071: the sum of everything is all ones).
func TestEcho(t *testing.T) {
	for i, seq := range []uint64{0, 1, 255, 65535, 65536, 1 << 40} {
		size := []int{EchoHeader + HeaderSize, 107, 108, 65515}[i%4]
		buf := Payload(size)
		StartEcho(buf, false, 0xfffe)
		PutHeader((*[HeaderSize]byte)(buf[EchoHeader:]), exchangeTrial, seq, 12345678)
		EchoRaw.finish(buf, seq, EchoRaw.rest(buf))
		if size%2 != 0 {
			buf = append(buf, 0)
		}
		sum := uint32(0)
		for i := 0; i < len(buf); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(buf[i:]))
		}
		for sum > 0xffff {
			sum = sum&0xffff + sum>>16
		}
		if sum != 0xffff {
			t.Errorf("request %d adds up to %x", seq, sum)
		}
		want := []byte{8, 0, buf[2], buf[3], 0xff, 0xfe, byte(seq >> 8), byte(seq)}
		if diff := cmp.Diff(want, buf[:EchoHeader]); diff != "" {
			t.Errorf("header of request %d (-want +got):\n%s", seq, diff)
		}
	}
}

func TestStamps(t *testing.T) {
	var buf [StampsSize]byte
	PutStamps(&buf, 1<<60+1, -2, 1<<62)
	if seq, came, left := Stamps(&buf); seq != 1<<60+1 || came != -2 || left != 1<<62 {
		t.Errorf("%d, %d, %d", seq, came, left)
	}
}

package flows

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
)

func TestMain(m *testing.M) { testnet.Main(m) }

const trialID = 7

// hears implements Hearer with a function.
type hears func(*Message)

func (h hears) Heard(m *Message) { h(m) }

// place returns a place on loopback, in a namespace of the test.
func place(t *testing.T, local, remote uint16) Place {
	t.Helper()
	h, err := link.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lo, err := h.ByName("lo")
	if err == nil && !lo.Up {
		err = h.SetUp(lo.Index, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	at := func(port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	}
	return Place{Local: at(local), Remote: at(remote), LocalPorts: 8, RemotePorts: 8}
}

func schedule(t *testing.T, rate float64, size int, arrivals string) *traffic.Schedule {
	t.Helper()
	s, err := traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: rate, Arrivals: arrivals, Sizes: "constant", Size: size, Least: DatagramHead, Most: 1 << 20, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// calm disables garbage collections: a collection that waits for a loop without a stopping point would miss its
// deadline.
func calm(t *testing.T) {
	t.Helper()
	collect := debug.SetGCPercent(-1)
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() {
		debug.SetGCPercent(collect)
		runtime.GOMAXPROCS(before)
	})
}

// borne is the limit for the loss in trials of which all messages are expected.
func borne() witness.Limit { return witness.Limit{Lost: traffic.DrainLimit / 2} }

// window returns a window that opens soon.
func window(length time.Duration) traffic.Window {
	open := clock.Now() + int64(5*time.Millisecond)
	return traffic.Window{Open: open, Start: open + int64(length)/10, Close: open + int64(length)}
}

// group is some ends, each with its own thread.
type group struct {
	ends    []*End
	threads []witness.Thread
}

func grouped(t *testing.T, ends ...*End) group {
	t.Helper()
	return group{ends, witness.Threads(t, len(ends))}
}

// each calls a function for every end, on the end's thread and at the same time.
func (g group) each(do func(*End)) {
	var running []<-chan struct{}
	for i, e := range g.ends {
		running = append(running, g.threads[i](func() { do(e) }))
	}
	for _, done := range running {
		<-done
	}
}

// drive runs a trial.
func (g group) drive(w traffic.Window, trial uint64) {
	g.each(func(e *End) {
		e.Run(trial, w)
		e.Collect()
	})
}

func (g group) prepare(trial uint64) { g.each(func(e *End) { e.Prepare(trial) }) }

func start(t *testing.T, e *End, err error) *End {
	t.Helper()
	if err == nil {
		err = e.Init()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Messages of several lanes are sent in the order in which they are due, and on each flow in the order of their
// numbers. Both ends may send and receive.
func TestLanes(t *testing.T) {
	calm(t)
	p := place(t, 10100, 10200)
	back := place(t, 10200, 10100)
	one, err := Datagrams(p, 4)
	if err != nil {
		t.Fatal(err)
	}
	far, err := Datagrams(back, 4)
	if err != nil {
		t.Fatal(err)
	}
	var got []Message
	got = slices.Grow(got, 1<<12)
	a := start(t, &End{
		Sockets: one, Longest: 200, Hears: true,
		Out: []Lane{
			{Schedule: schedule(t, 300, 100, "poisson"), First: 0, Count: 1},
			{Schedule: schedule(t, 500, 200, "uniform"), First: 1, Count: 2},
			{Schedule: schedule(t, 50, 40, "constant"), First: 3, Count: 1},
		},
	}, nil)
	b := start(t, &End{
		Sockets: far, Longest: 200, Hears: true, Out: []Lane{
			{Schedule: schedule(t, 400, 60, "constant"), First: 0, Count: 4},
		},
		Hearer: hears(func(m *Message) { got = append(got, *m) }),
	}, nil)
	g, trial := grouped(t, a, b), uint64(0)
	witness.Until(t, borne(), func() error { // a busy machine loses what does not fit into a buffer
		trial++
		g.prepare(trialID + trial)
		got = got[:0]
		g.drive(window(300*time.Millisecond), trialID+trial)
		if a.Sample().Doubt == "" && b.Sample().Doubt == "" && a.Sample().Sent == b.Sample().Received &&
			b.Sample().Sent == a.Sample().Received {
			return nil
		}
		return fmt.Errorf("trial %d: %+v, %+v", trial, a.sample, b.sample)
	})
	near, there := a.Sample(), b.Sample()
	if near.Failure+there.Failure+near.Doubt+there.Doubt != "" {
		t.Fatalf("%+v, %+v", near, there)
	}
	if near.Sent == 0 || near.Sent != there.Received || there.Sent == 0 || there.Sent != near.Received ||
		int64(len(got)) != near.Total {
		t.Errorf("sent %d and %d, received %d and %d; %d of %d heard", near.Sent, there.Sent, there.Received, near.Received,
			len(got), near.Total)
	}
	var next [4]uint64
	last := int64(0)
	sizes := []int{100, 200, 200, 40}
	for _, m := range got {
		if m.Seq != next[m.Flow] || m.Size != sizes[m.Flow] || m.Due < 0 || m.Came < m.Due {
			t.Fatalf("message %+v, want number %d of %d bytes", m, next[m.Flow], sizes[m.Flow])
		}
		next[m.Flow]++
		last = max(last, m.Due)
	}
	if next[1] != next[2] && next[1] != next[2]+1 {
		t.Errorf("flows of a lane have %d and %d messages, want them in turn", next[1], next[2])
	}
	if got := near.Counts[CountFlows]; got != 4 {
		t.Errorf("messages came on %d flows of 4", got)
	}
}

// Messages that arrive once, twice, too late, out of order or never are counted as such. Jitter is the mean difference
// of one-way times (RFC 3550, 6.4.1).
func TestCounts(t *testing.T) {
	p := place(t, 10300, 10400)
	list, err := Datagrams(p, 2)
	e := start(t, &End{Sockets: list, Longest: 100, Hears: true}, err)
	e.Prepare(trialID)
	now := clock.Now()
	e.window = traffic.Window{
		Open: now - int64(time.Second), Start: now - int64(time.Second) + 1000, Close: now + int64(time.Second),
	}
	e.start = 1000
	for _, m := range []struct {
		flow  int
		trial uint64
		seq   uint64
		since int64
	}{
		{0, trialID, 0, 999},      // before the window
		{0, trialID, 1, 1000},     // inside
		{0, trialID, 3, 5000},     // 2 is still missing
		{0, trialID, 2, 4000},     // reordered
		{0, trialID, 3, 5000},     // a second time
		{0, trialID - 1, 4, 6000}, // of an earlier trial
		{1, trialID, 0, 2000},
	} {
		e.came(m.flow, m.trial, m.seq, m.since, 100)
	}
	s := e.Sample()
	if s.Received != 4 || e.counts.reordered != 1 || e.counts.repeated != 1 || s.Late != 1 || e.counts.flows != 2 ||
		s.Bytes != 400 || e.heard != 5 {
		t.Errorf("%+v, %d heard", *s, e.heard)
	}
	if n := e.Recorders()[traffic.OneWay].Count; n != 4 {
		t.Errorf("%d one-way times recorded, want 4", n)
	}

	// Known times: three messages whose one-way times differ by 4000 and 1000 ns, minus the duration of the calls.
	e.Prepare(trialID)
	before := clock.Now()
	e.came(0, trialID, 0, 1000, 100)
	e.came(0, trialID, 1, 1000-1e9, 100) // outside: 1 s longer
	e.came(0, trialID, 2, 5000, 100)
	e.came(0, trialID, 3, 4000, 100)
	took := clock.Now() - before
	if got := e.counts.jitter; got < 5000-2*took || got > 5000+2*took {
		t.Errorf("jitter adds up to %d ns, want 5000 ± %d", got, 2*took)
	}
}

// Ends with different clocks record no one-way times.
func TestOwnClock(t *testing.T) {
	p := place(t, 10500, 10600)
	list, err := Datagrams(p, 1)
	e := start(t, &End{Sockets: list, Longest: 100, Hears: true, OwnClock: true, FirstApart: true}, err)
	e.Prepare(trialID)
	e.window.Open = clock.Now()
	e.came(0, trialID, 0, 0, 100)
	e.came(0, trialID, 1, 10, 100)
	if s := e.Sample(); s.Received != 2 || e.counts.first != 0 || e.counts.jitter == 0 ||
		e.Recorders()[traffic.OneWay] != nil {
		t.Errorf("%+v", *s)
	}
}

// streams opens both sides of some connections.
func streams(t *testing.T, port uint16, count, size int, rate float64) (source, sink *End) {
	t.Helper()
	there, err := Listen(place(t, port, 1), count)
	if err != nil {
		t.Fatal(err)
	}
	sink = start(t, &End{Streams: there, Longest: size, Hears: true}, nil)
	p := place(t, 1, port)
	p.Options = sock.Options{NoDelay: true, SendBuffer: 4 << 10}
	here, err := Call(p, count)
	if err != nil {
		t.Fatal(err)
	}
	source = start(t, &End{Streams: here, Longest: size, Out: []Lane{
		{Schedule: schedule(t, rate, size, "constant"), Count: count},
	}}, nil)
	if err := sink.Ready(traffic.ConnectLimit); err != nil {
		t.Fatal(err)
	}
	return source, sink
}

// A blocked stream delays only its own messages. It is replaced after the trial, and the next trial is not affected.
func TestBlockedStream(t *testing.T) {
	calm(t)
	const size = 8000
	source, sink := streams(t, 10700, 4, size, 1500)
	g := grouped(t, source, sink)
	sound := func(trial uint64) {
		t.Helper()
		witness.Until(t, borne(), func() error {
			g.prepare(trial)
			g.drive(window(150*time.Millisecond), trial)
			trial++
			a, b := source.Sample(), sink.Sample()
			if a.Failure+b.Failure+a.Doubt+b.Doubt != "" || b.Counts[CountFlows] != 4 || a.Sent != b.Received {
				return fmt.Errorf("%+v, %+v", *a, *b)
			}
			return nil
		})
	}
	sound(trialID)
	// The sink ignores one connection: its buffers fill up, and it is not read.
	sink.Prepare(trialID + 100)
	source.Prepare(trialID + 100)
	sink.watcher.Forget(sink.sockets[2])
	w := window(800 * time.Millisecond) // 300 messages of 8000 bytes for each: more than the receive buffer
	g.drive(w, trialID+100)
	a, b := source.Sample(), sink.Sample()
	if a.Counts[traffic.CountBacklog] == 0 || a.Unsent == 0 || a.Counts[CountBlocked] == 0 || a.Doubt == "" {
		t.Errorf("the source with a stream that takes nothing: %+v", *a)
	}
	due := int64(1500 * 0.72)
	if b.Counts[CountFlows] != 3 || b.Received < due*3/4*9/10 {
		t.Errorf("%d messages came on %d flows, want %d on 3: %+v", b.Received, b.Counts[CountFlows], due*3/4, *b)
	}
	sound(trialID + 200)
}

// A connection that breaks during a trial fails the trial, with its name in the error. The next trial has a new
// connection.
func TestBrokenStream(t *testing.T) {
	calm(t)
	source, sink := streams(t, 10800, 3, 500, 2000)
	g := grouped(t, source, sink)
	trial := uint64(trialID)
	// On a busy machine it may break after the trial is over.
	witness.Until(t, borne(), func() error {
		g.prepare(trial)
		connection, broken := sink.sockets[1], make(chan struct{})
		time.AfterFunc(50*time.Millisecond, func() {
			connection.Shutdown()
			close(broken)
		})
		g.drive(window(150*time.Millisecond), trial)
		<-broken
		trial++
		if got := sink.Sample().Failure; got != "1 of 3 connections broke" {
			return fmt.Errorf("the sink's failure: %q", got)
		}
		return nil
	})
	witness.Until(t, borne(), func() error {
		trial++
		g.prepare(trial)
		g.drive(window(100*time.Millisecond), trial)
		if a, b := source.Sample(), sink.Sample(); a.Failure+b.Failure+a.Doubt+b.Doubt != "" || b.Counts[CountFlows] != 3 {
			return fmt.Errorf("%+v, %+v", *a, *b)
		}
		return nil
	})
}

// Ends of abandoned connections, and their replacements, may arrive after the next trial was prepared, and the ends may
// be lost: that trial then has the new connections, and does not fail.
func TestLateEnd(t *testing.T) {
	calm(t)
	for name, give := range map[string]func(*End){
		"late": (*End).dropAll,
		"lost": func(e *End) {
			for _, c := range e.sockets { // in repair mode the kernel sends nothing at a close (tcp(7))
				if err := unix.SetsockoptInt(c.FD, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
					t.Fatal(err)
				}
			}
			e.dropAll()
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, sink := streams(t, 10900, 4, 500, 2000)
			g := grouped(t, source, sink)
			trial := uint64(trialID)
			witness.Until(t, borne(), func() error {
				sink.Prepare(trial)
				give(source)
				source.Prepare(trial)
				g.drive(window(150*time.Millisecond), trial)
				trial++
				a, b := source.Sample(), sink.Sample()
				if a.Failure+b.Failure != "" {
					t.Fatalf("%+v, %+v", *a, *b)
				}
				if a.Doubt+b.Doubt != "" || b.Counts[CountFlows] != 4 || a.Sent != b.Received {
					return fmt.Errorf("%+v, %+v", *a, *b)
				}
				return nil
			})
		})
	}
}

// frame returns a message in the format of a stream.
func frame(trial, seq uint64, since int64, size int) []byte {
	b := make([]byte, size)
	traffic.PutHeader((*[traffic.HeaderSize]byte)(b), trial, seq, since)
	binary.LittleEndian.PutUint32(b[traffic.HeaderSize:], uint32(size))
	return b
}

// bare returns an end of one stream without a socket.
func bare() *End {
	w, _ := sock.NewWatcher()
	e := &End{
		Streams: &Streams{}, Hears: true, Longest: 3000, sockets: []sock.Socket{{FD: -1}}, flows: make([]flow, 1),
		in: make([]byte, readSize), out: make([]byte, 3000), watcher: w,
	}
	e.trial, e.told = trialID, -1
	return e
}

func TestParse(t *testing.T) {
	var text []byte
	random := rand.New(rand.NewPCG(1, 2))
	want := ""
	for i := range uint64(200) {
		size := StreamHead + random.IntN(2900)
		text = append(text, frame(trialID, i, int64(i), size)...)
		want += fmt.Sprintf("%d:%d ", i, size)
	}
	for _, most := range []int{1, 27, 28, 29, 1000, readSize} {
		e, got := bare(), ""
		e.Hearer = hears(func(m *Message) { got += fmt.Sprintf("%d:%d ", m.Seq, m.Size) })
		for rest := text; len(rest) > 0; {
			n := copy(e.in, rest[:min(len(rest), 1+random.IntN(most))])
			e.parse(0, n)
			rest = rest[n:]
		}
		if got != want || e.broken != 0 {
			t.Errorf("in pieces of up to %d bytes: %q", most, got)
		}
		e.watcher.Close()
	}
}

// FuzzParse checks that nothing is read beyond the received bytes, and that data that is not a message breaks the
// stream.
func FuzzParse(f *testing.F) {
	f.Add(frame(trialID, 0, 5, 100), 3)
	f.Add(append(frame(trialID, 0, 5, 28), frame(trialID, marker, 1, 28)...), 40)
	f.Add([]byte("no message of nettoll, which is long enough"), 64)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		if len(text) > readSize || piece < 1 {
			return
		}
		e := bare()
		defer e.watcher.Close()
		heard := 0
		e.Hearer = hears(func(m *Message) {
			if heard += m.Size; heard > len(text) || m.Size < StreamHead || m.Size > e.Longest {
				t.Fatalf("%+v of %d bytes", *m, len(text))
			}
		})
		for rest := text; len(rest) > 0 && e.broken == 0; {
			n := copy(e.in, rest[:min(len(rest), piece)])
			e.parse(0, n)
			rest = rest[n:]
		}
	})
}

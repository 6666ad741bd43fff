package udprate

import (
	"math"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

const trialID = 7

// ends opens an endpoint and a bare socket as its peer, on loopback.
func ends(t *testing.T, side workload.Side) (traffic.Endpoint, sock.Socket) {
	t.Helper()
	// A loop that waits for its end marker has no point at which it can be stopped: a garbage collection would wait for
	// it, and the sender of the marker for the collection.
	collect := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(collect) })
	runtime.GC() // a collection that has begun ends first
	workloadtest.Loopback(t)
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	at := []netip.AddrPort{
		netip.AddrPortFrom(loopback, workloadtest.FreePort()),
		netip.AddrPortFrom(loopback, workloadtest.FreePort()),
	}
	e, err := Workload{}.Open(workload.Spec{
		Params: resolve(t, nil), Side: side, Local: at[0], Remote: at[1], LocalPorts: 1, RemotePorts: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	peer, err := sock.UDP(at[1], at[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	if err := peer.SetTimeout(time.Second); err != nil {
		t.Fatal(err)
	}
	return e, peer
}

func resolve(t *testing.T, given map[string]string) part.Params {
	t.Helper()
	p, err := Workload{}.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a trial on a locked thread.
func run(e traffic.Endpoint, w traffic.Window) <-chan traffic.Sample {
	return begin(e, func() traffic.Window { return w })
}

// runNow runs a trial whose window opens when a locked thread runs, and lasts as long as given. It returns the window.
func runNow(e traffic.Endpoint, window time.Duration) (traffic.Window, <-chan traffic.Sample) {
	opened := make(chan traffic.Window, 1)
	done := begin(e, func() traffic.Window {
		now := clock.Now()
		w := traffic.Window{Open: now, Start: now, Close: now + int64(window)}
		opened <- w
		return w
	})
	return <-opened, done
}

// begin runs a trial on a locked thread, which asks for its window.
func begin(e traffic.Endpoint, window func() traffic.Window) <-chan traffic.Sample {
	done := make(chan traffic.Sample, 1)
	e.Prepare(trialID)
	go func() {
		runtime.LockOSThread()
		e.Run(trialID, window())
		e.(traffic.Collector).Collect()
		done <- *e.Sample()
	}()
	return done
}

// unawaited removes the counters that depend on the speed of the test.
func unawaited(s traffic.Sample) traffic.Sample {
	if delete(s.Counts, countAwaited); len(s.Counts) == 0 {
		s.Counts = nil
	}
	return s
}

func put(t *testing.T, s sock.Socket, trial, seq uint64, sent int64) {
	t.Helper()
	var buf [traffic.HeaderSize]byte
	traffic.PutHeader(&buf, trial, seq, sent)
	if _, errno := s.Send(&buf[0], len(buf), 0); errno != 0 {
		t.Fatal(errno)
	}
}

// A sink counts what was sent inside the window and arrived for the first time, and recognizes copies and late
// datagrams.
func TestSinkCounts(t *testing.T) {
	e, peer := ends(t, workload.Sink)
	w := traffic.Window{Open: 1000, Start: 2000, Close: math.MaxInt64 / 2}
	done := run(e, w)
	for _, d := range []struct {
		trial, seq uint64
		since      int64
	}{
		{trialID, 0, 0},        // before the window
		{trialID, 2, 999},      // before the window, the previous one missing for now
		{trialID, 2, 999},      // a copy from before the window
		{trialID, 4, 1000},     // the first inside
		{trialID, 1, 500},      // late, but sent before the window
		{trialID, 3, 1000},     // late
		{trialID, 3, 1000},     // twice
		{trialID, 4, 1000},     // a copy of an early one
		{trialID - 1, 5, 2000}, // of the trial before
		{trialID, 6, 2000},     // number 5 is lost
		{trialID, 100_000, 3000},
		{trialID, 7, 2000}, // so late that it is unknown
		{trialID, 99_999, 3000},
	} {
		put(t, peer, d.trial, d.seq, d.since)
	}
	short := byte(0)
	if _, errno := peer.Send(&short, 1, 0); errno != 0 {
		t.Fatal(errno)
	}
	put(t, peer, trialID, traffic.Marker, 3<<markerNumber|markerOver)
	var answer [64]byte
	n, errno := peer.RecvParked(answer[:]) // the scheduler must know that this call waits
	if trial, seq, number := traffic.Header((*[traffic.HeaderSize]byte)(answer[:])); errno != 0 ||
		n != traffic.HeaderSize || trial != trialID || seq != traffic.Marker || number != 8<<markerNumber|markerOver {
		t.Errorf("answer to the third end marker: %d bytes (%v), trial %d, number %d, %x", n, errno, trial, seq, number)
	}
	want := traffic.Sample{
		Received: 5, // 4, 3, 6, 100000, 99999
		Total:    8, // plus 0, 2 and 1
		Counts:   traffic.Counts{traffic.CountRepeated: 2, traffic.CountReordered: 2},
		Late:     2, // of another trial, and too late
		Bytes:    8 * traffic.HeaderSize,
	}
	if diff := cmp.Diff(want, unawaited(<-done)); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
}

// Without an end marker, the sink gives up when the drain is over, and keeps what it has.
func TestSinkWithoutMarker(t *testing.T) {
	e, peer := ends(t, workload.Sink)
	now := clock.Now()
	done := run(e, traffic.Window{Open: now, Start: now, Close: now + 1e6})
	for seq := range uint64(10) {
		put(t, peer, trialID, seq, now)
	}
	want := traffic.Sample{Received: 10, Total: 10, Bytes: 10 * traffic.HeaderSize, Doubt: markerLost}
	if diff := cmp.Diff(want, unawaited(<-done)); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
	if asks := e.(*sink).asks; asks == mostAsks {
		t.Error("a sink that waited in vain for 20 ms still asks as often as at first")
	}
	// The marker of the previous trial, sent again because its answer was late, does not end the next trial.
	put(t, peer, trialID-1, traffic.Marker, 0)
	now = clock.Now()
	if s := <-run(e, traffic.Window{Open: now, Start: now, Close: now + 1e6}); s.Late != 1 || s.Doubt != markerLost {
		t.Errorf("a marker of the trial before: %+v", s)
	}
}

// A sink whose buffer is full when the end markers arrive answers a later marker, and counts what the buffer held.
func TestFullBuffer(t *testing.T) {
	e, peer := ends(t, workload.Source)
	w, done := runNow(e, 20*time.Millisecond)
	for clock.Now() < w.Close+3e6 { // sleep until the first markers have been dropped
		time.Sleep(time.Millisecond)
	}
	slow := &sink{endpoint: endpoint{sock: peer, buf: make([]byte, 64)}, counters: make([]traffic.Counter, 1)}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slow.Run(trialID, traffic.Window{Open: w.Open, Start: w.Start, Close: math.MaxInt64 / 2})
	slow.Collect()
	source, sink := <-done, slow.sample
	if source.Doubt != "" && source.Doubt != markerLost { // lost, if this thread woke up after the drain was over
		t.Errorf("source: %q", source.Doubt)
	}
	if sink.Received == 0 || sink.Received >= source.Sent || sink.Total > source.Total {
		t.Errorf("a sink that woke up at the end received %d of %d sent", sink.Received, source.Sent)
	}
	trial := workload.Trial{
		Params: resolve(t, nil), Window: 20 * time.Millisecond, Length: 20 * time.Millisecond,
		Sources: []traffic.Sample{source}, Sinks: []traffic.Sample{sink},
	}
	if r := (Workload{}).Metrics(trial); !strings.Contains(strings.Join(r.Warnings, "; "),
		lossOver(lossMuch)) {
		t.Errorf("warnings of %v: %q", r.Metrics, r.Warnings)
	}
}

// If nobody listens, datagrams that the kernel refuses are not counted as sent, and the others are lost.
func TestRefused(t *testing.T) {
	e, peer := ends(t, workload.Source)
	peer.Close()
	_, done := runNow(e, 5*time.Millisecond)
	s := <-done
	if s.Sent == 0 || s.Sent != s.Total || s.Doubt != markerLost || s.Failure != "" {
		t.Errorf("sample %+v", s)
	}
}

// If nothing is sent inside the window, the trial fails with the reason.
func TestCannotSend(t *testing.T) {
	nowhere := sock.Socket{FD: -1}
	e := &source{
		endpoint: endpoint{sock: nowhere, buf: make([]byte, 64)}, flows: []sock.Socket{nowhere}, size: 64,
		stride: 64, most: 1,
	}
	_, done := runNow(e, 5*time.Millisecond)
	<-done
	e.Collect()
	if e.sample.Sent != 0 || e.sample.Failure != "no datagram was sent inside the window: bad file descriptor" {
		t.Errorf("sample %+v", e.sample)
	}
	late, _ := ends(t, workload.Source)
	_, done = runNow(late, 0) // the thread had no CPU until then
	<-done
	late.(*source).Collect()
	if s := late.Sample(); s.Sent != 0 || s.Failure != "no datagram was sent inside the window" {
		t.Errorf("sample of one that came too late: %+v", s)
	}
}

func TestMetrics(t *testing.T) {
	trial := workload.Trial{
		Params: resolve(t, map[string]string{"payload": "100"}), Window: 500 * time.Millisecond, Length: time.Second,
		Sources: []traffic.Sample{
			{Sent: 1000, Total: 2000, CPU: 600, Span: 1000}, {Sent: 3000, Total: 6000, CPU: 200, Span: 1000},
		},
		Sinks: []traffic.Sample{
			{Received: 999, Total: 1999, Counts: traffic.Counts{traffic.CountRepeated: 8}, CPU: 100, Span: 1000},
			{Received: 2999, Total: 5999, Counts: traffic.Counts{traffic.CountReordered: 4}, CPU: 100, Span: 1000},
		},
		Softirqd: 7 * time.Microsecond,
	}
	want := workload.Result{
		Metrics: map[string]float64{
			"packet_rate": 7996, "packet_rate_sent": 8000, "goodput": 6.3968e6,
			"packet_rate_per_pair": 3998, "packet_rate_sent_per_pair": 4000, "goodput_per_pair": 3.1984e6,
			"loss": 0.0005, "duplicates": 8. / 3998, "reordering": 4. / 3998,
			"cpu_source": 0.8, "cpu_sink": 0.2, "cpu_user": 0, "cpu_softirqd": 7e-6, "cpu_busy": 1.000007,
			"cpu_per_packet": 8e-6 / 7998,
		},
		PerPair: map[string][]float64{"packet_rate": {1998, 5998}, "packet_rate_sent": {2000, 6000}},
	}
	near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Abs(x+y) })
	got := Workload{}.Metrics(trial)
	if diff := cmp.Diff(want, got, near,
		cmp.FilterValues(func(x, y []string) bool { return len(x)+len(y) == 0 }, cmp.Ignore())); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	trial.Sinks[0].Received = 900
	if w := (Workload{}).Metrics(trial).Warnings; len(w) != 1 || w[0] != lossOver(lossSome) {
		t.Errorf("warnings %q", w)
	}
	trial.Sinks, trial.Sources = make([]traffic.Sample, 2), make([]traffic.Sample, 2)
	for name, v := range (Workload{}).Metrics(trial).Metrics {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s of nothing: %g", name, v)
		}
	}
}

func TestLimitOf(t *testing.T) {
	for _, tt := range []struct {
		name         string
		source, sink traffic.Sample
		want         workload.Limit
	}{
		{"nothing lost, and the sink waited", traffic.Sample{Total: 1000}, traffic.Sample{
			Total: 1000, Counts: traffic.Counts{countAwaited: 900},
		}, workload.BySender},
		{"a datagram in a thousand lost", traffic.Sample{Total: 1000}, traffic.Sample{
			Total: 999, Counts: traffic.Counts{countAwaited: 900},
		}, workload.BySender},
		{"the sink was never done", traffic.Sample{Total: 1000}, traffic.Sample{
			Total: 1000, Counts: traffic.Counts{countAwaited: 100},
		}, ""},
		{
			"the send buffer was full",
			traffic.Sample{Total: 1000, Counts: traffic.Counts{countBlocked: 1}},
			traffic.Sample{Total: 1000, Counts: traffic.Counts{countAwaited: 900}},
			workload.ByPath,
		},
		{
			"lost on the way",
			traffic.Sample{Total: 1000},
			traffic.Sample{Total: 900, Counts: traffic.Counts{countDropped: 50}},
			workload.ByPath,
		},
		{"dropped by the sink", traffic.Sample{Total: 1000}, traffic.Sample{
			Total: 900, Counts: traffic.Counts{countDropped: 51, countAwaited: 900},
		}, workload.ByReceiver},
		{"the sink gave up", traffic.Sample{Total: 1000}, traffic.Sample{Total: 900, Doubt: markerLost}, ""},
		{"behind a queue", traffic.Sample{
			Total: 1000, Counts: traffic.Counts{countBlocked: 1},
		}, traffic.Sample{Total: 900, Doubt: markerLost}, workload.ByPath},
		{"a foreign program", traffic.Sample{Total: 1000}, traffic.Sample{Total: 900, Window: 1}, ""},
		{"nothing sent", traffic.Sample{}, traffic.Sample{}, ""},
	} {
		trial := workload.Trial{
			Params: resolve(t, nil), Sources: []traffic.Sample{tt.source},
			Sinks: []traffic.Sample{tt.sink},
		}
		if got := limitOf(trial); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	found := workload.Trial{
		Params: resolve(t, map[string]string{"search": noDrop}), Window: time.Second, Length: time.Second,
		Sources: []traffic.Sample{
			{Sent: 100, Received: 99, Window: 5e8, Total: 5000}, {Sent: 300, Received: 300, Window: 5e8, Total: 5000},
		},
		Sinks: []traffic.Sample{{Total: 4000, Counts: traffic.Counts{countDropped: 900}}, {Total: 5000}},
	}.Settled()
	r := Workload{}.Metrics(found)
	if r.Metrics["no_drop_rate"] != 800 || r.Metrics["packet_rate"] != 798 || r.Metrics["loss"] != 0.0025 ||
		r.Limit != workload.ByReceiver {
		t.Errorf("a search: %v, limit %q", r.Metrics, r.Limit)
	}
}

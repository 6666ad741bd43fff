package underload

import (
	"math"
	"net/netip"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/linux/sock"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

const trialID = 7

// ends opens an endpoint and a bare socket as its peer, on loopback.
func ends(t *testing.T, side workload.Side, given map[string]string) (traffic.Endpoint, sock.Socket) {
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
	params, err := (Workload{}).Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Workload{}.Open(workload.Spec{Params: params, Side: side, Local: at[0], Remote: at[1]})
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

// run runs a trial on a locked thread.
func run(e traffic.Endpoint, w traffic.Window) <-chan traffic.Sample {
	return begin(e, func() traffic.Window { return w })
}

// runNow runs a trial that opens when a locked thread runs, with a window as far from there as given. It returns the
// window when the trial has ended.
func runNow(e traffic.Endpoint, start, end time.Duration) (w traffic.Window) {
	<-begin(e, func() traffic.Window {
		now := clock.Now()
		w = traffic.Window{Open: now, Start: now + int64(start), Close: now + int64(end)}
		return w
	})
	return w
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

func put(t *testing.T, s sock.Socket, trial, seq uint64, since int64) {
	t.Helper()
	var buf [traffic.HeaderSize]byte
	traffic.PutHeader(&buf, trial, seq, since)
	if _, errno := s.Send(&buf[0], len(buf), 0); errno != 0 {
		t.Fatal(errno)
	}
}

// get receives an answer.
func get(t *testing.T, s sock.Socket) (seq uint64, since int64) {
	t.Helper()
	var buf [100]byte
	// The scheduler must know that this call waits: otherwise a collection would wait for it, and the answering sink
	// for the collection.
	n, errno := s.RecvParked(buf[:])
	for errno == sock.Interrupted {
		n, errno = s.RecvParked(buf[:])
	}
	if errno != 0 || n != traffic.HeaderSize {
		t.Fatalf("an answer of %d bytes (%v), want a header", n, errno)
	}
	trial, seq, since := traffic.Header((*[traffic.HeaderSize]byte)(buf[:]))
	if trial != trialID {
		t.Errorf("an answer of trial %d", trial)
	}
	return seq, since
}

// A sink answers datagrams that ask for it, times the flood, and counts what was sent inside the window once.
func TestSink(t *testing.T) {
	e, peer := ends(t, workload.Sink, nil)
	w := traffic.Window{Open: 1000, Start: 2000, Close: math.MaxInt64 / 2}
	done := run(e, w)
	const flooded = 161 // the last one after the last clock read
	began := clock.Now()
	for i := range uint64(flooded) {
		put(t, peer, trialID, i|flooding, 0)
	}
	put(t, peer, trialID, floodEnd, 0)
	seq, rate := get(t, peer)
	if least := (flooded - 2) * int64(time.Second) / (clock.Now() - began); seq != floodEnd || rate < least {
		t.Errorf("a flood with a rate of %d (answer to %x), want at least %d", rate, seq, least)
	}
	for _, d := range []struct {
		trial, seq uint64
		since      int64
	}{
		{trialID, 0, 999},          // before the window
		{trialID, 1 | asked, 1000}, // the first inside
		{trialID, 3, 1000},
		{trialID, 2 | asked, 1000},     // late
		{trialID, 2 | asked, 1000},     // twice, and answered twice
		{trialID - 1, 4 | asked, 2000}, // of the trial before
	} {
		put(t, peer, d.trial, d.seq, d.since)
	}
	put(t, peer, trialID, traffic.Marker, 3)
	for _, want := range []uint64{1 | asked, 2 | asked, 2 | asked, traffic.Marker} {
		if seq, _ := get(t, peer); seq != want {
			t.Errorf("an answer to %x, want %x", seq, want)
		}
	}
	want := traffic.Sample{Received: 3, Total: flooded + 4, Late: 1, Counts: traffic.Counts{
		traffic.CountRepeated: 1, traffic.CountReordered: 1,
	}}
	got := <-done
	delete(got.Counts, countAwaited)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
}

// A flood of which too little arrived has no rate.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		flood flood
		want  int64
	}{
		{flood{}, -1},
		{flood{count: 15, timed: 8, first: 1, last: 1000}, -1},
		{flood{count: 64, timed: 64, first: 1000, last: 1000}, -1},
		{flood{count: 107, timed: 101, first: 1e9, last: 1.001e9}, 100_000},
	} {
		if got := c.flood.rate(); got != c.want {
			t.Errorf("%+v: %d a second, want %d", c.flood, got, c.want)
		}
	}
}

// The load is the share of the median of all floods, whatever single floods measured.
func TestCapacity(t *testing.T) {
	e, _ := ends(t, workload.Source, map[string]string{"share": "20%"})
	s := e.(*source)
	for _, c := range []struct{ found, want int64 }{{100, 100}, {300, 200}, {90_000, 300}, {250, 275}, {1, 250}} {
		s.Prepare(trialID)
		s.found = c.found
		if !s.calibrate() || s.counts.capacity != c.want || math.Abs(s.schedule.Rate()/(0.2*float64(c.want))-1) > 1e-9 {
			t.Errorf("after a flood of %d: a capacity of %d and a load of %g, want %d", c.found, s.counts.capacity,
				s.schedule.Rate(), c.want)
		}
	}
	for _, nothing := range []int64{0, -1} {
		s.Prepare(trialID)
		if s.found = nothing; s.calibrate() {
			t.Errorf("a capacity of a flood of %d", nothing)
		}
	}
	for range mostFloods + 10 {
		s.found = 7
		s.calibrate()
	}
	if s.counts.capacity != 7 || len(s.floods) != mostFloods {
		t.Errorf("a capacity of %d of %d floods", s.counts.capacity, len(s.floods))
	}
}

// A source that begins too late sends at once what is due: the latency of each datagram counts from when it was due,
// the service time does not.
func TestBehind(t *testing.T) {
	const behind, rate = int64(20 * time.Millisecond), 10_000
	e, peer := ends(t, workload.Source, map[string]string{"share": "none", "rate": "10k/s", "answer-every": "1"})
	s := e.(*source)
	s.Prepare(trialID)
	echo := &sink{endpoint: endpoint{sock: peer, in: make([]byte, largest)}}
	done := run(echo, traffic.Window{Close: clock.Now() + int64(10*time.Second)}) // until the end marker
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := clock.Now()
	s.Run(trialID, traffic.Window{Open: now - behind, Start: now - behind, Close: now + int64(10*time.Millisecond)})
	s.Collect()
	sunk := <-done
	if s.sample.Failure != "" || s.sample.Sent > rate*int64(30*time.Millisecond)/1e9 || s.sample.Sent < 200 ||
		sunk.Received > s.sample.Sent || s.sample.Received > sunk.Received {
		t.Fatalf("source %+v, sink %+v", s.sample, sunk)
	}
	if s.counts.backlog < 199 {
		t.Errorf("%d are due and not sent when the first is, want 199 and more", s.counts.backlog)
	}
	if s.departure.Max < behind || s.latency.Max < behind {
		t.Errorf("the first left %d ns late and took %d ns, want more than %d", s.departure.Max, s.latency.Max, behind)
	}
	if late := s.latency.Sum - s.service.Sum; s.latency.Count != s.sample.Received || late < 199*behind/3 &&
		s.sample.Received > 199 {
		t.Errorf("%d latencies of %d answers; they are %d ns more than the service times", s.latency.Count, s.sample.Received,
			late)
	}
}

// Copies of answers, and answers of another trial, are not counted, and the last expected answer ends the search for
// answers.
func TestAnswers(t *testing.T) {
	e, peer := ends(t, workload.Source, map[string]string{"answer-every": "10"})
	s := e.(*source)
	s.Prepare(trialID)
	w := traffic.Window{Open: 0, Start: 100, Close: math.MaxInt64 / 2}
	for _, number := range []uint64{10, 15, 20} {
		if !s.send(trialID, w, number, 0, 1000, 2000) {
			t.Fatal(s.refused)
		}
	}
	if s.awaits != 20|asked {
		t.Errorf("it awaits %x, want the answer to number 20", s.awaits)
	}
	for _, d := range []struct {
		trial, seq uint64
		since      int64
	}{
		{trialID - 1, 10 | asked, 2000},
		{trialID, 10*(1+outstanding) | asked, 2000}, // number 10 has its place
		{trialID, 10 | asked, 2000},
		{trialID, 10 | asked, 2000},
		{trialID, 20 | asked, 99}, // from before the window
		{trialID, 20 | asked | flooding, 2000},
		{trialID, traffic.Marker, 0},
	} {
		put(t, peer, d.trial, d.seq, d.since)
		for range 100 {
			s.look(trialID, w)
		}
	}
	if s.awaits != 0 || !s.over || s.sample.Late != 2 || s.sample.Received != 1 || s.counts.repeated != 1 ||
		s.latency.Count != 1 {
		t.Errorf("awaits %x, over %v, %d latencies, %+v", s.awaits, s.over, s.latency.Count, s.sample)
	}
	if got := s.latency.Sum - s.service.Sum; got != 1000 {
		t.Errorf("latency is %d ns more than service time, want what it was late: 1000", got)
	}
}

// If the sink does not report the flood, the trial fails with that reason.
func TestNoCapacity(t *testing.T) {
	e, peer := ends(t, workload.Source, nil)
	const start, end = 8 * time.Millisecond, 40 * time.Millisecond
	w := runNow(e, start, end)
	if e.Sample().Failure != noAnswer || clock.Now() < w.Start {
		t.Errorf("sample %+v", e.Sample())
	}
	peer.Close()
	runNow(e, start, end)
	if e.Sample().Failure != noAnswer+": connection refused" {
		t.Errorf("nobody listens: sample %+v", e.Sample())
	}
	bad := &source{endpoint: endpoint{sock: sock.Socket{FD: -1}, in: make([]byte, 64)}, out: make([]byte, 64), every: 1}
	var err error
	if bad.schedule, err = traffic.NewSchedule(traffic.ScheduleSpec{
		Rate: 1e4, Arrivals: "constant", Sizes: "constant", Size: 64, Least: 1, Most: 64,
	}); err != nil {
		t.Fatal(err)
	}
	now := clock.Now()
	bad.Run(trialID, traffic.Window{Open: now, Start: now, Close: now + 5e6})
	if bad.Collect(); bad.sample.Failure != "no datagram was sent inside the window: bad file descriptor" {
		t.Errorf("sample %+v", bad.sample)
	}
}

func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  string // of the error; "": none
	}{
		{nil, ""},
		{map[string]string{"share": "0.3"}, ""},
		{map[string]string{"share": "none", "rate": "20k/s", "arrivals": "bursts:10ms:40ms"}, ""},
		{
			map[string]string{"rate": "20k/s"},
			"workload under-load: rate=20000/s and share=50% exclude each other (hint: use share=none with a rate)",
		},
		{map[string]string{"share": "none"}, "workload under-load: share=none needs a rate, such as rate=20k/s"},
		{map[string]string{"share": "0%"}, `workload under-load: share: "0%" is out of range (valid: 1% to 120%), or none`},
		{
			map[string]string{"share": "121%"},
			`workload under-load: share: "121%" is out of range (valid: 1% to 120%), or none`,
		},
		{
			map[string]string{"share": "half"},
			`workload under-load: share: invalid share "half" (valid: values such as 50% or 0.5), or none`,
		},
		{map[string]string{"payload": "23"}, `workload under-load: payload: "23" is out of range (valid: 24 to 65507 bytes)`},
	} {
		got := ""
		if _, err := (Workload{}).Describe().Resolve(c.given); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.given, got, c.want)
		}
	}
}

// A window has enough answers for a median, even at a hundredth of the capacity.
func TestTrialLength(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  time.Duration
	}{
		{nil, 300 * time.Millisecond},
		{map[string]string{"share": "10%"}, 300 * time.Millisecond},
		{map[string]string{"share": "1%"}, 3 * time.Second},
		{map[string]string{"share": "none", "rate": "1k/s"}, 3 * time.Second},
		{map[string]string{"share": "none", "rate": "1/s"}, 10 * time.Second},
		{map[string]string{"share": "none", "rate": "1k/s", "answer-every": "1"}, 300 * time.Millisecond},
	} {
		d := (Workload{}).Describe()
		p, err := d.Resolve(c.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Trial(p); got != c.want {
			t.Errorf("%v: %v, want %v", c.given, got, c.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	params, err := (Workload{}).Describe().Resolve(map[string]string{"share": "80%"})
	if err != nil {
		t.Fatal(err)
	}
	trial := workload.Trial{
		Params: params, Window: 500 * time.Millisecond, Length: time.Second,
		Sources: []traffic.Sample{
			{
				Sent: 1000, Total: 2000, Counts: traffic.Counts{countCapacity: 2500, traffic.CountBacklog: 3}, CPU: 600,
				Span: 1000,
			}, {
				Sent: 3000, Total: 6000, Counts: traffic.Counts{countCapacity: 7500, traffic.CountBacklog: 1},
				CPU: 200, Span: 1000,
			},
		},
		Sinks: []traffic.Sample{
			{Received: 999, Total: 1999, Counts: traffic.Counts{traffic.CountRepeated: 8}, CPU: 100, Span: 1000},
			{Received: 2999, Total: 5999, Counts: traffic.Counts{traffic.CountReordered: 4}, CPU: 100, Span: 1000},
		},
	}
	want := workload.Result{
		Metrics: map[string]float64{
			"packet_rate": 7996, "packet_rate_sent": 8000, "packet_rate_offered": 8000, "packet_rate_per_pair": 3998,
			"capacity": 10_000,
			"loss":     0.0005, "duplicates": 8. / 3998, "reordering": 4. / 3998, "backlog": 3,
			"cpu_source": 0.8, "cpu_sink": 0.2, "cpu_user": 0, "cpu_softirqd": 0, "cpu_busy": 1, "cpu_per_packet": 1e-6 / 7998,
		},
		PerPair: map[string][]float64{"packet_rate": {1998, 5998}},
	}
	near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Abs(x+y) })
	empty := cmp.FilterValues(func(x, y []string) bool { return len(x)+len(y) == 0 }, cmp.Ignore())
	got := Workload{}.Metrics(trial)
	if diff := cmp.Diff(want, got, near, empty); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	for name := range got.Metrics {
		if _, known := (Workload{}).Describe().Vocabulary().Lookup(name); !known {
			t.Errorf("metric %q is not declared", name)
		}
	}
	const lost, late = "more than 0.1 % of the datagrams were lost; latency covers the others: lower the share", workload.FellBehind
	for _, c := range []struct {
		sent, received, dropped, blocked int64
		arrivals                         string
		warnings                         []string
		limit                            workload.Limit
	}{
		{3000, 2999, 1, 0, "constant", nil, ""},
		{2900, 2800, 98, 1, "constant", []string{lost, late}, workload.ByReceiver},
		{3000, 2800, 98, 0, "constant", []string{lost}, workload.ByPath},
		{2900, 2900, 0, 0, "constant", []string{late}, workload.BySender},
		{2900, 2900, 0, 1, "constant", []string{late}, workload.ByPath},
		{2900, 2900, 0, 0, "poisson", nil, ""},
	} {
		trial.Params["arrivals"] = c.arrivals
		trial.Sources[1].Sent, trial.Sinks[1].Received = c.sent, c.received
		trial.Sources[1].Count(countBlocked, c.blocked)
		trial.Sinks[1].Count(countDropped, c.dropped)
		r := Workload{}.Metrics(trial)
		if diff := cmp.Diff(c.warnings, r.Warnings, empty); diff != "" || r.Limit != c.limit {
			t.Errorf("%+v: limited by %q, warnings (-want +got):\n%s", c, r.Limit, diff)
		}
	}
	trial.Sinks, trial.Sources = make([]traffic.Sample, 2), make([]traffic.Sample, 2)
	for name, v := range (Workload{}).Metrics(trial).Metrics {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s of nothing: %g", name, v)
		}
	}
}

// Datagrams that do not fit into the sink's buffer are counted, except those of the flood.
func TestDropped(t *testing.T) {
	const (
		many = 2000 // a default buffer holds only a few hundred of these
		soon = int64(30 * time.Millisecond)
	)
	for _, kind := range []uint64{flooding, 0} {
		e, peer := ends(t, workload.Sink, nil)
		s := e.(*sink)
		s.stall = workload.Stall{Every: time.Hour, For: 50 * time.Millisecond}
		stands := clock.Now() + soon
		done := run(s, traffic.Window{Open: stands - int64(s.stall.Every), Close: math.MaxInt64 / 2})
		put(t, peer, trialID, many|asked|kind, 0)
		get(t, peer) // the load has begun
		for clock.Now() < stands+soon/10 {
			runtime.Gosched()
		}
		for i := range uint64(many) {
			put(t, peer, trialID, i|kind, 0)
		}
		for seq := uint64(0); kind == flooding && seq != floodEnd; seq, _ = get(t, peer) {
			time.Sleep(time.Duration(2 * soon)) // until there is room again
			put(t, peer, trialID, floodEnd, 0)
		}
		time.Sleep(time.Duration(2 * soon))
		put(t, peer, trialID, traffic.Marker, 0)
		got := <-done
		if want := many + 1 - got.Total; kind == flooding && got.Counts[countDropped] != 0 || kind == 0 &&
			got.Counts[countDropped] != want {
			t.Errorf("kind %x: %d of %d datagrams came, and %d were dropped", kind, got.Total, many+1, got.Counts[countDropped])
		}
	}
}

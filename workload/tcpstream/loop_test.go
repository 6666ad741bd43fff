package tcpstream

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// dying is a sink whose first trial ends in the middle.
type dying struct {
	*sink
	how  func(*sink)
	died bool
}

func (d *dying) Run(trial uint64, w traffic.Window) {
	if d.died {
		d.sink.Run(trial, w)
		return
	}
	d.died = true
	time.Sleep(20 * time.Millisecond)
	d.how(d.sink)
}

// If a connection is lost during a trial, the trial ends with the reason, and the next one has a new connection.
func TestLost(t *testing.T) {
	leave := func(s *sink) {
		for i := range s.flows {
			s.Sockets[i].Close()
			s.Sockets[i].FD = -1
		}
		s.Broken = true
		s.start()
	}
	for _, tt := range []struct {
		name  string
		given map[string]string
		how   func(*sink)
		want  string
	}{
		{"reset while written", nil, (*sink).drop, "connection reset by peer"},
		{"reset, many", map[string]string{"flows": "3"}, (*sink).drop, "connection reset by peer"},
		{"reset while read", map[string]string{"direction": reverse}, (*sink).drop, "connection reset by peer"},
		{"closed while read", map[string]string{"direction": reverse}, leave, "the other end closed it"},
		{"reset, both ways", map[string]string{"direction": both}, (*sink).drop, "connection reset by peer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{
				Pairs: 1, Length: 300 * time.Millisecond, Given: tt.given,
				Wrap: func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
					if side == workload.Sink {
						return &dying{sink: e.(*sink), how: tt.how}
					}
					return e
				},
			})
			trial, _ := r.Trial(t)
			if got := trial.Sources[0].Failure; !strings.HasPrefix(got, "the connection was lost in mid-trial: ") ||
				!strings.HasSuffix(got, tt.want) {
				t.Errorf("the source says %q, want that it was lost: %s", got, tt.want)
			}
			r.Trial(t) // it may find what is left of it
			witness.Until(t, workloadtest.Borne(), func() error {
				if trial, result := r.Trial(t); trial.Failure() != "" || result.Metrics["goodput"] <= 0 {
					return fmt.Errorf("the trial after it: %q, %v", trial.Failure(), result.Metrics)
				}
				return nil
			})
		})
	}
}

func TestAbsentSink(t *testing.T) {
	workloadtest.Loopback(t)
	params, err := Workload{}.Describe().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func() netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), workloadtest.FreePort())
	}
	spec := workload.Spec{Params: params, Side: workload.Source, Local: at(), Remote: at(), LocalPorts: 1}
	e, err := Workload{}.Open(spec)
	if err == nil { // the kernel may report it later
		err = e.(workload.Readier).Ready(traffic.ConnectLimit)
		e.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "connection refused") ||
		!strings.Contains(err.Error(), spec.Remote.String()) {
		t.Errorf("nobody listens: %v", err)
	}
	// A connection may also be lost between two trials.
	spec.Side, spec.Local, spec.Remote = workload.Sink, spec.Remote, spec.Local
	listening, err := Workload{}.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Side, spec.Local, spec.Remote = workload.Source, spec.Remote, spec.Local
	src, err := Workload{}.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for _, e := range []traffic.Endpoint{src, listening} {
		if err := e.(workload.Readier).Ready(traffic.ConnectLimit); err != nil {
			t.Fatal(err)
		}
	}
	listening.Close()
	src.Prepare(1)
	if got := src.Sample().Failure; !strings.HasPrefix(got, "the connection of the previous trial was lost: ") ||
		!strings.HasSuffix(got, "connection refused") {
		t.Errorf("nobody listens any more: %q", got)
	}
	if _, err := (Workload{}).Open(workload.Spec{Params: params, Side: "middle"}); err == nil ||
		!strings.Contains(err.Error(), `"middle"`) {
		t.Errorf("a third side: %v", err)
	}
}

// Accepted connections have the options of the listening socket. Both ends have what was requested, with either family.
func TestOptions(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		where := workloadtest.Where{Address: netip.MustParseAddr(address), Do: func(f func() error) error { return f() }}
		r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{
			Pairs: 1, Length: 30 * time.Millisecond,
			Where: map[workload.Side]workloadtest.Where{workload.Source: where, workload.Sink: where},
			Given: map[string]string{
				"congestion": "reno", "send-buffer": "300000", "recv-buffer": "200000", "dscp": "46", "flows": "2",
			},
		})
		for _, e := range []traffic.Endpoint{r.Sources[0], r.Sinks[0]} {
			f, err := e.Facts()
			if err != nil || f.SendBuffer != 600000 || f.RecvBuffer != 400000 || f.Congestion != "reno" {
				t.Errorf("%s: %T was granted %+v (%v)", address, e, f, err)
			}
		}
		witness.Until(t, workloadtest.Borne(), func() error {
			trial, result := r.Trial(t)
			if trial.Failure() != "" || result.Metrics["goodput"] <= 0 {
				return fmt.Errorf("%s: %q, %v", address, trial.Failure(), result.Metrics)
			}
			if tcp := trial.Sources[0].Counts; tcp[countConnections] != 2 || tcp[countAcked] <= 0 || tcp[countBusy] <= 0 ||
				tcp[countRTT] <= 0 || tcp[countWindow] <= 0 || tcp[countBytes] <= 0 ||
				tcp[countAcks] <= 0 {
				return fmt.Errorf("%s: TCP counts %+v", address, tcp) // a sender without a CPU was not busy
			}
			return nil
		})
	}
}

// Connections share fairly: none gets less than a third of an equal share.
func TestFair(t *testing.T) {
	for _, given := range []map[string]string{{"flows": "4"}, {"flows": "16", "direction": both, "message": "1448"}} {
		given["congestion"] = "reno"
		r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{Pairs: 1, Length: 100 * time.Millisecond, Given: given})
		var shares []int64 // segments
		fair := func() bool {
			trial, _ := r.Trial(t)
			if trial.Failure() != "" || trial.Sources[0].Doubt != "" {
				return false
			}
			shares = shares[:0]
			for _, f := range r.Sources[0].(*source).flows {
				now, err := f.conn.TCPInfo()
				if err != nil {
					t.Fatal(err)
				}
				shares = append(shares, now.Since(f.before).Delivered)
			}
			return 3*int64(len(shares))*slices.Min(shares) > trial.Sources[0].Counts[countAcked]
		}
		witness.Until(t, workloadtest.Borne(), func() error {
			if !fair() {
				return fmt.Errorf("%v: segments of each connection: %v", given, shares)
			}
			return nil
		})
	}
}

// The observations of both ends on this machine show whether the sink, the source, or neither is the limit.
func TestLimited(t *testing.T) {
	side := func(cpu, delayed int64, busy, peer, own int64) traffic.Sample {
		return traffic.Sample{CPU: cpu, Span: 100, Counts: traffic.Counts{
			countDelayed: delayed, countConnections: 1, countBusy: busy, countPeerLimited: peer, countSendLimited: own,
		}}
	}
	reader := func(cpu, delayed int64) traffic.Sample { return side(cpu, delayed, 0, 0, 0) }
	for _, tt := range []struct {
		name           string
		writer, reader traffic.Sample
		want           workload.Limit
	}{
		{"loopback", side(99, 0, 100, 0, 0), reader(79, 0), workload.BySender},
		{"64 bytes", side(99, 1, 100, 0, 0), reader(21, 0), workload.BySender},
		{"64 bytes, many pairs on a CPU", side(10, 90, 50, 0, 0), reader(14, 29), workload.BySender},
		{"a reader that falls behind", side(96, 0, 100, 68, 0), reader(94, 0), workload.ByReceiver},
		{"a reader that stands still", side(2, 1, 100, 100, 0), reader(33, 66), workload.ByReceiver},
		{"a small receive buffer", side(51, 0, 100, 100, 0), reader(60, 0), workload.ByReceiver},
		{"a reader without a rest", side(70, 0, 100, 0, 0), reader(99, 0), workload.ByReceiver},
		{"a token bucket", side(1, 0, 100, 0, 0), reader(2, 0), workload.ByPath},
		{"a small send buffer", side(20, 0, 100, 0, 90), reader(20, 0), workload.BySender},
		{"a bit of everything", side(67, 0, 100, 34, 0), reader(55, 0), ""},
		{"a busy machine", side(20, 33, 75, 0, 0), reader(15, 72), ""},
		{"a foreign program", traffic.Sample{CPU: 99, Span: 100}, traffic.Sample{CPU: 99, Span: 100}, ""},
	} {
		trial := workload.Trial{
			Params: part.Params{"direction": forward}, Sources: []traffic.Sample{tt.writer},
			Sinks: []traffic.Sample{tt.reader},
		}
		if got := limited(trial); got != tt.want {
			t.Errorf("%s: limit %q, want %q", tt.name, got, tt.want)
		}
		trial = workload.Trial{Params: part.Params{"direction": reverse}, Sources: trial.Sinks, Sinks: trial.Sources}
		if got := limited(trial); got != tt.want {
			t.Errorf("%s, reverse: limit %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := limited(workload.Trial{Params: part.Params{"direction": both}}); got != "" {
		t.Errorf("nothing is limited by %q", got)
	}
}

// A sink that stands still is the limit, and so is a source that writes 64 bytes at a time.
func TestLimitSeen(t *testing.T) {
	for want, o := range map[workload.Limit]workloadtest.Options{
		workload.ByReceiver: {Given: map[string]string{"congestion": "reno"}, Stall: workload.Stall{
			Every: 21 * time.Millisecond, For: 20 * time.Millisecond,
		}},
		workload.BySender: {Given: map[string]string{"congestion": "reno", "message": "64"}},
	} {
		// Short: a host that gives a virtual machine 60 ms of each 100 leaves trials between two of its pauses. A thread
		// that has lost more was not awake all the time.
		o.Pairs, o.Length = 1, 40*time.Millisecond
		borne := witness.Limit{Lost: time.Duration((1 - always) * float64(o.Length))}
		r := workloadtest.NewRig(t, Workload{}, o)
		for range 2 {
			witness.Until(t, borne, func() error {
				if _, result := r.Trial(t); result.Limit != want {
					return fmt.Errorf("limit %q, want %q: %v", result.Limit, want, result.Metrics)
				}
				return nil
			})
		}
	}
}

func TestMetrics(t *testing.T) {
	delivered := func(perSlice int64) traffic.Series {
		d := make([]int64, traffic.Slices+1)
		for i := range d {
			d[i] = int64(i) * perSlice
		}
		return traffic.Series{traffic.SeriesDelivered: d}
	}
	tcp := traffic.Counts{
		traffic.CountResent: 3, countConnections: 2, countRTT: 4000, countMinRTT: 2000, countWindow: 20,
		countBusy: 1,
	}
	trial := workload.Trial{
		Params: part.Params{"direction": forward}, Length: time.Second,
		Sources: []traffic.Sample{
			{CPU: 600, Span: 1000, Counts: tcp, Series: delivered(100), Bytes: 2000},
			{CPU: 400, Span: 1000, Counts: traffic.Counts{traffic.CountResent: 2}},
		},
		Sinks: []traffic.Sample{
			{CPU: 200, Span: 1000, Series: delivered(1000), Bytes: 20000},
			{CPU: 100, Span: 1000, Series: delivered(2000), Bytes: 40000},
		},
	}
	cpu := map[string]float64{
		"cpu_source": 1, "cpu_sink": 0.3, "cpu_user": 0, "cpu_softirqd": 0, "cpu_busy": 1.3, "retransmits": 5,
		"tcp_rtt": 2e-6, "tcp_min_rtt": 1e-6, "tcp_cwnd": 10,
	}
	check := func(t *testing.T, want map[string]float64, perPair []float64) {
		t.Helper()
		maps.Copy(want, cpu)
		near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Abs(x+y) })
		got := Workload{}.Metrics(trial)
		if diff := cmp.Diff(want, got.Metrics, near); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string][]float64{"goodput": perPair}, got.PerPair, near); diff != "" ||
			got.Window != time.Second {
			t.Errorf("by pair, in a window of %v (-want +got):\n%s", got.Window, diff)
		}
	}
	check(t, map[string]float64{"goodput": 480e3, "goodput_per_pair": 240e3, "service_demand": 1300e-9 / 60000},
		[]float64{160e3, 320e3})
	trial.Params["direction"] = both
	trial.Sources[1].Series = delivered(100)
	trial.Sources[1].Bytes = 2000
	check(t, map[string]float64{
		"goodput": 512e3, "goodput_forward": 480e3, "goodput_reverse": 32e3, "goodput_per_pair": 256e3,
		"service_demand": 1300e-9 / 64000,
	}, []float64{176e3, 336e3})
	trial.Params["direction"] = reverse
	check(t, map[string]float64{"goodput": 32e3, "goodput_per_pair": 16e3, "service_demand": 1300e-9 / 4000},
		[]float64{16e3, 16e3})

	for _, direction := range []string{forward, reverse, both} { // external programs that were missing
		trial := workload.Trial{
			Params: part.Params{"direction": direction}, Length: time.Second,
			Sources: make([]traffic.Sample, 2), Sinks: make([]traffic.Sample, 2),
		}
		for name, v := range (Workload{}).Metrics(trial).Metrics {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s of nothing: %g", name, v)
			}
		}
	}
}

package byhand

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// The test binary also runs as the process of a session, and as a sink: "sink ADDRESS MEMORY SESSIONS".
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		testnet.Main(m)
	}
	switch os.Args[1] {
	case SessionCommand:
		files, err := process.Inherited(os.Args[3:])
		if err == nil {
			err = ServeSession(context.Background(), loads(), files, os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "nettoll sink-session:", err)
			os.Exit(1)
		}
		os.Exit(0)
	case "sink":
		s := &Sink{Version: "v1", Sessions: 1, PerAddress: 1, Time: time.Minute, Say: func(what string) {
			fmt.Fprintln(os.Stderr, what)
		}}
		s.Memory, _ = strconv.ParseInt(os.Args[3], 10, 64)
		l, err := Listen(context.Background(), os.Args[2])
		if err == nil {
			fmt.Fprintf(os.Stderr, "nettoll sink waits at %s\n", l.Addr())
			err = s.Serve(context.Background(), l)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testnet.Main(m)
}

// loads returns the workloads of the catalogue, and one with faults.
func loads() []workload.Workload { return append(catalogue.New().Workloads, faulty{}) }

// saying collects the messages of a sink to its user.
type saying struct {
	mu    sync.Mutex
	lines []string
}

func (s *saying) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *saying) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// until waits until the sink has said a text.
func (s *saying) until(t *testing.T, what string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(s.String(),
		what); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the sink has not said %q, but:\n%s", what, s)
		}
	}
}

// serve starts a sink on a port that the kernel chooses. It returns the address, the messages, and a function that ends
// the sink. change, if given, modifies the sink.
func serve(t *testing.T, at string, change ...func(*Sink)) (string, *saying, func()) {
	t.Helper()
	workloadtest.Loopback(t)
	said := &saying{}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Listen(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sink{Version: "v1", Sessions: 1, PerAddress: 1, Time: time.Minute, Memory: 2 << 30, Say: said.say}
	for _, c := range change {
		c(s)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ctx, l); err != nil {
			t.Errorf("serve: %v", err)
		}
	}()
	stop := func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return l.Addr().String(), said, stop
}

// options returns the options of a short run of a workload.
func options(t testing.TB, name, sink string, given map[string]string) Options {
	t.Helper()
	load, err := find(loads(), name)
	if err != nil {
		t.Fatal(err)
	}
	params, err := load.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Workload: load, Params: params, Network: "tcp", Sink: sink, Pairs: 1, Trials: 2, Length: 100 * time.Millisecond,
		Seed: 1, Version: "v1",
		Waiting: func(int) {}, Begun: func(Session) {}, Interval: func(Interval) {},
	}
}

// borne is the limit for the loss in trials of which all messages are expected. Their threads end with a session, and
// the kernel does not report how long such threads waited.
func borne() witness.Limit { return witness.Limit{Lost: traffic.DrainLimit / 2, Share: 0.15} }

// Every workload of the catalogue runs over both families, one after another against one sink, and reports its primary
// metric.
func TestEveryWorkload(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		sink, said, _ := serve(t, at)
		for _, load := range catalogue.New().Workloads {
			d := load.Describe()
			if p, err := d.Resolve(nil); err == nil && d.AcrossTrust(p) != nil {
				continue // TestSinkTrustsNobody
			}
			t.Run(d.Name+"/"+at, func(t *testing.T) {
				o := options(t, d.Name, sink, nil)
				o.Length = max(o.Length, min(d.Trial(o.Params), 500*time.Millisecond))
				primary := Primary(load, o.Params)
				witness.Until(t, borne(), func() error {
					r, err := Source(t.Context(), o)
					if err != nil {
						t.Fatalf("%v; the sink said:\n%s", err, said)
					}
					value := r.Metrics[primary]
					if value > 0 && !math.IsInf(value, 0) && len(r.Intervals) == o.Trials && r.Intervals[1].Failure == "" {
						check(t, r, d.Vocabulary())
						return nil
					}
					return fmt.Errorf("%s %g: %+v", primary, value, r)
				})
			})
		}
	}
}

func check(t *testing.T, r *Result, known measure.Vocabulary) {
	t.Helper()
	for _, metrics := range []map[string]float64{r.Metrics, r.Intervals[0].Metrics, r.Intervals[1].Metrics} {
		for name, value := range metrics {
			if strings.HasPrefix(name, oneWay) || name == "first_packet_latency" && r.Params["flow"] != "fresh" {
				t.Errorf("%s = %g: both ends have clocks of their own", name, value)
			}
			if !declared(known, name) || math.IsNaN(value) || math.IsInf(value, 0) {
				t.Errorf("metric %q = %g: want one that is declared, and a number", name, value)
			}
		}
	}
	if r.Intervals[1].Start < r.Interval {
		t.Errorf("the second interval of %g s began after %g s", r.Interval, r.Intervals[1].Start)
	}
	if r.Versions["source"] != "v1" || !r.alone() && r.Versions["sink"] != "v1" {
		t.Errorf("versions %v", r.Versions)
	}
}

func (r *Result) alone() bool {
	return !strings.Contains(r.Sink, "]:") && strings.Count(r.Sink, ":") != 1
}

// Several pairs at once, and a paced source, give the same results as in a run: sent = received + lost.
func TestPairsAtARate(t *testing.T) {
	sink, _, _ := serve(t, "127.0.0.1:0")
	o := options(t, "udp-rate", sink, map[string]string{"rate": "1000/s"})
	o.Pairs, o.Length = 3, 200*time.Millisecond
	var m map[string]float64
	witness.Until(t, borne(), func() error {
		r, err := Source(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		m = r.Metrics
		if got := m["packet_rate_sent"]; math.Abs(got/3000-1) >= 0.1 {
			return fmt.Errorf("3 pairs at 1000/s sent %g/s", got)
		}
		return nil
	})
	if lost := 1 - m["packet_rate"]/m["packet_rate_sent"]; math.Abs(lost-m["loss"]) > 1e-6 {
		t.Errorf("%g of %g packets a second received, and a loss of %g", m["packet_rate"], m["packet_rate_sent"], m["loss"])
	}
}

// Over all intervals, shares are weighted by their denominator and rates by time; percentiles come from all samples.
func TestSum(t *testing.T) {
	r := Result{Intervals: []Interval{
		{Window: 1, sent: 900, total: 1000, Metrics: map[string]float64{
			"packet_rate": 900, "loss": 0, "retransmits": 1, "backlog": 7, "cpu_per_packet": 1e-6,
		}, Limit: workload.BySender},
		{Window: 1, sent: 100, total: 3000, Metrics: map[string]float64{
			"packet_rate": 50, "loss": 0.5, "retransmits": 2, "backlog": 3, "cpu_per_packet": 5e-6,
		}, Limit: workload.BySender, Warnings: []string{"w"}},
		{Failure: "broken"},
	}}
	r.sum(measure.Version2(), [traffic.Quantities]*hdrhistogram.Histogram{})
	want := map[string]float64{"packet_rate": 475, "loss": 0.05, "retransmits": 3, "backlog": 7, "cpu_per_packet": 4e-6}
	for name, x := range want {
		if math.Abs(r.Metrics[name]-x) > 1e-12 {
			t.Errorf("%s = %g, want %g", name, r.Metrics[name], x)
		}
	}
	if len(r.Metrics) != len(want) || r.Limit != workload.BySender {
		t.Errorf("metrics %v, limit %q", r.Metrics, r.Limit)
	}
	if got := strings.Join(r.Warnings, "; "); got != "w (1 of 3 intervals); broken (1 of 3 intervals)" {
		t.Errorf("warnings %q", got)
	}
}

// The error names a sink that is not there, is busy, has another version or is not a sink, and a port that is in use.
func TestRefusals(t *testing.T) {
	sink, said, _ := serve(t, "127.0.0.1:0")
	t.Run("absent", func(t *testing.T) {
		_, err := Source(t.Context(),
			options(t, "udp-rr", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), workloadtest.FreePort()).String(), nil))
		says(t, err, "connection refused", "is nettoll sink running there?")
	})
	t.Run("port taken", func(t *testing.T) {
		_, err := Listen(t.Context(), sink)
		says(t, err, "listen on "+sink, "address already in use", "hint")
	})
	t.Run("another version here", func(t *testing.T) {
		l := dial(t, sink)
		if err := l.say(hello{Nettoll: Protocol + 1, Version: "v9\x1b[31m"}); err != nil {
			t.Fatal(err)
		}
		var h hello
		if err := l.hear(&h, time.Second); err != nil || !strings.Contains(h.Refused, "use the same nettoll on both sides") ||
			h.Nettoll != Protocol {
			t.Errorf("answer %+v, %v", h, err)
		}
		said.until(t, "use the same nettoll on both sides")
		if strings.Contains(said.String(), "\x1b") {
			t.Error("what the other end sends reaches the terminal")
		}
	})
	t.Run("another version there", func(t *testing.T) {
		_, err := Source(t.Context(), options(t, "udp-rr", answering(t, hello{Nettoll: Protocol + 1, Version: "v9"}), nil))
		says(t, err, "nettoll v9", fmt.Sprintf("speaks version %d", Protocol+1), "use the same nettoll on both sides")
	})
	t.Run("no sink", func(t *testing.T) {
		_, err := Source(t.Context(), options(t, "udp-rr", answering(t, map[string]int{}), nil))
		says(t, err, "does not speak nettoll's protocol")
	})
	t.Run("no source", func(t *testing.T) {
		l := dial(t, sink)
		if _, err := l.conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		said.until(t, `no message of nettoll (it begins with "GET ")`)
	})
}

func says(t *testing.T, err error, want ...string) {
	t.Helper()
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v, want one that says %q", err, w)
		}
	}
}

func dial(t *testing.T, to string) line {
	t.Helper()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return line{conn: conn, peer: "the sink"}
}

// answering returns the address of a server that answers a hello.
func answering(t *testing.T, with any) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		far := line{conn: conn, peer: "the source"}
		if far.hear(&hello{}, time.Second) == nil {
			_ = far.say(with)
		}
	}()
	return l.Addr().String()
}

// A source cannot make the sink read a file, open too much or run for ever; the next source is served all the same.
func TestSinkTrustsNobody(t *testing.T) {
	sink, _, _ := serve(t, "127.0.0.1:0")
	good := opening{Workload: "udp-rr", Ports: []uint16{20000}, Each: 1, Length: int64(time.Second)}
	for want, change := range map[string]func(*opening){
		`unknown workload "nosuch"`: func(o *opening) { o.Workload = "nosuch" },
		`no parameter "nosuch"`:     func(o *opening) { o.Params = map[string]string{"nosuch": "1"} },
		"out of range":              func(o *opening) { o.Params = map[string]string{"payload": "1000000"} },
		"does not run by hand: it starts": func(o *opening) {
			o.Workload, o.Params = "command", map[string]string{"sink": "touch started"}
		},
		"a sink reads no files":             func(o *opening) { o.Params = map[string]string{"arrivals": "replay:/etc/passwd"} },
		"0 pairs (valid: 1 to 64)":          func(o *opening) { o.Ports = nil },
		"65 pairs":                          func(o *opening) { o.Ports = make([]uint16, 65) },
		"1 ports from 0 on":                 func(o *opening) { o.Ports = []uint16{0} },
		"2 ports from 65535 on":             func(o *opening) { o.Ports, o.Each = []uint16{65535}, 2 },
		"0 ports for each pair":             func(o *opening) { o.Each = 0 },
		"trials of 1h0m0s":                  func(o *opening) { o.Length = int64(time.Hour) },
		"trials of -1ns":                    func(o *opening) { o.Length = -1 },
		"trials of 1s with a warm-up of 1s": func(o *opening) { o.Warm = o.Length },
	} {
		o := good
		change(&o)
		l := meet(t, sink)
		_, err := l.ask(request{Do: doOpen, Open: &o}, time.Second)
		says(t, err, want)
		l.close()
	}
	for _, r := range []request{
		{Do: doGo}, {Do: doCollect}, {Do: doPrepare}, {Do: doReady}, {Do: doProbe}, {Do: "nosuch"}, {},
	} {
		l := meet(t, sink)
		_, err := l.ask(r, time.Second)
		says(t, err, "is out of order: this session takes")
		l.close()
	}
	if _, err := Source(t.Context(), options(t, "udp-rr", sink, nil)); err != nil {
		t.Error(err)
	}
}

// meet does the first step of a source.
func meet(t *testing.T, sink string) line {
	t.Helper()
	l := dial(t, sink)
	if err := l.say(hello{Nettoll: Protocol, Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	var h hello
	if err := l.hear(&h, 5*time.Second); err != nil || h.Refused != "" {
		t.Fatalf("%+v, %v", h, err)
	}
	return l
}

// If a sink goes away during a trial, the source reports it at once, with the figures measured until then.
func TestSinkGoes(t *testing.T) {
	sink, _, stop := serve(t, "127.0.0.1:0")
	o := options(t, "udp-rr", sink, nil)
	o.Trials, o.Length = 20, 400*time.Millisecond
	var gone time.Time
	o.Interval = func(Interval) {
		if gone.IsZero() {
			gone = time.Now()
			time.AfterFunc(100*time.Millisecond, stop)
		}
	}
	r, err := Source(t.Context(), o)
	says(t, err, "the sink at "+sink+" has ended the connection in the middle of a trial")
	if r == nil || r.Metrics["latency_mean"] <= 0 || len(r.Intervals) == o.Trials {
		t.Errorf("result %+v, want that of the first intervals", r)
	}
	if took := time.Since(gone); took > 3*time.Second {
		t.Errorf("named after %v", took)
	}
}

// If a source goes away, during a trial or between two, the sink reports it and serves the next one.
func TestSourceGoes(t *testing.T) {
	sink, said, _ := serve(t, "127.0.0.1:0")
	o := options(t, "tcp-stream", sink, nil)
	o.Trials, o.Length = 20, 300*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Interval = func(Interval) { time.AfterFunc(100*time.Millisecond, cancel) }
	r, err := Source(ctx, o)
	if !errors.Is(err, context.Canceled) || r == nil || r.Metrics["goodput"] <= 0 || len(r.Intervals) == o.Trials {
		t.Errorf("interrupted source: %v, %+v, want what was measured", err, r)
	}
	if r, err := Source(t.Context(), options(t, "tcp-stream", sink, nil)); err != nil || len(r.Intervals) != 2 {
		t.Errorf("the next source: %v, %+v", err, r)
	}
	said.until(t, "has ended the connection early")
}

// bomb returns an encoded histogram of a few bytes that takes 37 MB when decoded.
func bomb(t testing.TB) string {
	t.Helper()
	text, err := measure.EncodeHistogram(hdrhistogram.New(1, math.MaxInt64, 5))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// hostile returns the address of a sink that does as it is asked and finally sends what the test provides.
func hostile(t *testing.T, sends *left) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		far := line{conn: conn, peer: "the source"}
		if far.hear(&hello{}, time.Second) != nil || far.say(hello{Nettoll: Protocol, Version: "v1"}) != nil {
			return
		}
		for {
			var r request
			if far.hear(&r, time.Minute) != nil {
				return
			}
			a := answer{Bytes: r.Bytes}
			switch r.Do {
			case doOpen:
				a.Ports, a.Each = []uint16{workloadtest.FreePort()}, 1
			case doCollect:
				a.Left = sends
			}
			if far.say(a) != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

// Results that no trial can have are refused before memory is allocated for them.
func TestHostileSink(t *testing.T) {
	workloadtest.Loopback(t)
	for name, c := range map[string]struct {
		sends left
		want  string
	}{
		"a histogram bomb": {
			left{Samples: make([]traffic.Sample, 1), Histograms: [traffic.Quantities]string{bomb(t)}},
			"has sent invalid durations: a histogram of 5 digits from 1 to 9223372036854775807 ns",
		},
		"too few samples":  {left{}, "has sent 0 samples of 1"},
		"too many samples": {left{Samples: make([]traffic.Sample, 1000)}, "has sent 1000 samples of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, "udp-rr", hostile(t, &c.sends), nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Source(t.Context(), o)
			runtime.ReadMemStats(&after)
			says(t, err, c.want)
			if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
				t.Errorf("it took %d bytes", took)
			}
		})
	}
}

// FuzzFrames checks that every input gives a message or an error, without a crash and without memory for a size that is
// only claimed.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte("GET / HTTP/1.0\r\n"))
	f.Add([]byte("\x00\x00\x00\x53" +
		`{"do":"open","open":{"workload":"udp-rr","params":{"payload":"64"},"ports":[2000]}}`))
	f.Add([]byte("\x00\x00\x00\x44" + `{"left":{"samples":[{"sent":1,"delivered":[0,1]}],"histograms":["x"]}}`))
	body, err := json.Marshal(answer{Left: &left{
		Samples: make([]traffic.Sample, 1), Histograms: [traffic.Quantities]string{bomb(f)},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	loads := loads()
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range []any{&hello{}, &request{}, &answer{}} {
			near, far := net.Pipe()
			go func() {
				_, _ = far.Write(data)
				_ = far.Close()
			}()
			if (line{conn: near, peer: "the other end"}).hear(v, time.Second) != nil {
				_ = near.Close()
				continue
			}
			_ = near.Close()
			switch v := v.(type) {
			case *request:
				if v.Open != nil && v.Open.check() == nil {
					if load, err := find(loads, v.Open.Workload); err == nil {
						_, _ = load.Describe().Resolve(v.Open.Params)
					}
				}
			case *answer:
				if v.Left == nil {
					continue
				}
				for _, load := range loads {
					params, err := load.Describe().Resolve(nil)
					if err != nil {
						t.Fatal(err)
					}
					trial := workload.Trial{
						Params: params, Window: time.Second, Length: time.Second, Sources: v.Left.Samples,
						Sinks: v.Left.Samples,
					}
					if trial.AddHistograms(v.Left.Histograms) == nil {
						_, _ = metrics(load, trial)
					}
				}
			}
		}
	})
}

// Ports that are in use are left out, for UDP and TCP alike.
func TestFreePorts(t *testing.T) {
	workloadtest.Loopback(t)
	at := netip.MustParseAddr("127.0.0.1")
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: at.AsSlice()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	first, err := freePorts(at, taken-1, 3)
	if err != nil || first <= taken && first+3 > taken {
		t.Errorf("3 ports from %d on: %d, %v, and %d is taken", taken-1, first, err, taken)
	}
	if _, err := freePorts(at, 65535, 2); err == nil {
		t.Error("2 ports from 65535 on")
	}
}

package dns_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/dns"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	testnet.NotWithout(t)
	workloadtest.Conformance(t, dns.Workload{},
		map[string]string{},
		map[string]string{"clients": "4", "in-flight": "8", "type": "AAAA"},
		map[string]string{"transport": "tcp", "clients": "4", "in-flight": "8"},
	)
}

// In each mode and over both families, every query is answered, and no answer is wrong.
func TestWays(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		at := workloadtest.Where{Address: netip.MustParseAddr(address), Do: func(f func() error) error { return f() }}
		for _, given := range []string{
			"", "type=AAAA", "in-flight=8", "clients=4,in-flight=2", "names=1", "names=10000,edns=1232",
			"addresses=64,edns=4096,type=AAAA,in-flight=4", "rate=2k/s,clients=8", "rate=2k/s,arrivals=poisson",
			"transport=tcp", "transport=tcp,in-flight=8,clients=9,type=AAAA", "transport=tcp,addresses=64,type=AAAA,clients=4",
			"transport=tcp,rate=2k/s,clients=3",
		} {
			t.Run(address+" "+given, func(t *testing.T) {
				r := workloadtest.NewRig(t, dns.Workload{}, workloadtest.Options{
					Pairs: 1, Length: 50 * time.Millisecond, Given: params(given),
					Where: map[workload.Side]workloadtest.Where{workload.Source: at, workload.Sink: at},
				})
				witness.Until(t, workloadtest.Borne(), func() error {
					trial, result := r.Trial(t)
					s := trial.Sources[0]
					if s.Errors > 0 || result.Metrics["errors"] != 0 {
						t.Fatalf("answers are wrong: %+v", s)
					}
					marker := int64(0) // a stream's sink counts the marker
					if strings.Contains(given, "tcp") {
						marker = 1
					}
					if s.Sent > 0 && s.Received == s.Sent && s.Total+marker == trial.Sinks[0].Total && s.Doubt == "" {
						return nil
					}
					return fmt.Errorf("queries were lost: %+v", s)
				})
			})
		}
	}
}

// params splits "name=value,name=value".
func params(s string) map[string]string {
	given := map[string]string{}
	for p := range strings.SplitSeq(s, ",") {
		if name, value, ok := strings.Cut(p, "="); ok {
			given[name] = value
		}
	}
	return given
}

// A server with fewer names than are requested, or with other addresses, is detected: its answers do not count.
func TestErrors(t *testing.T) {
	for _, tt := range []struct{ source, sink string }{
		{"names=10", "names=5"},
		{"names=10,in-flight=4", "names=5"},
		{"addresses=2", "addresses=1"},
		{"transport=tcp,names=10", "transport=tcp,names=5"},
		{"transport=tcp,names=10,in-flight=4,clients=2", "transport=tcp,names=5"},
		{"transport=tcp,addresses=2", "transport=tcp,addresses=1"},
	} {
		t.Run(tt.source+" of "+tt.sink, func(t *testing.T) {
			workloadtest.Loopback(t)
			loopback := netip.MustParseAddr("127.0.0.1")
			spec := workload.Spec{
				Workload: "dns", LocalPorts: 8, RemotePorts: 8,
				Local:  netip.AddrPortFrom(loopback, workloadtest.FreePort()),
				Remote: netip.AddrPortFrom(loopback, workloadtest.FreePort()),
			}
			defer serve(t, spec.Remote, tt.sink)()
			spec.Side = workload.Source
			spec.Params = resolve(t, tt.source)
			e, err := dns.Workload{}.Open(spec)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			few, s := strings.HasSuffix(tt.sink, "names=5"), e.Sample()
			for try := range uint64(20) { // until both sides had a CPU, and the sink a long enough trial
				if run(e, try+1, 60*time.Millisecond); s.Errors > 0 && (s.Received > 0) == few {
					break
				}
				time.Sleep(10 * time.Millisecond) // queries before the sink has begun its next trial belong to none
			}
			if !few && !strings.HasPrefix(s.Failure, "all ") {
				t.Errorf("failure %q, want that all of them", s.Failure)
			}
			trial := workload.Trial{
				Params: spec.Params, Window: 54e6, Length: 60e6, Sources: []traffic.Sample{*s},
				Sinks: []traffic.Sample{{}},
			}
			result := dns.Workload{}.Metrics(trial)
			if got := result.Metrics["errors"]; few && (got < 0.3 || got > 0.7) || !few && got != 1 {
				t.Errorf("a share of %g, with %+v", got, s)
			}
			if !strings.Contains(strings.Join(result.Warnings, ";"), "some answers report a failure") {
				t.Errorf("%q", result.Warnings)
			}
		})
	}
}

func resolve(t *testing.T, given string) part.Params {
	t.Helper()
	p, err := dns.Workload{}.Describe().Resolve(params(given))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a trial of an endpoint on its own thread.
func run(e traffic.Endpoint, trial uint64, length time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e.Prepare(trial)
	open := clock.Now()
	traffic.Drive(e, trial, traffic.Window{Open: open, Start: open + int64(length)/10, Close: open + int64(length)})
	e.(traffic.Collector).Collect()
}

// serve runs a sink at an address until stop is called.
func serve(t *testing.T, at netip.AddrPort, given string) (stop func()) {
	t.Helper()
	sink, err := dns.Workload{}.Open(workload.Spec{
		Workload: "dns", Params: resolve(t, given), Side: workload.Sink, Local: at, LocalPorts: 8, RemotePorts: 8,
		Driver: "dig",
	})
	if err != nil {
		t.Fatal(err)
	}
	end, done := make(chan struct{}), make(chan struct{})
	// A thread in a loop never gives its P back, and a garbage collection would stop all others until it does.
	before, collect := runtime.GOMAXPROCS(6), debug.SetGCPercent(-1)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for trial := uint64(1); ; trial++ {
			select {
			case <-end:
				return
			default:
			}
			sink.Prepare(trial)
			open := clock.Now()
			sink.Run(trial, traffic.Window{Open: open, Start: open, Close: open + 300e6})
		}
	}()
	return func() {
		close(end)
		<-done
		sink.Close()
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(collect)
	}
}

// dig, an independent implementation, understands the server.
func TestDig(t *testing.T) {
	dig := testnet.Program(t, "dig", "bind9-dnsutils")
	workloadtest.Loopback(t)
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), workloadtest.FreePort())
	defer serve(t, at, "addresses=40,edns=4096")()
	defer serve(t, at, "addresses=40,transport=tcp")()
	for _, tt := range []struct {
		ask  string
		want []string
	}{
		{"svc-0017.default.svc.cluster.local A +noedns +ignore", []string{
			"status: NOERROR", "flags: qr aa tc rd;", "ANSWER: 0",
		}},
		{"svc-0017.default.svc.cluster.local A +noedns", []string{
			"retrying in TCP mode", "status: NOERROR", "flags: qr aa rd;", "ANSWER: 40",
		}},
		{"svc-0017.default.svc.cluster.local AAAA +tcp", []string{
			"status: NOERROR", "flags: qr aa rd;", "ANSWER: 40", "fd00:10:96::27:11",
		}},
		{"svc-0017.default.svc.cluster.local A", []string{
			"status: NOERROR", "flags: qr aa rd;", "ANSWER: 40", "10.96.0.17", "10.105.192.17", "udp: 4096",
		}},
		{"svc-0017.default.svc.cluster.local AAAA +bufsize=4096", []string{
			"status: NOERROR", "ANSWER: 40", "fd00:10:96::11", "fd00:10:96::27:11",
		}},
		{"svc-0017.default.svc.cluster.local MX", []string{"status: NOERROR", "flags: qr aa rd;", "ANSWER: 0"}},
		{"svc-1000.default.svc.cluster.local A", []string{"status: NXDOMAIN", "flags: qr aa rd;"}},
		{"example.org A", []string{"status: REFUSED", "flags: qr rd;"}},
		{"svc-0017.default.svc.cluster.local A +edns=1 +noednsneg", []string{"status: BADVERS", "ANSWER: 0"}},
		{"svc-0017.default.svc.cluster.local A +opcode=notify", []string{"status: NOTIMP"}},
	} {
		args := append([]string{"@" + at.Addr().String(), "-p", fmt.Sprint(at.Port()), "+tries=5", "+time=1"},
			strings.Fields(tt.ask)...)
		out, err := exec.CommandContext(t.Context(), dig, args...).CombinedOutput()
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("dig %s: %v, no %q in\n%s", tt.ask, err, want, out)
			}
		}
		if strings.Contains(string(out), "malformed") || strings.Contains(string(out), "extra bytes") {
			t.Errorf("dig %s complains:\n%s", tt.ask, out)
		}
	}
}

// If nobody listens, the trial has no figure, and reports why.
func TestAbsent(t *testing.T) {
	workloadtest.Loopback(t)
	loopback := netip.MustParseAddr("127.0.0.1")
	for _, given := range []string{"", "in-flight=4", "rate=4k/s"} {
		e, err := dns.Workload{}.Open(workload.Spec{
			Params: resolve(t, given), Side: workload.Source, LocalPorts: 1,
			Local:  netip.AddrPortFrom(loopback, workloadtest.FreePort()),
			Remote: netip.AddrPortFrom(loopback, workloadtest.FreePort()),
		})
		if err != nil {
			t.Fatal(err)
		}
		run(e, 1, 50*time.Millisecond)
		if got := e.Sample().Failure; got != "no answer arrived: connection refused" {
			t.Errorf("%q: %q, want that nobody listens", given, got)
		}
		e.Close()
	}
}

func TestRefuse(t *testing.T) {
	for given, want := range map[string]string{
		"addresses=64":                     "has 1076 bytes, but its datagram holds only 512",
		"addresses=64,type=AAAA,edns=1232": "has 1855 bytes, but its datagram holds only 1232",
		"transport=tcp,edns=1232":          "edns=1232 has no effect over tcp",
		"congestion=reno":                  "congestion=reno needs transport=tcp",
		"in-flight=2,rate=1k/s":            "in-flight=2 has no effect at a rate",
		"arrivals=poisson":                 "arrivals=poisson needs a rate",
		"names=10001":                      "from 1 to 10000",
		"edns=511":                         "or none",
		"type=MX":                          "valid: A, AAAA",
		"transport=dot":                    "valid: udp, tcp",
		"clients=0":                        "from 1 to 128",
		"addresses=65,transport=tcp":       "from 1 to 64",
		"transport=tcp,addresses=64":       "",
		"rate=1k/s,arrivals=poisson,clients=4,edns=512": "",
		"transport=tcp,congestion=reno,in-flight=1024":  "",
	} {
		_, err := dns.Workload{}.Describe().Resolve(params(given))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
}

// More clients than ports are refused with a clear error.
func TestPorts(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:10000")
	_, err := dns.Workload{}.Open(workload.Spec{
		Params: resolve(t, "clients=9"), Side: workload.Source, Local: at, Remote: at, LocalPorts: 8,
	})
	if err == nil || !strings.Contains(err.Error(), "9 clients, but only 8 ports") {
		t.Errorf("%v", err)
	}
}

// A server that stands still for the first 30 ms of a trial delays the queries that are due meanwhile, counted from
// when they were due.
func TestStall(t *testing.T) {
	for _, given := range []string{"rate=4k/s", "transport=tcp,rate=4k/s"} {
		r := workloadtest.NewRig(t, dns.Workload{}, workloadtest.Options{
			Pairs: 1, Length: 100 * time.Millisecond, Given: params(given),
			Stall: workload.Stall{Every: time.Hour, For: 30 * time.Millisecond},
		})
		witness.Until(t, workloadtest.Borne(), func() error {
			trial, _ := r.Trial(t)
			if h := trial.Histograms[traffic.Latency]; h == nil || h.Max() <= int64(19*time.Millisecond) {
				return fmt.Errorf("%s: nobody waited", given)
			}
			return nil
		})
	}
}

// A planted delay is found.
func TestPlanted(t *testing.T) {
	r := workloadtest.NewRig(t, dns.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 50 * time.Millisecond, Plant: 20 * time.Microsecond,
	})
	_, result := r.Trial(t)
	if got := result.Metrics["planted"]; got < 20e-6 || got > 1e-3 {
		t.Errorf("planted %g s, want 20 µs", got)
	}
}

func TestPrimary(t *testing.T) {
	d := dns.Workload{}.Describe()
	for given, want := range map[string]string{
		"": "latency_p50", "in-flight=2": "transaction_rate", "clients=2": "transaction_rate",
		"clients=2,rate=1k/s": "latency_p50", "transport=tcp,clients=2": "transaction_rate",
	} {
		if got := d.Primary(resolve(t, given)); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

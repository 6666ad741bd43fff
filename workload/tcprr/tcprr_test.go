package tcprr_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/link"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/tcprr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, tcprr.Workload{},
		map[string]string{},
		map[string]string{"mode": "spin", "payload": "100", "response": "200"},
		map[string]string{"in-flight": "8", "flows": "4"},
		// a trial of the suite has time for the 200 requests of a median from 3k/s on
		map[string]string{"rate": "4k/s"},
	)
}

func TestHandshakes(t *testing.T) { workloadtest.Handshakes(t, tcprr.Workload{}, nil) }

// inside returns a namespace with a loopback link, and an address in it for both ends.
func inside(t *testing.T, address string) map[workload.Side]workloadtest.Where {
	t.Helper()
	m := testnet.New(t)
	if err := m.Do(func() error {
		h, err := link.Open()
		if err != nil {
			return err
		}
		defer h.Close()
		lo, err := h.ByName("lo")
		if err != nil {
			return err
		}
		return h.SetUp(lo.Index, true)
	}); err != nil {
		t.Fatal(err)
	}
	at := workloadtest.Where{Address: netip.MustParseAddr(address), Do: m.Do}
	return map[workload.Side]workloadtest.Where{workload.Source: at, workload.Sink: at}
}

// complete runs a trial that is drained. At a rate, messages that were due in the last moments may not have been sent:
// as many as are due in the time that the test may lose without the witness's notice. If they arrive at random, that
// depends on the trial, and the rig must be new.
func complete(t *testing.T, r *workloadtest.Rig) (s traffic.Sample) {
	t.Helper()
	limit := workloadtest.Borne()
	schedule, err := workload.Spec{Params: r.Params}.Schedule(1, 1, 1) // only of times: those of pair 0
	if err != nil {
		t.Fatal(err)
	}
	if schedule != nil {
		limit.Lost = time.Millisecond
	}
	number := uint64(0)
	witness.Until(t, limit, func() error {
		unsent := int64(0)
		if schedule != nil {
			schedule.Begin(number)
			unsent = int64(schedule.Before(int64(r.Length)) - schedule.Before(int64(r.Length-limit.Lost)))
		}
		number++
		trial, _ := r.Trial(t)
		s = trial.Sources[0]
		if doubt := s.Doubt + trial.Sinks[0].Doubt; trial.Failure() != "" || doubt != "" || s.Unsent > unsent {
			return fmt.Errorf("not drained: %q, %q, %d unsent (at most %d)", trial.Failure(), doubt, s.Unsent, unsent)
		}
		if s.Received != s.Sent || s.Sent == 0 || s.Total != trial.Sinks[0].Total {
			t.Errorf("a trial that was drained: %+v, %+v", s, trial.Sinks[0])
		}
		return nil
	})
	return s
}

// In each mode and over both families, in a namespace other than the threads', every request has its response.
func TestWays(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		where := inside(t, address)
		for _, given := range []map[string]string{
			{},
			{"mode": "spin"},
			{"flows": "128"},
			{"in-flight": "8"},
			// more than both sockets hold: neither side waits for the other
			{"payload": "100000", "response": "200000", "in-flight": "8"},
			{"mode": "spin", "payload": "200", "flows": "9", "in-flight": "3"}, // more flows than the source has ports
			{"rate": "2k/s", "congestion": "reno", "send-buffer": "64KiB", "dscp": "10"},
			{"rate": "2k/s", "mode": "spin", "flows": "2", "response": "200"},
			{"rate": "5k/s", "arrivals": "poisson", "sizes": "exponential", "payload": "2000", "flows": "3"},
			{"rate": "5k/s", "sizes": "uniform", "payload": "4", "response": "1"},
		} {
			t.Run(fmt.Sprint(address, given), func(t *testing.T) {
				complete(t, workloadtest.NewRig(t, tcprr.Workload{}, workloadtest.Options{
					Pairs: 1, Length: 50 * time.Millisecond, Given: given, Where: where,
				}))
			})
		}
	}
}

// [workloadtest.Stalls] explains why a closed loop hides a stall, and a schedule does not.
func TestStalls(t *testing.T) {
	rig := func(given map[string]string, stall workload.Stall) *workloadtest.Rig {
		return workloadtest.NewRig(t, tcprr.Workload{}, workloadtest.Options{
			Pairs: 1, Length: workloadtest.StallLength, Given: given, Stall: stall,
		})
	}
	still := workload.Stall{Every: workloadtest.StallEvery, For: workloadtest.StallFor}
	schedule := map[string]string{"rate": workloadtest.StallRate}
	workloadtest.Stalls(t, workloadtest.Even(), rig(schedule, still), rig(schedule, workload.Stall{}), rig(nil, still))
}

// A planted delay is found.
func TestPlanted(t *testing.T) {
	r := workloadtest.NewRig(t, tcprr.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 50 * time.Millisecond, Plant: 20 * time.Microsecond,
	})
	_, result := r.Trial(t)
	if got := result.Metrics["planted"]; got < 20e-6 || got > 1e-3 {
		t.Errorf("planted %g s, want 20 µs", got)
	}
}

// If nobody listens, a source reports that when it opens or when it waits for its connection.
func TestAbsent(t *testing.T) {
	workloadtest.Loopback(t)
	params, err := tcprr.Workload{}.Describe().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	before := testnet.Descriptors(t)
	e, err := tcprr.Workload{}.Open(workload.Spec{
		Params: params, Side: workload.Source, LocalPorts: 1, RemotePorts: 1,
		Local:  netip.AddrPortFrom(loopback, workloadtest.FreePort()),
		Remote: netip.AddrPortFrom(loopback, workloadtest.FreePort()),
	})
	if err == nil {
		err = e.(workload.Readier).Ready(traffic.ConnectLimit)
		e.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("open: %v, want that the connection is refused", err)
	}
	if after := testnet.Descriptors(t); after > before {
		t.Errorf("%d descriptors are left open", after-before)
	}
}

// starving is an endpoint that has few descriptors while it prepares a trial.
type starving struct {
	traffic.Endpoint
	t   *testing.T
	now bool
}

func (s *starving) Prepare(trial uint64) {
	if s.now {
		testnet.FewDescriptors(s.t, 2, func() { s.Endpoint.Prepare(trial) })
	} else {
		s.Endpoint.Prepare(trial)
	}
}

func (s *starving) Collect() { s.Endpoint.(traffic.Collector).Collect() }

// Connections that a trial has lost are replaced in the container's namespace, and stale ones in the queue are skipped.
// If there is no descriptor for them, the trial reports that, and the next one works.
func TestConnectsAnew(t *testing.T) {
	var source *starving
	r := workloadtest.NewRig(t, tcprr.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 50 * time.Millisecond, Given: map[string]string{"flows": "3"}, Where: inside(t, "127.0.0.1"),
		Wrap: func(side workload.Side, _ int, e traffic.Endpoint) traffic.Endpoint {
			if side == workload.Sink {
				return e
			}
			source = &starving{Endpoint: e, t: t}
			return source
		},
	})
	complete(t, r)
	for range 2 {
		tcprr.Break(source.Endpoint)
		source.now = true
		trial, _ := r.Trial(t)
		if why := trial.Sources[0].Failure; !strings.Contains(why, "no connection") ||
			!strings.Contains(why, "too many open files") {
			t.Errorf("without descriptors: %q", why)
		}
		source.now = false
		complete(t, r)
	}
}

// If a sink dies in the middle of a trial, the trial ends long before its close, and both sides report the reason. The
// next trial works.
func TestPeerDies(t *testing.T) {
	for _, given := range []map[string]string{{}, {"in-flight": "8"}, {"rate": "4k/s"}, {"mode": "spin"}} {
		t.Run(fmt.Sprint(given), func(t *testing.T) {
			r := workloadtest.NewRig(t, tcprr.Workload{}, workloadtest.Options{
				Pairs: 1, Length: 120 * time.Millisecond, Given: given,
			})
			witness.Until(t, workloadtest.Borne(), func() error {
				complete(t, r)
				shut := make(chan struct{})
				time.AfterFunc(r.Length/3, func() {
					tcprr.Shut(r.Sinks[0])
					close(shut)
				})
				start := time.Now()
				if timing, err := r.Block(context.Background()); err != nil || !timing.Done {
					t.Fatalf("%v, %+v", err, timing)
				}
				took := time.Since(start)
				<-shut
				told := true
				var whys []string
				for _, e := range []traffic.Endpoint{r.Sources[0], r.Sinks[0]} {
					e.(traffic.Collector).Collect()
					why := e.Sample().Failure
					told = told && (strings.Contains(why, "the other end closed the connection") ||
						strings.Contains(why, "the connection broke: "))
					whys = append(whys, why)
				}
				if !told { // on a busy machine it may happen after the trial is over
					return fmt.Errorf("after %v: %q", took, whys)
				}
				return nil
			})
			complete(t, r)
		})
	}
}

func TestRefuse(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"in-flight=2,rate=1k/s", "in-flight=2 has no effect at a rate"},
		{"arrivals=poisson", "arrivals=poisson needs a rate"},
		{"sizes=uniform", "needs a rate"},
		{"sizes=uniform,rate=1k/s", "payload=1: requests of different lengths hold their length in 4 bytes"},
		{"payload=0", "out of range (valid: 1 to 1048576 bytes)"},
		{"response=some", "invalid size"},
		{"flows=0", "from 1 to 128"},
		{"in-flight=1025", "from 1 to 1024"},
		{"mode=single", "valid: wait, spin"},
	} {
		_, given, err := part.Parse("workload", "tcp-rr("+tt.given+")")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (tcprr.Workload{}).Describe().Resolve(given); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.given, err, tt.want)
		}
	}
}

func TestPrimary(t *testing.T) {
	d := tcprr.Workload{}.Describe()
	for given, want := range map[string]string{
		"tcp-rr": "latency_p50", "tcp-rr(in-flight=2)": "transaction_rate", "tcp-rr(flows=2)": "transaction_rate",
		"tcp-rr(flows=2,rate=1k/s)": "latency_p50",
	} {
		_, params, err := part.Parse("workload", given)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Resolve(params)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Primary(p); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

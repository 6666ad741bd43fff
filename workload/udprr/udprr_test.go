package udprr_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux/clock"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprr"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, udprr.Workload{},
		map[string]string{},
		map[string]string{"mode": "spin", "in-flight": "8", "response": "200", "flows": "3"},
		map[string]string{"mode": "spin", "payload": "1", "response": "1", "flow": "fresh"},
		map[string]string{"rate": "4k/s", "arrivals": "poisson", "sizes": "uniform", "flows": "2"},
	)
}

// In each mode and over both families, what was sent is answered.
func TestWays(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		at := workloadtest.Where{Address: netip.MustParseAddr(address), Do: func(f func() error) error { return f() }}
		for _, given := range []map[string]string{
			{},
			{"mode": "spin"},
			{"in-flight": "8"},
			{"in-flight": "8", "flows": "4"},
			{"payload": "100", "response": "200"},
			{"payload": "200", "response": "1", "flows": "4"},
			{"payload": "1", "response": "1"},
			{"flow": "fresh", "in-flight": "2"},
			{"rate": "2k/s"},
			{"rate": "2k/s", "mode": "spin", "flow": "fresh", "response": "1024"},
			{"rate": "5k/s", "arrivals": "poisson", "sizes": "exponential", "flows": "3"},
			{"timestamps": "software"},
			{"timestamps": "software", "mode": "spin", "payload": "48", "response": "1024"},
		} {
			t.Run(fmt.Sprint(address, given), func(t *testing.T) {
				r := workloadtest.NewRig(t, udprr.Workload{}, workloadtest.Options{
					Pairs: 1, Length: 50 * time.Millisecond, Given: given,
					Where: map[workload.Side]workloadtest.Where{workload.Source: at, workload.Sink: at},
				})
				witness.Until(t, workloadtest.Borne(), func() error {
					trial, _ := r.Trial(t)
					s := trial.Sources[0]
					if s.Sent > 0 && s.Received == s.Sent && s.Total == trial.Sinks[0].Total && s.Doubt != traffic.MarkerLost {
						return nil
					}
					return fmt.Errorf("requests were lost: %+v", s)
				})
			})
		}
	}
}

// If nobody listens, the trial has no figure, and reports why.
func TestAbsent(t *testing.T) {
	workloadtest.Loopback(t)
	at := func() netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), workloadtest.FreePort())
	}
	for _, given := range []map[string]string{{}, {"in-flight": "4"}, {"rate": "4k/s"}, {"mode": "spin"}} {
		params, err := udprr.Workload{}.Describe().Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		e, err := udprr.Workload{}.Open(workload.Spec{
			Params: params, Side: workload.Source, Local: at(), Remote: at(), LocalPorts: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		e.Prepare(1)
		open := clock.Now()
		e.Run(1, traffic.Window{Open: open, Start: open + 10e6, Close: open + 60e6})
		runtime.UnlockOSThread()
		e.(traffic.Collector).Collect()
		if got := e.Sample().Failure; got != "no answer arrived: connection refused" {
			t.Errorf("%v: %q, want that nobody listens", given, got)
		}
		e.Close()
	}
}

func TestRefuse(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"payload=23,in-flight=2", "no room for a header of 24"},
		{"payload=100,response=1,rate=1k/s", "no room for a header of 24"},
		{"payload=1,timestamps=software", "no room for a header of 24"},
		{"timestamps=software,payload=47", "too small for timestamps (valid: at least 48)"},
		{"timestamps=software,response=47", "too small for timestamps"},
		{"timestamps=software,in-flight=2", "one request in flight"},
		{"timestamps=software,flow=fresh", "one kept flow"},
		{"in-flight=2,rate=1k/s", `in-flight=2 has no effect at a rate`},
		{"flows=2,flow=fresh", `flows=2 conflicts with fresh flows`},
		{"arrivals=poisson", "arrivals=poisson needs a rate"},
		{"sizes=uniform", "sizes=uniform:1 needs a rate"},
		{"payload=0", "out of range (valid: 1 to 65507 bytes)"},
		{"response=some", "invalid size"},
	} {
		given := map[string]string{}
		for p := range strings.SplitSeq(tt.given, ",") {
			name, value, _ := strings.Cut(p, "=")
			given[name] = value
		}
		if _, err := (udprr.Workload{}).Describe().Resolve(given); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.given, err, tt.want)
		}
	}
}

// The first round trip of a new flow is a separate figure, as long as there are unused ports.
func TestFresh(t *testing.T) {
	r := workloadtest.NewRig(t, udprr.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 10 * time.Millisecond, Given: map[string]string{"flow": "fresh"},
	})
	const ports = 8 // of a rig
	seen := 0
	for i := range 2 * ports {
		trial, result := r.Trial(t)
		first, has := result.Metrics["first_packet_latency"]
		used := strings.Contains(strings.Join(result.Warnings, "; "), "all ports have been used")
		switch {
		case i >= ports && (has || !used && trial.Sources[0].Doubt == ""):
			t.Errorf("trial %d: a first packet of a port that was used before: %v, %q", i, result.Metrics, result.Warnings)
		case i < ports && used:
			t.Errorf("trial %d: %q", i, result.Warnings)
		case has && (first <= 0 || first > 1):
			t.Errorf("trial %d: %g s", i, first)
		case has:
			seen++
		}
		s := trial.Sources[0]
		if n := trial.Histograms[traffic.Latency]; n != nil && n.TotalCount() != s.Received {
			t.Errorf("trial %d: %d latencies of %d requests", i, n.TotalCount(), s.Received)
		}
	}
	if seen < ports/2 {
		t.Errorf("%d of %d trials of new flows say how long the first packet took", seen, ports)
	}
}

// The parts of a round trip are less than the whole, and there are as many of each as round trips.
func TestTimestamps(t *testing.T) {
	r := workloadtest.NewRig(t, udprr.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 100 * time.Millisecond, Given: map[string]string{"timestamps": "software"},
	})
	for range 3 {
		trial, result := r.Trial(t)
		h := trial.Histograms
		if h[traffic.SenderStack] == nil || h[traffic.Wire] == nil || h[traffic.ReceiverStack] == nil {
			t.Fatalf("not all parts: %v, %q", result.Metrics, result.Warnings)
		}
		count := float64(h[traffic.Latency].TotalCount())
		sum := h[traffic.SenderStack].Mean() + 2*h[traffic.Wire].Mean() + h[traffic.ReceiverStack].Mean()
		t.Logf("mean of %g: latency %.0f ns, sender %.0f, wire %.0f, receiver %.0f", count, h[traffic.Latency].Mean(),
			h[traffic.SenderStack].Mean(), h[traffic.Wire].Mean(), h[traffic.ReceiverStack].Mean())
		if sum <= 0 || sum >= h[traffic.Latency].Mean() {
			t.Errorf("parts of %.0f ns of a round trip of %.0f", sum, h[traffic.Latency].Mean())
		}
		for q, least := range map[traffic.Quantity]float64{
			traffic.SenderStack: 0.99, traffic.ReceiverStack: 0.99, traffic.Wire: 0.9,
		} {
			if n := float64(h[q].TotalCount()); n < least*count-2 || n > count {
				t.Errorf("%s: %g of %g round trips", q.Name(), n, count)
			}
		}
	}
}

func TestStall(t *testing.T) {
	rig := func(given map[string]string, stall workload.Stall) *workloadtest.Rig {
		return workloadtest.NewRig(t, udprr.Workload{}, workloadtest.Options{
			Pairs: 1, Length: workloadtest.StallLength, Given: given, Stall: stall,
		})
	}
	open, stall := map[string]string{"rate": "10k/s"}, workload.Stall{
		Every: workloadtest.StallEvery, For: workloadtest.StallFor,
	}
	workloadtest.Stalls(t, workloadtest.Even(), rig(open, stall), rig(open, workload.Stall{}), rig(nil, stall))
}

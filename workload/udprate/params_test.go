package udprate_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

// Parameters that do not fit together are refused, with advice; others are not.
func TestRefuse(t *testing.T) {
	d := udprate.Workload{}.Describe()
	for want, given := range map[string]map[string]string{
		"finds the rate itself":                 {"search": "no-drop", "rate": "10k/s"},
		"valid: search=no-drop":                 {"bound": "1%"},
		"valid: mode=batched or mode=segmented": {"batch": "8"},
		"valid: up to 32753":                    {"mode": "segmented", "payload": "40000"},
		"valid: mode=single or mode=batched":    {"mode": "segmented", "rate": "1k/s", "sizes": "normal"},
		"arrivals=poisson needs a rate":         {"arrivals": "poisson"},
		"sizes=uniform:1 needs a rate":          {"sizes": "uniform:1"},
		"valid: single, batched":                {"mode": "both"},
		"valid: a whole number from 1 to ":      {"flows": "65"},
	} {
		if _, err := d.Resolve(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", given, err, want)
		}
	}
	for _, given := range []map[string]string{
		{"search": "no-drop", "arrivals": "bursts:1ms:1ms", "mode": "batched", "bound": "0"},
		{"mode": "segmented", "rate": "1M/s", "batch": "10", "flows": "64"},
		{"rate": "10k/s", "sizes": "uniform", "recv-buffer": "1MiB", "dscp": "46"},
	} {
		if _, err := d.Resolve(given); err != nil {
			t.Errorf("%v: %v", given, err)
		}
	}
	if id := d.ID(resolve(t, nil)); id != "udp-rate(payload=64,mode=single)" {
		t.Errorf("id %q", id)
	}
}

func resolve(t *testing.T, given map[string]string) map[string]string {
	t.Helper()
	p, err := udprate.Workload{}.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The result of a search governs stopping, and a search takes longer than a rate.
func TestSearchIsPrimary(t *testing.T) {
	d := udprate.Workload{}.Describe()
	for given, want := range map[string]struct {
		primary string
		trial   time.Duration
	}{"none": {"packet_rate", 100 * time.Millisecond}, "no-drop": {"no_drop_rate", time.Second}} {
		p := resolve(t, map[string]string{"search": given})
		if d.Primary(p) != want.primary || d.Trial(p) != want.trial {
			t.Errorf("search=%s: %s in %v, want %+v", given, d.Primary(p), d.Trial(p), want)
		}
	}
}

// A source needs a port for each flow.
func TestPorts(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:20000")
	_, err := udprate.Workload{}.Open(workload.Spec{
		Params: resolve(t, map[string]string{"flows": "3"}), Side: workload.Source, Local: at, Remote: at, LocalPorts: 2,
	})
	if err == nil || !strings.Contains(err.Error(), "flows=3, but a source has only 2 ports") {
		t.Errorf("three flows and two ports: %v", err)
	}
}

// For each datagram of a rate, the delay of its departure is recorded. Two trials with the same number have the same
// sizes.
func TestPaced(t *testing.T) {
	for _, mode := range []string{"single", "batched"} {
		r := workloadtest.NewRig(t, udprate.Workload{}, workloadtest.Options{
			Pairs: 1, Length: 100 * time.Millisecond, Given: map[string]string{
				"rate": "2k/s", "mode": mode, "sizes": "uniform", "payload": "500",
			},
		})
		trial, result := r.Trial(t)
		source, sink := trial.Sources[0], trial.Sinks[0]
		h := trial.Histograms[traffic.Departure]
		if h == nil || h.TotalCount() != source.Sent {
			t.Fatalf("%s: departures %v of %d sent", mode, h, source.Sent)
		}
		if source.Total > 200 || source.Counts[traffic.CountBacklog] >= 200 {
			t.Errorf("%s: %d of 200 sent, %d due and not sent", mode, source.Total, source.Counts[traffic.CountBacklog])
		}
		if mean := float64(sink.Bytes) / float64(sink.Total); sink.Total > 100 && (mean < 400 || mean > 600) {
			t.Errorf("%s: %g bytes on average, want 500", mode, mean)
		}
		t.Logf("%s: departure error p50 %d ns, p99 %d ns; %+v", mode, h.ValueAtQuantile(50), h.ValueAtQuantile(99),
			result.Metrics)
	}
}

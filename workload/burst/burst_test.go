package burst_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/burst"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	workloadtest.Conformance(t, burst.Workload{},
		map[string]string{"rate": "10Mbit/s", "on": "40ms", "off": "10ms"},
		map[string]string{"rate": "20Mbit/s", "off": "0s", "payload": "100", "flows": "4"})
}

// A sink that stands still for 5 ms of each 50 ms delays the datagrams that arrive meanwhile: a tenth of them wait,
// from 5 ms down to nothing, and 8 % of all wait longer than a millisecond. Other work on the machine can only make
// more of them wait.
func TestStallIsSeen(t *testing.T) {
	r := workloadtest.NewRig(t, burst.Workload{}, workloadtest.Options{
		Pairs: 1, Length: 500 * time.Millisecond, Given: map[string]string{"rate": "10Mbit/s", "off": "0s"},
		Stall: workload.Stall{Every: 50 * time.Millisecond, For: 5 * time.Millisecond},
	})
	trial, _ := r.Trial(t)
	h := trial.Histograms[traffic.OneWay]
	slow := int64(0)
	for _, bar := range h.Distribution() {
		if bar.From > int64(time.Millisecond) {
			slow += bar.Count
		}
	}
	if share := float64(slow) / float64(h.TotalCount()); share < 0.06 || h.Max() < int64(4*time.Millisecond) {
		t.Errorf("%.1f %% of %d one-way times are longer than 1 ms, and the longest is %v: want 8 %% and 5 ms", 100*share,
			h.TotalCount(), time.Duration(h.Max()))
	}
}

func TestRefuse(t *testing.T) {
	d := burst.Workload{}.Describe()
	for _, tt := range []struct{ name, value, want string }{
		{"rate", "100Gbit/s", "rate=100Gbit/s with datagrams of 653 bytes"},
		{"rate", "10k/s", "invalid bit rate"},
		{"on", "5ms", "on=5ms is too short for one datagram at rate=500kbit/s (valid: at least 10.448ms)"},
		{"on", "0s", "1ms"},
		{"flows", "9", "1 to 8"},
		{"payload", "23", "24"},
	} {
		if _, err := d.Resolve(map[string]string{tt.name: tt.value}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s=%s: %v, want %q", tt.name, tt.value, err, tt.want)
		}
	}
	p, err := d.Resolve(map[string]string{"on": "200ms", "off": "0s"})
	if err != nil || d.Trial(p) != 200*time.Millisecond {
		t.Errorf("a trial of %v (%v), want 200 ms", d.Trial(p), err)
	}
}

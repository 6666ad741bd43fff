package http

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestConformance(t *testing.T) {
	testnet.NotWithout(t)
	workloadtest.Conformance(t, Workload{},
		map[string]string{},
		map[string]string{"connection": "new", "rate": "3k/s", "arrivals": "poisson", "payload": "0"},
	)
}

func TestHandshakes(t *testing.T) {
	workloadtest.Handshakes(t, Workload{}, map[string]string{"clients": "4"})
}

// A planted delay in the server is found, and a server that stands still is noticed.
func TestPlanted(t *testing.T) {
	const planted, still = 50 * time.Microsecond, 10 * time.Millisecond
	r := workloadtest.NewRig(t, Workload{}, workloadtest.Options{
		Pairs: 1, Length: 150 * time.Millisecond, Plant: planted,
		Stall: workload.Stall{Every: 50 * time.Millisecond, For: still}, Given: map[string]string{"rate": "2k/s"},
	})
	trial, result := sound(t, r)
	if got := result.Metrics["planted"]; got < planted.Seconds() {
		t.Errorf("planted %g s a request, want %v", got, planted)
	}
	if longest := time.Duration(trial.Histograms[traffic.Latency].Max()); longest < still*9/10 {
		t.Errorf("the longest latency is %v, where the server stands still for %v", longest, still)
	}
}

func TestRefuse(t *testing.T) {
	for _, tt := range []struct {
		given map[string]string
		want  string // "": nothing is refused
	}{
		{map[string]string{"payload": "1MiB", "clients": "256", "rate": "10/s", "arrivals": "poisson"}, ""},
		{map[string]string{"payload": "1MiB", "clients": "1000", "server": "nginx"}, ""},
		{map[string]string{"payload": "1MiB", "clients": "257"}, "valid: at most 256 clients"},
		{map[string]string{"payload": "1025KiB"}, "payload"},
		{map[string]string{"clients": "1001"}, "clients"},
		{map[string]string{"clients": "0"}, "clients"},
		{map[string]string{"connection": "close"}, "keep-alive, new"},
		{map[string]string{"server": "apache"}, "embedded, nginx"},
		{map[string]string{"arrivals": "poisson"}, "needs a rate"},
		{map[string]string{"rate": "10/s", "sizes": "uniform"}, "all pages have the size of the payload"},
	} {
		_, err := Workload{}.Describe().Resolve(tt.given)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.given, err, tt.want)
		}
	}
}

// sound runs a trial that has figures.
func sound(t *testing.T, r *workloadtest.Rig) (trial workload.Trial, result workload.Result) {
	t.Helper()
	witness.Until(t, borne(), func() error {
		trial, result = r.Trial(t)
		if trial.Failure() != "" || result.Metrics["transaction_rate"] <= 0 {
			return fmt.Errorf("no figures: %q, %v", trial.Failure(), result.Metrics)
		}
		return nil
	})
	return trial, result
}

// borne is the limit for trials whose server is an external program, or begins and ends with the trial.
func borne() witness.Limit { return witness.Limit{Lost: traffic.DrainLimit / 2, Share: 0.15} }

package command_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/driver"
	"github.com/nettoll/nettoll/driver/iperf3"
	pingdriver "github.com/nettoll/nettoll/driver/ping"
	"github.com/nettoll/nettoll/internal/testnet"
	"github.com/nettoll/nettoll/internal/testnet/witness"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/command"
	"github.com/nettoll/nettoll/workload/ping"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/workloadtest"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestDescribed(t *testing.T) { workloadtest.Described(t, command.Workload{}) }

// length returns the length of a trial with some parameters.
func length(t *testing.T, w workload.Workload, given map[string]string) time.Duration {
	t.Helper()
	p, err := w.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return w.Describe().Trial(p)
}

func rig(t *testing.T, pairs int, given map[string]string) *workloadtest.Rig {
	t.Helper()
	return workloadtest.NewRig(t, command.Workload{}, workloadtest.Options{
		Pairs: pairs, Length: length(t, command.Workload{}, given), Given: given,
	})
}

// driven is a workload whose endpoints a driver opens.
type driven struct {
	workload.Workload
	driver driver.Driver
}

func (d driven) Open(s workload.Spec) (traffic.Endpoint, error) { return d.driver.Open(s) }

// The workload reads the same figure of a program as a driver that knows the program, in the same trials and on the
// same CPUs.
func TestAgrees(t *testing.T) {
	for _, tt := range []struct {
		metric string
		asked  map[string]string
		load   driven
		given  map[string]string
	}{
		{
			"goodput",
			map[string]string{
				// this server does not end by itself
				"source": "iperf3 -c {remote} -B {local} -p {port} -t {seconds} --json", "sink": "iperf3 -s -B {local} -p {port}",
				"metric": "goodput", "figure": "json:end.sum_received.bits_per_second", "overhead": "3s", // on a busy machine
			},
			driven{tcpstream.Workload{}, iperf3.Driver{}},
			map[string]string{"message": "131072"},
		},
		{
			"latency_mean",
			map[string]string{"source": "ping -n -U -i 0.001 -w {seconds} {remote}"},
			driven{ping.Workload{}, pingdriver.Driver{}},
			map[string]string{"interval": "1ms"},
		},
	} {
		t.Run(tt.metric, func(t *testing.T) {
			ours := rig(t, 1, tt.asked)
			d := tt.load.Describe()
			p, err := d.Resolve(tt.given)
			if err != nil {
				t.Fatal(err)
			}
			theirs := workloadtest.NewRig(t, tt.load, workloadtest.Options{
				Pairs: 1, Length: tt.load.driver.Trial(d, p), Given: tt.given,
			})
			// Programs begin and end with the trial, and the kernel does not report how long such processes waited.
			witness.Until(t, witness.Limit{Lost: 50 * time.Millisecond, Share: 0.1}, func() error {
				a, ra := ours.Trial(t)
				b, rb := theirs.Trial(t)
				if a.Failure() != "" {
					t.Fatal(a.Failure())
				}
				if b.Failure() != "" {
					t.Log(b.Failure())
				}
				x, y := ra.Metrics[tt.metric], rb.Metrics[tt.metric]
				t.Logf("%s %g, by the driver %g; CPU %g and %g, by the driver %g and %g", tt.metric, x, y,
					ra.Metrics["cpu_source"], ra.Metrics["cpu_sink"], rb.Metrics["cpu_source"], rb.Metrics["cpu_sink"])
				if x > y/2 && x < 2*y {
					return nil
				}
				return fmt.Errorf("%s of %g, and by the driver %g", tt.metric, x, y)
			})
		})
	}
}

// Each possible fault is reported, with its pair, and the trial ends in time. Processes that were left behind are
// killed.
func TestFaults(t *testing.T) {
	left := t.TempDir() + "/left"
	source := `case {pair} in
		0) echo no luck >&2; exit 3 ;;
		1) echo at it; sleep 100 ;;
		2) echo 'something else' ;;
		3) sleep 100 & echo $! > ` + left + `; echo 'figure 1' ;;
		4) kill -9 $$ ;;
		5) echo 'figure 0x2q' ;;
	esac`
	r := rig(t, 6, map[string]string{
		"name": "faults", "shell": "true", "source": source, "figure": "regexp:figure (.*)", "metric": "goodput",
	})
	began := time.Now()
	trial, _ := r.Trial(t)
	if took := time.Since(began); took > r.Length+time.Second {
		t.Errorf("a trial of %v took %v", r.Length, took)
	}
	for pair, want := range []string{
		"the source's command (faults) ended with exit status 3: no luck",
		"the source's command (faults) did not end within its trial of 2s",
		`the source's command (faults) printed nothing that matches "figure (.*)": something else`,
		"",
		"the source's command (faults) ended with signal: killed",
		`the source's command (faults) printed "0x2q" instead of a number: figure 0x2q`,
	} {
		if got := trial.Sources[pair].Failure; got != want {
			t.Errorf("pair %d: %q, want %q", pair, got, want)
		}
	}
	pid, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	if err == nil && !strings.Contains(string(stat), ") Z ") { // init has not reaped it yet
		t.Errorf("left behind: %s", stat)
	}
}

// Faults at a sink.
func TestSinkFaults(t *testing.T) {
	sink := `case {pair} in
		0) echo no luck >&2; exit 3 ;;
		1) sleep 100 ;;
		2) trap '' INT; echo 'figure 2'; sleep 100 & wait; wait ;;
		3) trap 'echo figure 3; exit 1' INT; sleep 100 & wait ;;
	esac`
	given := map[string]string{
		"name": "faults", "shell": "true", "source": "echo figure 1", "sink": sink, "output": "sink", "ready": "50ms",
		"figure": "regexp:figure (.*)", "metric": "goodput",
	}
	r := rig(t, 4, given)
	trial, _ := r.Trial(t)
	for pair, want := range []string{
		"the sink's command (faults) ended with exit status 3: no luck",
		`the sink's command (faults) printed nothing that matches "figure (.*)"`, "", "",
	} {
		if got := trial.Sinks[pair].Failure; got != want {
			t.Errorf("pair %d: %q, want %q", pair, got, want)
		}
	}
	for pair := 2; pair < 4; pair++ {
		if got := trial.Sinks[pair].Foreign.Figure; got != float64(pair) {
			t.Errorf("pair %d: a figure of %g", pair, got)
		}
	}
	given["ready"], given["output"] = "tcp", "source"
	trial, _ = rig(t, 2, given).Trial(t)
	if got, want := trial.Sinks[1].Failure,
		"the sink's command (faults) did not listen at 127.0.0.1:"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Rates of pairs are added up; durations are not.
func TestMetrics(t *testing.T) {
	for _, tt := range []struct {
		metric  string
		want    float64
		perPair float64
	}{
		{"goodput", 7, 3.5},
		{"latency_p99", 3.5, 0},
		{"latency_max", 4, 0},
		{"memory", 7, 0},
		{"transaction_rate", 7, 3.5},
		{"setup_time", 3.5, 0},
	} {
		trial := workload.Trial{
			Params: map[string]string{"metric": tt.metric, "output": "sink"}, Length: time.Second,
			Sinks: []traffic.Sample{
				{Foreign: traffic.Foreign{Figure: 3}}, {Foreign: traffic.Foreign{Figure: 4}},
			}, Sources: make([]traffic.Sample, 2),
		}
		r := command.Workload{}.Metrics(trial)
		if r.Metrics[tt.metric] != tt.want || r.Metrics[tt.metric+"_per_pair"] != tt.perPair ||
			len(r.PerPair[tt.metric]) != 2 {
			t.Errorf("%s: %+v", tt.metric, r)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		given map[string]string
		want  string
	}{
		{map[string]string{"source": " "}, "source: no command is given"},
		{
			map[string]string{"source": "iperf3 -c {remote} -J"},
			"figure is missing",
		},
		{map[string]string{"output": "sink"}, "output=sink: the sink has no command"},
		{map[string]string{"unit": "ms"}, "unit=ms conflicts with the group named unit"},
		{map[string]string{"figure": "json:a", "unit": "Mbit/s"}, `unit: invalid unit "Mbit/s" of latency_mean`},
		{map[string]string{"figure": "a"}, "neither json:PATH nor regexp:RE"},
		{map[string]string{"sink": "a {seconds}"}, "sink: unknown placeholder {seconds}"},
		{map[string]string{"sink": "a | b"}, "sink: | needs a shell"},
		{map[string]string{"metric": "cpu_busy"}, `metric: invalid value "cpu_busy" (valid: goodput, `},
		{map[string]string{"metric": "loss"}, `metric: invalid value "loss"`},
		{map[string]string{"ready": "1s"}, "or tcp or udp"},
		{map[string]string{"name": "a b"}, `invalid name "a b"`},
		{map[string]string{"time": "1s"}, "valid: 1.1s to 1m, with the units ns, us, ms, s, m and h), or auto"},
		{map[string]string{"time": "3s", "overhead": "2500ms"}, "time=3s: an overhead of 2.5s leaves less than one second"},
	} {
		if _, err := (command.Workload{}).Describe().Resolve(tt.given); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.given, err, tt.want)
		}
	}
}

// A command without a name gets the name of its program. Its text is in no id.
func TestName(t *testing.T) {
	d := command.Workload{}.Describe()
	for source, want := range map[string]string{
		"/usr/bin/iperf3 -c {remote}": "command(name=iperf3,metric=latency_mean)",
		"'my (tool)' x":               "command(name=command,metric=latency_mean)",
		"./run.sh x/y":                "command(name=run.sh,metric=latency_mean)",
		"a,b":                         "command(name=a,metric=latency_mean)",
	} {
		p, err := d.Resolve(map[string]string{"source": source, "figure": "json:a"})
		if err != nil || d.ID(p) != want {
			t.Errorf("%s: %s, %v; want %s", source, d.ID(p), err, want)
		}
	}
}

// A missing program counts as something that the machine lacks, and is reported before anything is measured.
func TestMissing(t *testing.T) {
	p, err := command.Workload{}.Describe().Resolve(map[string]string{
		"source": "no-such-program {remote}", "figure": "json:a",
	})
	if err != nil {
		t.Fatal(err)
	}
	workloadtest.Loopback(t)
	_, err = command.Workload{}.Open(workload.Spec{
		Params: p, Side: workload.Source, Local: netip.MustParseAddrPort("127.0.0.1:1"),
	})
	if want := `use command no-such-program: not supported here: missing program "no-such-program" (hint: install it, or name its path)`; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

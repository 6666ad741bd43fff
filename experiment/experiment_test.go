package experiment_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
)

func TestDefault(t *testing.T) {
	r, err := experiment.Resolve(experiment.Default(), catalogue.New().Parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.Cells {
		got = append(got, c.ID+" < "+c.Baseline+" @ "+r.Labs[c.Lab].ID)
	}
	want := []string{
		"host/same-host/1/udp-rr(payload=64,mode=spin) <  @ host/same-host/1",
		"host/same-host/1/udp-rr(payload=64,mode=spin)#2 < host/same-host/1/udp-rr(payload=64,mode=spin) @ host/same-host/1#2",
		"bridge/same-host/1/udp-rr(payload=64,mode=spin) < host/same-host/1/udp-rr(payload=64,mode=spin) @ bridge/same-host/1",
		"host/cross-host/1/udp-rr(payload=64,mode=spin) <  @ host/cross-host/1",
		"host/cross-host/1/udp-rr(payload=64,mode=spin)#2 < host/cross-host/1/udp-rr(payload=64,mode=spin) @ host/cross-host/1#2",
		"bridge/cross-host/1/udp-rr(payload=64,mode=spin) < host/cross-host/1/udp-rr(payload=64,mode=spin) @ bridge/cross-host/1",
		"host/same-host/1/udp-rr(payload=64,mode=wait) <  @ host/same-host/1",
		"host/same-host/1/udp-rr(payload=64,mode=wait)#2 < host/same-host/1/udp-rr(payload=64,mode=wait) @ host/same-host/1#2",
		"bridge/same-host/1/udp-rr(payload=64,mode=wait) < host/same-host/1/udp-rr(payload=64,mode=wait) @ bridge/same-host/1",
		"host/same-host/1/tcp-stream(message=131072) <  @ host/same-host/1",
		"host/same-host/1/tcp-stream(message=131072)#2 < host/same-host/1/tcp-stream(message=131072) @ host/same-host/1#2",
		"bridge/same-host/1/tcp-stream(message=131072) < host/same-host/1/tcp-stream(message=131072) @ bridge/same-host/1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if len(r.Labs) != 6 || r.Labs[0].Hosts != 1 || r.Labs[3].Hosts != 2 {
		t.Errorf("labs %+v, want three of one host and three of two", r.Labs)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*experiment.Experiment)
		want   string
	}{
		{"network", func(e *experiment.Experiment) { e.Networks = []string{"brdge"} }, `unknown network "brdge" (known: host, bridge)`},
		{"workload", func(e *experiment.Experiment) { e.Workloads[0].Workload = "udp" }, `unknown workload "udp" (known: udp-rr, tcp-stream)`},
		{"parameter", func(e *experiment.Experiment) { e.Workloads[0].Workload = "udp-rr(size=1)" }, `workload udp-rr has no parameter "size" (it has payload, mode)`},
		{"choice", func(e *experiment.Experiment) { e.Workloads[0].Workload = "udp-rr(mode=sleep)" }, `workload udp-rr: mode: "sleep" is not possible (want one of wait, spin)`},
		{"range", func(e *experiment.Experiment) { e.Workloads[0].Workload = "udp-rr(payload=3)" }, `workload udp-rr: payload: "3" is out of range (want 24 to 65507 bytes)`},
		{"size", func(e *experiment.Experiment) { e.Workloads[0].Workload = "udp-rr(payload=big)" }, `"big" is not a size`},
		{"syntax", func(e *experiment.Experiment) { e.Workloads[0].Workload = "udp-rr(payload" }, `want NAME(parameter=value`},
		{"time", func(e *experiment.Experiment) { e.Design.Time = 0 }, `time: 0s (want more than 0)`},
		{"precision", func(e *experiment.Experiment) { e.Design.Precision = 2 }, `precision: 2 (want a share between 0 and 1`},
		{"generations", func(e *experiment.Experiment) { e.Design.Generations = 4 }, `generations: 4 (want at least 5`},
		{"pairs", func(e *experiment.Experiment) { e.Pairs = []int{0} }, `pairs: 0 (want 1 to 500`},
		{"mtu", func(e *experiment.Experiment) { e.Tune.MTU = 100 }, `mtu: 100 (want 1280 to 65535)`},
		{"nothing", func(e *experiment.Experiment) { e.Workloads = nil }, `no workload is asked for`},
		{"spinners", func(e *experiment.Experiment) {
			e.Workloads = e.Workloads[:1]
			e.Workloads[0].Workload, e.Pairs = "udp-rr(mode=spin)", []int{2}
		}, `nothing is left to measure (same-host/2/udp-rr(payload=64,mode=spin): 2 pairs spin on 2 CPUs`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := experiment.Default()
			c.change(&e)
			_, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	var unknown *experiment.UnknownError
	if _, err := catalogue.New().Parts().Network("x"); !errors.As(err, &unknown) || unknown.Kind != "network" {
		t.Errorf("%v is no UnknownError of a network", err)
	}
}

// A trial sees at least ten turns of a tick for each thread on a CPU.
func TestTrialLength(t *testing.T) {
	for _, c := range []struct {
		pairs, cpus int
		affinity    string
		trial, want time.Duration
	}{
		{10, 2, "split", 0, 400 * time.Millisecond},
		{20, 2, "split", 0, 800 * time.Millisecond},
		{20, 8, "split", 0, 200 * time.Millisecond},
		{10, 2, "same", 0, 400 * time.Millisecond},
		{10, 2, "split", 30 * time.Millisecond, 30 * time.Millisecond},
	} {
		e := experiment.Default()
		e.Workloads, e.Pairs, e.Affinity, e.Design.Trial = e.Workloads[2:], []int{c.pairs}, c.affinity, c.trial
		r, err := experiment.Resolve(e, catalogue.New().Parts(), c.cpus)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Cells[0].Trial; got != c.want {
			t.Errorf("%d pairs on %d CPUs, %s: trials of %v, want %v", c.pairs, c.cpus, c.affinity, got, c.want)
		}
	}
}

// Pairs go round: the source on host i, the sink on the next.
func TestHostsOfPairs(t *testing.T) {
	cross, same := experiment.Lab{Hosts: 3}, experiment.Lab{Hosts: 1}
	var got [][2]int
	for pair := range 4 {
		got = append(got, [2]int{cross.SourceHost(pair), cross.SinkHost(pair)})
	}
	if diff := cmp.Diff([][2]int{{1, 2}, {2, 3}, {3, 1}, {1, 2}}, got); diff != "" {
		t.Errorf("three hosts (-want +got):\n%s", diff)
	}
	if same.SourceHost(5) != 1 || same.SinkHost(5) != 1 {
		t.Error("on one host everything is on host 1")
	}
}

func TestTwice(t *testing.T) {
	e := experiment.Default()
	e.Workloads = append(e.Workloads, experiment.Load{Workload: "udp-rr(payload=64B,mode=spin)", Placements: []experiment.Placement{experiment.SameHost}})
	r, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Omitted) != 1 || r.Omitted[0].Reason != "it is asked for twice" {
		t.Errorf("left out %+v, want the second of two equal workloads", r.Omitted)
	}
}

package experiment_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/stack"
)

// read reads a valid experiment.
func read(t *testing.T, text string) experiment.Experiment {
	t.Helper()
	e, err := experiment.Read("test.yaml", []byte(text), nil, catalogue.New().Parts())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// resolve expands an experiment for a machine with this number of CPUs.
func resolve(t *testing.T, e experiment.Experiment, cpus int) *experiment.Resolved {
	t.Helper()
	r, err := experiment.Resolve(e, catalogue.New().Parts(), cpus)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func example(t *testing.T, name string) experiment.Experiment {
	t.Helper()
	x, err := experiment.FindExample(name)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, string(x.Text))
}

func ids(r *experiment.Resolved) []string {
	list := make([]string, len(r.Cells))
	for i, c := range r.Cells {
		list[i] = c.ID + " < " + c.Baseline + " @ " + r.Labs[c.Lab].ID
	}
	return list
}

func TestDefault(t *testing.T) {
	r := resolve(t, example(t, experiment.DefaultExample), 2)
	var want []string
	for _, group := range []struct {
		where  string
		stacks []string
	}{
		{"same-host/1/udp-rr(payload=64,mode=spin)", []string{"bridge", "macvlan"}},
		{"cross-host/1/udp-rr(payload=64,mode=spin)", []string{"bridge", "nat", "macvlan"}},
		{"same-host/1/udp-rr(payload=64,mode=wait)", []string{"bridge", "macvlan"}},
		{"same-host/1/tcp-stream(message=131072)", []string{"bridge", "macvlan"}},
	} {
		placement, _, _ := strings.Cut(group.where, "/")
		base := "host/" + group.where
		want = append(want, base+" <  @ host/"+placement+"/1", base+"#2 < "+base+" @ host/"+placement+"/1#2")
		for _, s := range group.stacks {
			want = append(want, s+"/"+group.where+" < "+base+" @ "+s+"/"+placement+"/1")
		}
	}
	if diff := cmp.Diff(want, ids(r)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if len(r.Omitted) != 1 || r.Omitted[0].What != "nat/same-host" {
		t.Errorf("left out %+v, want nat on one host", r.Omitted)
	}
	for _, l := range r.Labs {
		if want := map[experiment.Placement]int{
			experiment.SameHost: 1, experiment.CrossHost: 2,
		}[l.Placement]; l.Hosts != want {
			t.Errorf("lab %s has %d hosts, want %d", l.ID, l.Hosts, want)
		}
	}
}

// Every example that comes with nettoll can run on two CPUs, and its first line describes it.
func TestExamples(t *testing.T) {
	all, err := experiment.Examples()
	if err != nil || len(all) < 2 || all[0].Name != experiment.DefaultExample {
		t.Fatalf("%d examples, %v", len(all), err)
	}
	for _, x := range all {
		t.Run(x.Name, func(t *testing.T) {
			e := read(t, string(x.Text))
			if r := resolve(t, e, 2); len(r.Cells) == 0 || e.Name != x.Name || x.Summary == "" ||
				strings.Contains(x.Summary, "#") {
				t.Errorf("%d cells, name %q, summary %q", len(r.Cells), e.Name, x.Summary)
			}
		})
	}
}

// The number of hosts of a lab is also a factor, but only across hosts.
func TestHosts(t *testing.T) {
	r := resolve(t, read(t, "hosts: 3\nfactors: {network: bridge, hosts: [2, 3]}\nworkloads: tcp-stream\n"), 2)
	var got []string
	for _, c := range r.Cells {
		if c.Part("network") == "bridge" {
			got = append(got, fmt.Sprint(c.ID, " ", c.Hosts, " ", r.Labs[c.Lab].Hosts))
		}
	}
	want := []string{
		"bridge/same-host/1/tcp-stream(message=131072) 1 1", "bridge/cross-host/1/2-hosts/tcp-stream(message=131072) 2 2",
		"bridge/cross-host/1/tcp-stream(message=131072) 3 3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

// Experiments made in code are checked like files. A workload without ports cannot cross a network that translates
// ports.
func TestResolveWithoutPorts(t *testing.T) {
	e := example(t, experiment.DefaultExample)
	e.Workloads = []experiment.Load{{Choice: experiment.Choice{Name: "ping"}}}
	r, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(r.Cells, func(c experiment.Cell) bool { return c.Part("network") == "nat" }) {
		t.Error("ping is measured across nat")
	}
	want := experiment.Omission{
		What:   "nat/cross-host/1/ping(payload=56,interval=1ms)",
		Reason: "ping uses no ports, and nat can only translate ports",
		Stack:  "nat",
	}
	if !slices.Contains(r.Omitted, want) {
		t.Errorf("left out: %+v, want %+v among it", r.Omitted, want)
	}
}

// A ping is not measured under policies of a cluster, whose rules have ports.
func TestResolveWithoutPortsOnACluster(t *testing.T) {
	e := read(t, "hosts: {kind: kubernetes, nodes: 2}\nbaseline: cni\n"+
		"factors: {network: cni, filter: [none, networkpolicy]}\nworkloads: [ping, udp-rr]\n")
	r, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	with := map[string]bool{} // policies, by workload
	for _, c := range r.Cells {
		with[c.Workload.Describe().Name] = with[c.Workload.Describe().Name] || c.Part("filter") == "networkpolicy"
	}
	if diff := cmp.Diff(map[string]bool{"ping": false, "udp-rr": true}, with); diff != "" {
		t.Errorf("measured under policies (-want +got):\n%s", diff)
	}
	const reason = "ping uses no ports, and cni+networkpolicy can only allow ports"
	if !slices.ContainsFunc(r.Omitted, func(o experiment.Omission) bool { return o.Reason == reason }) {
		t.Errorf("left out: %+v, want %q among the reasons", r.Omitted, reason)
	}
}

// A network that takes one pair is left out with more, and refused if nothing else is to be measured.
func TestResolvePairs(t *testing.T) {
	const (
		one    = "macvlan(by=docker,mode=passthru)@docker"
		reason = "docker makes no two networks of the same addresses on a host, and with mode=passthru each container has " +
			"one (valid here: 1 pair, or another mode)"
	)
	e := read(t, "factors: {network: {macvlan: {by: docker, mode: [passthru, bridge]}}, runtime: docker, "+
		"placement: cross-host, pairs: [1, 2]}\nworkloads: [udp-rr]\n")
	r := resolve(t, e, 2)
	with := map[int]bool{}
	for _, l := range r.Labs {
		with[l.Pairs] = with[l.Pairs] || strings.HasPrefix(l.ID, one+"/")
	}
	if diff := cmp.Diff(map[int]bool{1: true, 2: false}, with); diff != "" {
		t.Errorf("built with so many pairs (-want +got):\n%s", diff)
	}
	if want := (experiment.Omission{What: one + "/cross-host/2", Reason: reason, Stack: one}); !slices.Contains(
		r.Omitted, want) {
		t.Errorf("left out: %+v, want %+v among it", r.Omitted, want)
	}
	alone := read(t, "baseline: "+one+"\nfactors: {network: {macvlan: {by: docker}}, runtime: docker, "+
		"placement: cross-host, pairs: 2}\nworkloads: [udp-rr]\n")
	_, err := experiment.Resolve(alone, catalogue.New().Parts(), 2)
	if err == nil || !strings.Contains(err.Error(), "nothing is left to measure ("+one+"/cross-host/2: "+reason) {
		t.Errorf("alone: %v, want %q", err, reason)
	}
}

func TestResolveErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*experiment.Experiment)
		want   string
	}{
		{"workload", func(e *experiment.Experiment) {
			e.Workloads[0].Name = "udp"
		}, `unknown workload "udp" (known: udp-rr, `},
		{"parameter", func(e *experiment.Experiment) {
			e.Workloads[0].Params["size"] = "1"
		}, `workload udp-rr has no parameter "size" (valid: payload, mode, `},
		{"choice", func(e *experiment.Experiment) {
			e.Workloads[0].Params["mode"] = "sleep"
		}, `workload udp-rr: mode: invalid value "sleep" (valid: wait, spin)`},
		{"driver", func(e *experiment.Experiment) { e.Workloads[0].Driver = "pong" }, `unknown driver "pong"`},
		{"affinity", func(e *experiment.Experiment) {
			e.Factors.Affinities = []string{"near"}
		}, `unknown affinity "near" (known: split, same, free)`},
		{"family", func(e *experiment.Experiment) {
			e.Factors.Families = []string{"ipx"}
		}, `unknown family "ipx" (known: ipv4, ipv6)`},
		{"time", func(e *experiment.Experiment) { e.Design.Time = 0 }, `time: 0s (valid: more than 0`},
		{"precision", func(e *experiment.Experiment) {
			e.Design.Precision = 2
		}, `precision: 2 (valid: a share between 0 and 1`},
		{"generations", func(e *experiment.Experiment) { e.Design.Generations = 4 }, `generations: 4 (valid: 5 to`},
		{"pairs", func(e *experiment.Experiment) { e.Factors.Pairs = []int{0} }, `pairs: 0 (valid: 1 to 500`},
		{"mtu", func(e *experiment.Experiment) { e.Tune.MTU = 100 }, `mtu: 100 (valid: 1280 to 65535)`},
		{"nothing", func(e *experiment.Experiment) { e.Workloads = nil }, "no workload is given"},
		{"spinners", func(e *experiment.Experiment) {
			e.Workloads, e.Factors.Pairs = e.Workloads[:1], []int{2}
		}, `nothing is left to measure (same-host/2/udp-rr(payload=64,mode=spin): 2 pairs spin on 2 CPUs`},
		{"spinners on one CPU", func(e *experiment.Experiment) {
			e.Workloads, e.Factors.Affinities = e.Workloads[:1], []string{"same"}
		}, `1 pair spins on 2 CPUs (affinity same)`},
		{"baseline", func(e *experiment.Experiment) {
			e.Baseline.Parts = stack.Stack{choose(t, "network", "nat", nil)}
			e.Factors.Placements = []experiment.Placement{experiment.SameHost}
		}, `the baseline nat is not measured there`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := example(t, experiment.DefaultExample)
			c.change(&e)
			_, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	var unknown *experiment.UnknownError
	if _, err := catalogue.New().Kinds.Choose("network", "x", nil); !errors.As(err, &unknown) ||
		unknown.Kind != "network" {
		t.Errorf("%v is no UnknownError of a network", err)
	}
}

func choose(t *testing.T, kind, name string, given map[string]string) stack.Choice {
	t.Helper()
	c, err := catalogue.New().Kinds.Choose(kind, name, given)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A thread that shares a CPU with others runs for whole ticks at a time. A trial must contain at least ten turns of
// each thread.
func TestTrialLength(t *testing.T) {
	for _, c := range []struct {
		pairs, cpus int
		affinity    string
		trial, want time.Duration
	}{
		{10, 2, "split", 0, 400 * time.Millisecond},
		{20, 2, "split", 0, 800 * time.Millisecond},
		{20, 8, "split", 0, 200 * time.Millisecond},
		{10, 2, "same", 0, 800 * time.Millisecond}, // on the sources' half of the CPUs
		{10, 2, "free", 0, 400 * time.Millisecond},
		{10, 2, "split", 30 * time.Millisecond, 30 * time.Millisecond},
		{1, 2, "split", 0, 40 * time.Millisecond}, // the length of the workload
		{1, 2, "same", 0, 80 * time.Millisecond},
	} {
		e := read(t, "factors: {network: bridge, placement: same-host}\nworkloads: tcp-stream\n")
		e.Factors.Pairs, e.Factors.Affinities, e.Design.Trial = []int{c.pairs}, []string{c.affinity}, c.trial
		if got := resolve(t, e, c.cpus).Cells[0].Trial; got != c.want {
			t.Errorf("%d pairs on %d CPUs, %s: trials of %v, want %v", c.pairs, c.cpus, c.affinity, got, c.want)
		}
	}
}

// A program that carries packets shares the CPU with the threads.
func TestTrialLengthWithPrograms(t *testing.T) {
	for network, want := range map[string]time.Duration{
		"bridge": 10 * time.Millisecond, "ovs": 80 * time.Millisecond, "{ovs: {datapath: kernel}}": 10 * time.Millisecond,
	} {
		e := read(t, "factors: {network: ["+network+"], placement: same-host, idle: deep}\nworkloads: {udp-rr: {mode: spin}}\n")
		if got := resolve(t, e, 2).Cells[0].Trial; got != want {
			t.Errorf("%s: trials of %v, want %v", network, got, want)
		}
	}
}

// Pairs are spread over the hosts: the source on host i, the sink on the next.
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

// A request that is given twice is measured once, with a note.
func TestTwice(t *testing.T) {
	r := resolve(t, read(t, "factors: {network: bridge, placement: same-host}\nworkloads: [udp-rr, {udp-rr: {payload: "+
		"64B}}]\n"), 2)
	if len(r.Cells) != 3 || len(r.Omitted) != 1 || r.Omitted[0].Reason != "it is given twice" {
		t.Errorf("%q, left out %+v, want the second of two equal workloads", ids(r), r.Omitted)
	}
}

// A named stack is measured under its name, only in its placements, even if it equals the baseline.
func TestNamedStacks(t *testing.T) {
	r := resolve(t, read(t, `
factors: {network: macvlan}
stacks:
  - {name: none, network: host}
  - {name: default-bridge, network: bridge, placement: same-host}
  - {name: default-bridge-nat, network: {nat: {hairpin: false}}, placement: cross-host}
workloads:
  - udp-rr: {mode: wait}
`), 2)
	var got []string
	for _, c := range r.Cells {
		got = append(got, c.Stack+" "+c.Part("network")+" "+c.ID)
	}
	rr := "/1/udp-rr(payload=64,mode=wait)"
	want := []string{
		"host host host/same-host" + rr, "host host host/same-host" + rr + "#2", "macvlan macvlan macvlan/same-host" + rr,
		"none host none/same-host" + rr, "default-bridge bridge default-bridge/same-host" + rr,
		"host host host/cross-host" + rr, "host host host/cross-host" + rr + "#2", "macvlan macvlan macvlan/cross-host" + rr,
		"none host none/cross-host" + rr, "default-bridge-nat nat default-bridge-nat/cross-host" + rr,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "none consists of the same parts as the baseline") {
		t.Errorf("notes %q", r.Notes)
	}
}

// Factors are crossed: every combination is a cell of its own.
func TestFactors(t *testing.T) {
	r := resolve(t, read(t, `
factors:
  network: [bridge, {nat: {hairpin: [true, false]}}]
  placement: [cross-host]
  pairs: [1, 2]
  family: [ipv4, ipv6]
  affinity: [split, free]
workloads:
  - udp-rr: {payload: [28B, 1KiB], mode: wait}
`), 4)
	if want := 2 * 2 * 2 * 2 * 5; len(r.Cells) != want {
		t.Errorf("%d cells, want %d: %q", len(r.Cells), want, ids(r))
	}
	seen, groups := map[string]bool{}, map[string]bool{}
	for _, c := range r.Cells {
		if seen[c.ID] {
			t.Errorf("two cells are called %s", c.ID)
		}
		seen[c.ID], groups[c.Group] = true, true
	}
	for _, id := range []string{
		"nat(hairpin=true)/cross-host/2/ipv6/free/udp-rr(payload=1024,mode=wait)",
		"nat/cross-host/1/udp-rr(payload=28,mode=wait)",
	} {
		if !seen[id] {
			t.Errorf("no cell %s", id)
		}
	}
	if len(groups) != 16 || len(r.Labs) != 2*2*5 {
		t.Errorf("%d groups and %d labs, want 16 and 20", len(groups), len(r.Labs))
	}
}

// A workload that can listen at only one port is left out where others use that port as well.
func TestResolveOnePort(t *testing.T) {
	e := example(t, experiment.DefaultExample)
	e.Workloads = []experiment.Load{{Choice: experiment.Choice{Name: "tbench"}}}
	e.Factors.Placements = []experiment.Placement{experiment.SameHost, experiment.CrossHost}
	e.Factors.Pairs = []int{1, 3}
	e.Factors.Families = []string{"ipv4", "ipv6"}
	e.Design.Trial = time.Second // shorter than it can be
	r, err := experiment.Resolve(e, catalogue.New().Parts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cells {
		if c.Pairs != 1 || c.Family != "ipv4" || c.Part("network") == "nat" && c.Placement == "cross-host" ||
			c.Trial < 2*time.Second {
			t.Errorf("it is measured: %s, in trials of %v", c.ID, c.Trial)
		}
	}
	for _, want := range []experiment.Omission{
		{What: "same-host/1/ipv6/tbench(clients=1)", Reason: "tbench cannot use addresses of IPv6"},
		{What: "host/same-host/3/tbench(clients=1)", Stack: "host", Reason: "tbench listens only at port 7003, and under host the " +
			"3 pairs share it (hint: use another baseline, or one pair per host)"},
		{What: "host/cross-host/3/tbench(clients=1)", Stack: "host", Reason: "tbench listens only at port 7003, and under host " +
			"the 3 pairs share it (hint: use another baseline, or one pair per host)"},
		{
			What:   "nat/cross-host/1/tbench(clients=1)",
			Reason: "tbench listens only at port 7003, which nat does not allow",
			Stack:  "nat",
		},
	} {
		if !slices.Contains(r.Omitted, want) {
			t.Errorf("left out: %+v, want %+v among it", r.Omitted, want)
		}
	}
}

package control

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/proof"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/traffic/flows"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/burst"
	"github.com/nettoll/nettoll/workload/command"
	"github.com/nettoll/nettoll/workload/connections"
	"github.com/nettoll/nettoll/workload/dns"
	"github.com/nettoll/nettoll/workload/http"
	"github.com/nettoll/nettoll/workload/kv"
	"github.com/nettoll/nettoll/workload/quake3"
	"github.com/nettoll/nettoll/workload/tbench"
	"github.com/nettoll/nettoll/workload/tcpcrr"
	"github.com/nettoll/nettoll/workload/tcprr"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/udprate"
	"github.com/nettoll/nettoll/workload/udprr"
	"github.com/nettoll/nettoll/workload/underload"
	"github.com/nettoll/nettoll/workload/video"
)

// counting is a lab of one host, whose counters are what the test says.
type counting struct {
	deploy.Lab
	counts map[string]uint64
}

func (c counting) Trace(context.Context, []host.Question) ([]host.Trace, error) {
	return []host.Trace{{}, {Counts: map[string]map[string]uint64{"": maps.Clone(c.counts)}}}, nil
}

// What trials have carried since the last proof must have been counted at every device on the way: each pair's own, and
// those that all share.
func TestPathsOfTrials(t *testing.T) {
	made, err := mixParts().Kinds.Complete(stack.Stack{chosen(t, "bridge")})
	if err != nil {
		t.Fatal(err)
	}
	lab := experiment.Lab{
		ID: "bridge/same-host/2", Stack: made, Placement: experiment.SameHost, Pairs: 2,
		Affinity: "split", Hosts: 1,
	}
	c := &configurator{resolved: neighbours(t), cpus: []int{0, 1}}
	g, err := c.begin(0, []int{2})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.sketch(g, lab)
	if err != nil {
		t.Fatal(err)
	}
	l.families = []string{"ipv4"}
	if err := c.describe(l, 1); err != nil {
		t.Fatal(err)
	}
	p, err := l.spec.Plan()
	if err != nil {
		t.Fatal(err)
	}
	l.placed(p.Site)
	at := counting{counts: map[string]uint64{host.Forwarded("ipv4").Name: 7, host.Forwarded("ipv6").Name: 7}}
	for pair := range 2 {
		for _, link := range []string{fmt.Sprintf("vsrc%d", pair), fmt.Sprintf("vsnk%d", pair)} {
			at.counts[host.Received("", link, "br0").Name], at.counts[host.Sent("", link, "br0").Name] = 1000, 1000
		}
	}
	l.stands = at
	// What is said of the trials since the last time: the fake does not say where packets go on, which comes after that.
	said := func() string {
		list := proof.Play(t.Context(), []proof.Claim{{Name: proof.Path, Ways: l.ways}}, nil)
		said, of := strings.CutPrefix(list[0].Detail, "packets of the trials: ")
		if !of {
			return ""
		}
		return said
	}
	if said := said(); said != "" {
		t.Fatalf("nothing was carried before: %q", said)
	}
	cell := experiment.Cell{Cell: measure.Cell{Family: "ipv4"}, Workload: udprr.Workload{}, First: 1}
	one := workload.Trial{Sources: []traffic.Sample{{Received: 500}}, Sinks: []traffic.Sample{{Total: 500}}}
	move := func(link string, packets uint64) {
		at.counts[host.Received("", link, "br0").Name] += packets
		at.counts[host.Sent("", link, "br0").Name] += packets
	}
	both := func(source, sink uint64) { move("vsrc1", source); move("vsnk1", sink) }
	for _, step := range []struct {
		what string
		do   func()
		want string // a part of what is said
	}{
		{
			"nothing was counted", func() {},
			"pair 1, ipv4: host1 counted 0 packets received by vsrc1, port of br0, but at least 1000 arrived",
		},
		{"the source's port missed some", func() { both(999, 1000) }, "counted 999 packets received by vsrc1"},
		{"all were counted", func() { both(1000, 1000) }, ""},
		{
			"somebody else sent to the sink", func() { both(1000, 1000); move("vsnk1", 500) },
			"host1 counted 1500 packets sent by vsnk1, port of br0, but containers sent no more than 1000 there",
		},
		{"a few neighbours were asked", func() { both(1000, 1000); move("vsnk1", 30) }, ""},
		{"the host forwarded one", func() {
			both(1000, 1000)
			at.counts[host.Forwarded("ipv4").Name]++
		}, "counted 1 packets of ipv4 forwarded by the host's network stack, but the plan expects none"},
	} {
		l.carry(cell, one)
		l.carry(cell, one)
		step.do()
		if said := said(); !strings.Contains(said, step.want) || (step.want == "") != (said == "") {
			t.Errorf("%s: %q, want %q", step.what, said, step.want)
		}
	}
}

// attaching is a network whose containers may have a second interface.
type attaching struct{ to string }

func (a attaching) Attached(part.Params) string { return a.to }

func (attaching) Trace(network.Trip) network.Way { return network.Way{} }

// An attacher says the way of packets only if containers have a second interface. The claim then says no more than
// that.
func TestWaysOfAttacher(t *testing.T) {
	for to, want := range map[string]string{"": "", "lab/fast": "packets pass the second interface of containers"} {
		l := &lab{Lab: experiment.Lab{Stack: stack.Stack{{Part: stack.Part{Value: attaching{to}}}}}}
		text := ""
		for _, c := range (proof.Lab{}).Claims(newWays(l, &network.Site{})) {
			if c.Name == proof.Path {
				text = c.Text + ": " + c.Expected
			}
		}
		if !strings.HasPrefix(text, want) || (text == "") != (want == "") || strings.Contains(text, "neighbours") {
			t.Errorf("attached to %q: the claim is %q, want %q…", to, text, want)
		}
	}
}

// Streams, segmented datagrams and programs may send segments that are cut on their way.
func TestSendsLarge(t *testing.T) {
	for _, c := range []struct {
		workload workload.Workload
		given    map[string]string
		want     bool
	}{
		{udprr.Workload{}, nil, false},
		{burst.Workload{}, nil, false},
		{udprate.Workload{}, nil, false},
		{udprate.Workload{}, map[string]string{"mode": "segmented"}, true},
		{tcpstream.Workload{}, nil, true},
		{tcprr.Workload{}, nil, true},
		{video.Workload{}, nil, true},
		{tbench.Workload{}, nil, true},
	} {
		params, err := c.workload.Describe().Resolve(c.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := sendsLarge(experiment.Cell{Workload: c.workload, Params: params}); got != c.want {
			t.Errorf("%s with %v: %t, want %t", c.workload.Describe().Name, c.given, got, c.want)
		}
	}
}

// What is known of trials is a lower bound: of large segments, one packet each; of commands, nothing.
func TestCarried(t *testing.T) {
	trial := workload.Trial{
		Sources: []traffic.Sample{{Received: 7, Bytes: 1 << 16}},
		Sinks: []traffic.Sample{{
			Received: 640, Total: 1000, Bytes: 1<<20 + 1, Counts: traffic.Counts{flows.CountFlows: 30},
		}},
	}
	type count struct{ There, Back int64 }
	for _, c := range []struct {
		workload workload.Workload
		given    map[string]string
		want     count
	}{
		{udprr.Workload{}, nil, count{7, 7}},
		{udprate.Workload{}, nil, count{640, 0}},
		{udprate.Workload{}, map[string]string{"mode": "segmented"}, count{10, 0}},
		{udprate.Workload{}, map[string]string{"search": "no-drop"}, count{1000, 0}},
		{udprate.Workload{}, map[string]string{"search": "no-drop", "mode": "segmented"}, count{16, 0}},
		{tcpstream.Workload{}, nil, count{17, 1}},
		{underload.Workload{}, nil, count{640, 7}},
		{quake3.Workload{}, nil, count{640, 7}},
		{burst.Workload{}, nil, count{640, 7}},
		{connections.Workload{}, nil, count{30, 1}},
		{video.Workload{}, nil, count{30, 1}},
		{tbench.Workload{}, nil, count{7, 7}},
		{tcprr.Workload{}, nil, count{7, 7}},
		{tcprr.Workload{}, map[string]string{"in-flight": "4"}, count{2, 2}},
		{tcprr.Workload{}, map[string]string{"rate": "1k/s"}, count{1, 1}},
		{tcprr.Workload{}, map[string]string{"payload": "64KiB", "response": "1", "in-flight": "8"}, count{7, 1}},
		{tcpcrr.Workload{}, nil, count{14, 14}},
		{tcpcrr.Workload{}, map[string]string{"response": "100KiB"}, count{14, 7 + 11}},
		{kv.Workload{}, nil, count{7, 7}},
		{kv.Workload{}, map[string]string{"pipeline": "7"}, count{1, 1}},
		{kv.Workload{}, map[string]string{"payload": "128KiB"}, count{7, 14}},
		{kv.Workload{}, map[string]string{"payload": "128KiB", "operation": "set"}, count{14, 7}},
		{kv.Workload{}, map[string]string{"payload": "128KiB", "operation": "mixed"}, count{7, 7}},
		{http.Workload{}, nil, count{7, 7}},
		{http.Workload{}, map[string]string{"payload": "1MiB"}, count{7, 7 * 16}},
		{http.Workload{}, map[string]string{"connection": "new"}, count{14, 14}},
		{dns.Workload{}, map[string]string{"in-flight": "8"}, count{7, 7}},
		{dns.Workload{}, map[string]string{"transport": "tcp"}, count{7, 7}},
		{dns.Workload{}, map[string]string{"transport": "tcp", "in-flight": "2", "clients": "3"}, count{4, 4}},
	} {
		d := c.workload.Describe()
		params, err := d.Resolve(c.given)
		if err != nil {
			t.Fatal(err)
		}
		trial.Params = params
		var got count
		got.There, got.Back = c.workload.(workload.Carrier).Carried(trial, 0)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s with %v (-want +got):\n%s", d.Name, c.given, diff)
		}
	}
	given := map[string]string{"transport": "tcp", "in-flight": "2", "clients": "2"}
	params, err := dns.Workload{}.Describe().Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	driven := workload.Trial{Params: params, Sources: []traffic.Sample{{Received: 7, Window: 1}}}
	if there, _ := (dns.Workload{}).Carried(driven, 0); there != 2 {
		t.Errorf("of 7 queries of a program, four of which may share a packet, %d packets, want 2", there)
	}
	if _, counts := workload.Workload(command.Workload{}).(workload.Carrier); counts {
		t.Error("command knows how many packets its programs send")
	}
}

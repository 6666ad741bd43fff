package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/filter"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/bridge"
	"github.com/nettoll/nettoll/network/host"
	"github.com/nettoll/nettoll/network/nat"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/tcpstream"
	"github.com/nettoll/nettoll/workload/udprr"
)

func mixParts() experiment.Parts {
	return experiment.Parts{
		Kinds: stack.Kinds{
			network.Kind{host.Network{}, bridge.Network{}, nat.Network{}},
			filter.Kind{},
			runtime.Kind{netns.Runtime{}},
		},
		Workloads: []workload.Workload{udprr.Workload{}, tcpstream.Workload{}},
	}
}

// chosen is the choice of a network.
func chosen(t *testing.T, network string) stack.Choice {
	t.Helper()
	c, err := mixParts().Kinds.Choose("network", network, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// neighbours are a mix of requests on three pairs and a stream on one, and the requests alone: on host, its twin and
// bridge.
func neighbours(t *testing.T) *experiment.Resolved { return neighboursAnd(t, false) }

// neighboursAnd are the same, and each member of the mix alone.
func neighboursAnd(t *testing.T, alone bool) *experiment.Resolved {
	t.Helper()
	e := experiment.Base(mixParts())
	e.Factors.Parts, e.Factors.Placements, e.Factors.Pairs = []stack.Stack{{chosen(t, "bridge")}},
		[]experiment.Placement{experiment.SameHost}, []int{4}
	for _, s := range []string{"mix(udp-rr*3,tcp-stream)", "udp-rr"} {
		l, err := experiment.ParseLoad(s)
		if err != nil {
			t.Fatal(err)
		}
		l.Alone = alone && l.Mix != nil
		e.Workloads = append(e.Workloads, l)
	}
	r, err := experiment.Resolve(e, mixParts(), 2)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each pair of a mix has the workload of its member, at ports that no other visit to the lab has.
func TestSpecifyMix(t *testing.T) {
	c := &configurator{resolved: neighbours(t), cpus: []int{0, 1}, congestion: "cubic"}
	all := make([]int, len(c.resolved.Cells))
	for i := range all {
		all[i] = i
	}
	g, err := c.begin(0, all)
	if err != nil {
		t.Fatal(err)
	}
	const of = 2 // bridge: after host and its twin
	l := g.labs[of]
	if err := c.describe(l, 1); err != nil {
		t.Fatal(err)
	}
	p, err := l.spec.Plan()
	if err != nil {
		t.Fatal(err)
	}
	l.placed(p.Site)
	if err := c.specify(l, of, all); err != nil {
		t.Fatal(err)
	}
	var got []string
	ports := map[string]string{}
	for _, w := range l.workers {
		for _, s := range w.specs {
			if w.side == workload.Source {
				got = append(got, fmt.Sprintf("seat %d, pair %d, visit %d: cell %d, %s", s.Seat, s.Spec.Pair, s.Visit, s.Cell,
					s.Spec.Workload))
			}
			at := fmt.Sprint(s.Namespace, s.Spec.Local)
			if other := ports[at]; other != "" {
				t.Errorf("%s is given to visit %d and to %s", at, s.Visit, other)
			}
			ports[at] = fmt.Sprint("visit ", s.Visit)
		}
	}
	want := []string{
		"seat 0, pair 0, visit 2: cell 2, udp-rr", "seat 0, pair 0, visit 5: cell 8, udp-rr",
		"seat 1, pair 1, visit 2: cell 2, udp-rr", "seat 1, pair 1, visit 5: cell 8, udp-rr",
		"seat 2, pair 2, visit 2: cell 2, udp-rr", "seat 2, pair 2, visit 5: cell 8, udp-rr",
		"seat 3, pair 3, visit 2: cell 5, tcp-stream", "seat 3, pair 3, visit 5: cell 8, udp-rr",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

// A member that is measured alone has its own pairs, and the threads of the others take no part in its visit. It leaves
// with the mix.
func TestAlone(t *testing.T) {
	r := neighboursAnd(t, true)
	c := &configurator{resolved: r, cpus: []int{0, 1}, congestion: "cubic"}
	all := make([]int, len(r.Cells))
	for i := range all {
		all[i] = i
	}
	g, err := c.begin(0, all)
	if err != nil {
		t.Fatal(err)
	}
	const of = 2 // bridge: after host and its twin
	l := g.labs[of]
	if err := c.describe(l, 1); err != nil {
		t.Fatal(err)
	}
	p, err := l.spec.Plan()
	if err != nil {
		t.Fatal(err)
	}
	l.placed(p.Site)
	if err := c.specify(l, of, all); err != nil {
		t.Fatal(err)
	}
	got := map[string][]int{}
	for _, w := range l.workers {
		for _, s := range w.specs {
			if w.side == workload.Source {
				got[r.Visits[s.Visit].ID] = append(got[r.Visits[s.Visit].ID], s.Spec.Pair)
			}
		}
	}
	const mix = "bridge/same-host/4/mix(udp-rr(payload=64,mode=wait)*3,tcp-stream(message=131072)*1)"
	requests, stream := mix+":udp-rr(payload=64,mode=wait)+alone", mix+":tcp-stream(message=131072)+alone"
	want := map[string][]int{
		mix: {0, 1, 2, 3}, requests: {0, 1, 2}, stream: {3}, "bridge/same-host/4/udp-rr(payload=64,mode=wait)": {0, 1, 2, 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs by visit (-want +got):\n%s", diff)
	}
	s := &scheduler{
		cells: r.Cells, gone: map[int]string{}, may: map[int]bool{},
		workload: &workloadControl{cells: r.Cells, visits: r.Visits},
	}
	left := func() (list []string) {
		for i, c := range r.Cells {
			if s.gone[i] != "" {
				list = append(list, c.ID)
			}
		}
		return list
	}
	s.leave(strings.TrimSuffix(requests, "+alone"), precise)
	if list := left(); list != nil {
		t.Errorf("%q have left before the stream may", list)
	}
	s.leave(strings.TrimSuffix(stream, "+alone"), precise)
	if list := left(); len(list) != 4 || !slices.Contains(list, requests) || !slices.Contains(list, stream) {
		t.Errorf("%q have left, want the mix and its members alone", list)
	}
	for i, v := range r.Visits {
		n := 0
		for _, w := range l.workers {
			n += c.takingPart(w, v)
		}
		if pairs := len(want[v.ID]); r.Cells[v.Cells[0]].Lab == of && n != 2*pairs {
			t.Errorf("visit %d, %s: %d threads take part, want %d", i, v.ID, n, 2*pairs)
		}
	}
}

// A mix is measured until all of its members may leave.
func TestLeaveMix(t *testing.T) {
	r := neighbours(t)
	kept, err := newAggregator("", measure.Run{}, r.Cells)
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{
		cells: r.Cells, gone: map[int]string{}, may: map[int]bool{},
		workload: &workloadControl{cells: r.Cells, visits: r.Visits}, records: kept,
	}
	all := []int{0, 1, 2, 3, 4, 5}
	requests, stream := r.Cells[2].ID, r.Cells[5].ID
	s.leave(requests, precise)
	if !slices.Equal(s.visiting(), all) || s.done() || s.gone[2] != "" || !s.may[2] {
		t.Errorf("one member may leave: %v are visited, gone %v", s.visiting(), s.gone)
	}
	s.leave(requests, precise) // as at every look from now on
	s.leave(stream, precise)
	if !slices.Equal(s.visiting(), []int{0, 1, 3, 4, 5}) || s.done() || s.gone[2] != precise ||
		s.gone[5] != precise {
		t.Errorf("both may: %v are visited, gone %v", s.visiting(), s.gone)
	}
	s.drop(r.Cells[0].Lab, errors.New("it burnt down"))
	if !slices.Equal(s.visiting(), []int{1, 4, 5}) || s.gone[0] == "" || s.gone[3] == "" {
		t.Errorf("without a lab: %v are visited, gone %v", s.visiting(), s.gone)
	}
}

// A member that fails fails alone; the other's trial says what was not beside it, and has no run time that is not its
// own.
func TestMixTrials(t *testing.T) {
	r := neighbours(t)
	c := &workloadControl{cells: r.Cells, visits: r.Visits}
	timing := traffic.Timing{Cell: 2, Done: true, Softirqd: time.Second, Opened: 1e9}
	made := func(i int, failure string) trial {
		cell := r.Cells[i]
		one := workload.Trial{Params: cell.Params, Length: cell.Trial, Window: cell.Trial - cell.Warm, First: cell.First}
		for range cell.Pairs {
			s := traffic.Sample{
				Sent: 100, Received: 100, Total: 100, CPU: 1e6, Span: int64(cell.Trial), Bytes: 1 << 20,
				Failure: failure,
			}
			one.Sources, one.Sinks = append(one.Sources, s), append(one.Sinks, s)
		}
		return c.trial(i, one, timing, nil)
	}
	trials := []trial{made(2, ""), made(5, "it fell over")}
	c.tellBeside(trials)
	if trials[0].failure != "" || len(trials[0].result.Metrics) == 0 || trials[1].failure != "pair 3: it fell over" ||
		len(trials[1].result.Metrics) > 0 {
		t.Errorf("%+v", trials)
	}
	if w := strings.Join(trials[0].result.Warnings, "; "); !strings.Contains(w,
		"the other end, the tcp-stream, failed: pair 3: it fell over") {
		t.Errorf("the other's trial says %q", w)
	}
	if m := trials[0].result.Metrics; m["cpu_busy"] <= 0 || m["cpu_busy"] >= 1 ||
		m["cpu_busy"] != m["cpu_source"]+m["cpu_sink"] {
		t.Errorf("it kept %v cores busy, %v and %v of them at its ends", m["cpu_busy"], m["cpu_source"], m["cpu_sink"])
	}
	if _, has := trials[0].result.Metrics["cpu_softirqd"]; has {
		t.Error("a member of a mix says what ksoftirqd took")
	}
	if alone := made(8, ""); alone.result.Metrics["cpu_softirqd"] <= 0 || alone.result.Metrics["cpu_busy"] <= 1 {
		t.Errorf("alone it says %v", alone.result.Metrics)
	}
}

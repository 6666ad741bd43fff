package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/deploy/labtest"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/network/networktest"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/probe"
	"github.com/nettoll/nettoll/runtime"
	"github.com/nettoll/nettoll/runtime/netns"
	"github.com/nettoll/nettoll/stack"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/udprr"
)

// inhabited makes containers that have processes of their own.
type inhabited struct{ netns.Runtime }

func (inhabited) Populated(part.Params) bool { return true }

// imagined is an experiment that needs no kernel: round trips of two pairs across two hosts, through networks "base"
// and "other", and five generations.
func imagined(t *testing.T, by runtime.Runtime, change ...func(*experiment.Experiment)) *experiment.Resolved {
	t.Helper()
	called := func(name string) network.Network {
		return networktest.Fake{Description: network.Description{
			Name: name, Summary: "joins nothing", Implementation: "kernel",
		}}
	}
	parts := experiment.Parts{
		Kinds:     stack.Kinds{network.Kind{called("base"), called("other")}, runtime.Kind{by}},
		Workloads: []workload.Workload{udprr.Workload{}}, Probes: []probe.Probe{remote{}},
	}
	e := experiment.Base(parts)
	other, err := parts.Kinds.Choose("network", "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	e.Factors.Parts, e.Factors.Pairs = []stack.Stack{{other}}, []int{2}
	e.Factors.Placements = []experiment.Placement{experiment.CrossHost}
	e.Workloads = []experiment.Load{{Choice: experiment.Choice{Name: "udp-rr"}}}
	e.Design.Time = time.Nanosecond // the least number of generations, with a block each
	for _, c := range change {
		c(&e)
	}
	r, err := experiment.Resolve(e, parts, 4)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	baseLab  = "base/cross-host/2"
	otherLab = "other/cross-host/2"
)

// Faults of workers and hosts cost what is said of them, and never more: the run goes on, says what happened, and
// leaves no lab behind.
func TestFaults(t *testing.T) {
	// Trials are counted over the whole run: three a block (baseline, twin, other), in random order.
	during := func(lab string, kind labtest.FaultKind, trials ...int) func(int) labtest.Fault {
		return func(n int) labtest.Fault {
			if !slices.Contains(trials, n) {
				return labtest.Fault{}
			}
			return labtest.Fault{Lab: lab, Kind: kind, Worker: 1}
		}
	}
	for _, c := range []struct {
		name    string
		fake    *labtest.Fake
		refused string         // the whole run, for this reason
		built   map[string]int // of the other network's lab and the baseline's
		dropped string         // why the other network is not measured to the end; "" if it is
		lost    int            // generations in which the other network was lost
		deaths  int
		// unproven says that a proof fails
		unproven bool
		warned   []string
	}{
		{name: "nothing", fake: &labtest.Fake{}, built: map[string]int{baseLab: 5, otherLab: 5}},
		{
			name: "a worker dies", fake: &labtest.Fake{During: during(otherLab, labtest.Dies, 2)},
			built: map[string]int{baseLab: 5, otherLab: 5}, deaths: 1,
			warned: []string{"worker sink@host2 of lab other/cross-host/2 died: signal: killed: it was started again"},
		},
		{
			name: "a worker hangs", fake: &labtest.Fake{During: during(otherLab, labtest.Hangs, 2)},
			built: map[string]int{baseLab: 5, otherLab: 5}, deaths: 1,
			warned: []string{"did not finish its trial", "it was started again"},
		},
		{
			name: "a host ends", fake: &labtest.Fake{During: during(otherLab, labtest.HostEnd, 2)},
			built: map[string]int{baseLab: 5, otherLab: 6}, deaths: 1,
			warned: []string{"the agent of host1 has ended\nthe lab was rebuilt"},
		},
		{
			name: "a lab cannot be built again",
			fake: &labtest.Fake{
				During: during(otherLab, labtest.HostEnd, 2), Fails: func(lab string, n int) error {
					if lab == otherLab && n == 2 {
						return errors.New("out of luck")
					}
					return nil
				},
			},
			built: map[string]int{baseLab: 5, otherLab: 6}, lost: 1, deaths: 1,
			warned: []string{
				"lost in generation 1, rebuilt in the next one (if that is often so, look for the cause with nettoll lab up): " +
					"the agent of host1 has ended; rebuilding the lab failed: " +
					"out of luck",
			},
		},
		{
			name: "a lab can never be built",
			fake: &labtest.Fake{Fails: func(lab string, _ int) error {
				if lab == otherLab {
					return errors.New("out of luck")
				}
				return nil
			}},
			built: map[string]int{baseLab: 1, otherLab: 1}, dropped: "build lab other/cross-host/2: out of luck",
			warned: []string{
				"not measured any more (look for the cause with nettoll lab up): build lab other/cross-host/2: out of luck",
			},
		},
		{
			name: "a lab is lost in three generations",
			fake: &labtest.Fake{Fails: func(lab string, n int) error {
				if lab == otherLab && n > 1 {
					return errors.New("out of luck")
				}
				return nil
			}},
			built: map[string]int{baseLab: 4, otherLab: 4}, lost: 3,
			dropped: "lost in 3 consecutive generations",
			warned: []string{
				"lost in generation 2, rebuilt in the next one (if that is often so, look for the cause with nettoll lab up): " +
					"build lab other/cross-host/2: out of luck",
			},
		},
		{
			name: "a part of a lab is gone after the blocks",
			fake: &labtest.Fake{Drifts: func(lab string, n int) error {
				if lab == otherLab && n == 2 {
					return &deploy.LostError{Err: errors.New("pod x was evicted")}
				}
				return nil
			}},
			built: map[string]int{baseLab: 5, otherLab: 5}, lost: 1,
			warned: []string{
				"lost in generation 2, rebuilt in the next one (if that is often so, look for the cause with nettoll lab up): " +
					"pod x was evicted",
			},
		},
		{
			name: "a lab is not as it was built",
			fake: &labtest.Fake{Drifts: func(lab string, n int) error {
				if lab == otherLab && n == 2 {
					return errors.New("a route is missing")
				}
				return nil
			}},
			built: map[string]int{baseLab: 2, otherLab: 2}, dropped: "proof after the blocks failed: a route is missing",
			unproven: true, warned: []string{"proof after the blocks failed: a route is missing"},
		},
		{
			name: "a program ends while its lab is verified",
			fake: &labtest.Fake{Drifts: func(lab string, n int) error {
				if lab == otherLab && n == 2 {
					return labtest.Ended("on host1 the daemon has ended")
				}
				return nil
			}},
			built:  map[string]int{baseLab: 5, otherLab: 5},
			warned: []string{"on host1 the daemon has ended\nit was after the last block, and the lab is not proven again"},
		},
		{
			name: "a lab cannot stand here", fake: &labtest.Fake{Refuses: map[string]error{otherLab: errors.New("no such thing")}},
			refused: "no cell is left to compare: lab other/cross-host/2: no such thing",
		},
		{
			name: "the baseline cannot stand here", fake: &labtest.Fake{Refuses: map[string]error{baseLab: errors.New("no such thing")}},
			refused: "baseline base/cross-host/2/udp-rr(payload=64,mode=wait): no such thing",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			fake := c.fake
			leftOut := map[string]error{}
			out, err := Run(t.Context(), Options{
				Resolved: imagined(t, netns.Runtime{}), Deployment: fake,
				LeftOut: func(lab string, reason error) { leftOut[lab] = reason },
			})
			if len(leftOut) != len(fake.Refuses) {
				t.Errorf("it says that labs %v are left out, want %v", leftOut, fake.Refuses)
			}
			for lab, reason := range fake.Refuses {
				if !errors.Is(leftOut[lab], reason) {
					t.Errorf("lab %s is left out because %v, want %v", lab, leftOut[lab], reason)
				}
			}
			if left := fake.Left(); len(left) > 0 {
				t.Errorf("these labs still stand: %q", left)
			}
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) || len(fake.Built()) > 0 {
					t.Errorf("error %v, %v labs were built, want none because %s", err, fake.Built(), c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			built := fake.Built()
			delete(built, baseLab+"#2")
			if diff := cmp.Diff(c.built, built); diff != "" {
				t.Errorf("built (-want +got):\n%s", diff)
			}
			lost, deaths := 0, 0
			for _, g := range out.Log.Generations {
				if g.Lost[otherLab] != "" {
					lost++
				}
				deaths += g.Deaths[otherLab]
			}
			if lost != c.lost || deaths != c.deaths {
				t.Errorf("lost in %d generations with %d deaths, want %d with %d", lost, deaths, c.lost, c.deaths)
			}
			if slices.ContainsFunc(out.Log.Proofs, func(p measure.Proof) bool { return !p.OK }) != c.unproven {
				t.Errorf("proofs %+v, want that one fails: %v", out.Log.Proofs, c.unproven)
			}
			var why string
			for _, reason := range out.Dropped {
				why = reason
			}
			if c.dropped == "" && why != "" || !strings.Contains(why, c.dropped) {
				t.Errorf("not measured any more because %q, want %q", why, c.dropped)
			}
			var said []string
			for _, w := range out.Log.Warnings {
				said = append(said, w.Text)
			}
			all := strings.Join(said, "\n")
			for _, want := range c.warned {
				if !strings.Contains(all, want) {
					t.Errorf("it does not say %q:\n%s", want, all)
				}
			}
			if len(c.warned) == 0 && len(said) > 0 {
				t.Errorf("it warns, and nothing happened: %s", all)
			}
			t.Logf("%d blocks, %d trials in %v", len(out.Log.Blocks), len(out.Log.Trials), time.Since(began).Round(time.Millisecond))
		})
	}
}

// Where containers have processes of their own, a worker runs in each; else one for each side and host.
func TestWorkersOfContainers(t *testing.T) {
	for _, c := range []struct {
		by   runtime.Runtime
		want []string
	}{
		{netns.Runtime{}, []string{"source@host1", "sink@host2", "source@host2", "sink@host1"}},
		{inhabited{}, []string{"src0@host1", "snk0@host2", "src1@host2", "snk1@host1"}},
	} {
		r := imagined(t, c.by)
		conf := &configurator{resolved: r, deployment: &labtest.Fake{}, cpus: []int{0, 1, 2, 3}}
		g, err := conf.begin(0, []int{0})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range g.labs[r.Cells[0].Lab].workers {
			got = append(got, w.id())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("workers (-want +got):\n%s", diff)
		}
		out, err := Run(t.Context(), Options{Resolved: r, Deployment: &labtest.Fake{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range out.Log.Trials {
			if x.Failed != "" || x.Metrics["transaction_rate"] == 0 {
				t.Errorf("a trial of %s has failed: %q, with %v", x.Cell, x.Failed, x.Metrics)
			}
		}
	}
}

// The facts about every machine are in run.json, with its hosts. If all hosts are on one, they are there once.
func TestFactsOfMachines(t *testing.T) {
	facts := func(machine string) map[string]any {
		return map[string]any{"kernel": "6.1 of " + machine, "cgroup": "of this time"}
	}
	one := &labtest.Fake{Facts: facts}
	out, err := Run(t.Context(), Options{Resolved: imagined(t, netns.Runtime{}), Deployment: one})
	if err != nil {
		t.Fatal(err)
	}
	if out.Run.Machines != nil || out.Run.Facts["hosts"] != nil || out.Run.Facts["kernel"] != "6.1 of " {
		t.Errorf("facts %v of one machine, and %v of others", out.Run.Facts, out.Run.Machines)
	}
	two := &labtest.Fake{On: []string{"", "node2"}, Facts: facts}
	again := Options{Resolved: imagined(t, netns.Runtime{}), Deployment: two}
	if out, err = Run(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	want := []measure.MachineFacts{{Machine: "node2", Hosts: []string{"host2"}, Facts: facts("node2")}}
	if diff := cmp.Diff(want, out.Run.Machines); diff != "" {
		t.Errorf("other machines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(any([]string{"host1"}), out.Run.Facts["hosts"]); diff != "" || out.Run.Facts["kernel"] != "6.1 of " {
		t.Errorf("facts of the first machine %v, hosts (-want +got):\n%s", out.Run.Facts, diff)
	}
	past := &Past{Run: out.Run}
	two.Facts = func(machine string) map[string]any {
		return map[string]any{"kernel": "6.1 of " + machine, "cgroup": "of another session"}
	}
	if err := past.Fits(t.Context(), again); err != nil {
		t.Errorf("the same machines: %v", err)
	}
	two.Facts = func(machine string) map[string]any {
		return map[string]any{"kernel": "6." + map[string]string{"": "1 of "}[machine], "cgroup": "of another session"}
	}
	err = past.Fits(t.Context(), again)
	if want := `machines.0.facts.kernel: "6.1 of node2" then, "6." now`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another kernel on node2: %v, want %s", err, want)
	}
}

// The load of every machine is in the records.
func TestMachines(t *testing.T) {
	out, err := Run(t.Context(), Options{
		Resolved: imagined(t, netns.Runtime{}), Deployment: &labtest.Fake{On: []string{"", "node2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []measure.MachineLoad{{Machine: "node2", CPU: map[string]float64{"idle": 2}}}
	for _, b := range out.Log.Blocks {
		if diff := cmp.Diff(want, b.Machines); diff != "" || b.CPU["idle"] != 2 {
			t.Fatalf("block %d: %v cores idle; other machines (-want +got):\n%s", b.Block, b.CPU["idle"], fmt.Sprint(diff))
		}
	}
	if len(out.Log.Blocks) == 0 {
		t.Error("no blocks")
	}
}

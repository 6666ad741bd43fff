package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
	"github.com/nettoll/nettoll/workload/command"
	"github.com/nettoll/nettoll/workload/udprr"
)

// onNodes is a lab on machines that are read.
type onNodes struct {
	deploy.Lab
	meters []deploy.Metering
}

func (o onNodes) Meters() []deploy.Metering { return o.meters }

// reads is what machines have counted in a trial: packets of an uplink and of the device of a container each.
func reads(packets int64) []traffic.Metered {
	of := func(machine, device string) traffic.Metered {
		return traffic.Metered{Machine: machine, Reading: traffic.Reading{
			Clock: machine, At: int64(2 * time.Second), Softirqs: 3000, Softirqd: int64(100 * time.Millisecond),
			CPU: map[string]float64{"user": 1, "softirq": 0.5, "idle": 2, "steal": 0.5},
			Devices: []traffic.DeviceCount{
				{Name: "eth0", Received: packets, Sent: packets}, {Name: device, Received: packets, Sent: packets},
			},
		}}
	}
	return []traffic.Metered{of("n2", "veth2"), of("n1", "veth1"), of("n3", "veth3")}
}

// Devices of the nodes of a lab count its trials, and not those of which nobody knows how many packets they take.
func TestPass(t *testing.T) {
	l := &lab{
		Lab: experiment.Lab{ID: "cni/cross-host/1", Hosts: 2}, at: []pairAddresses{{sourceHost: 1, sinkHost: 2}},
	}
	l.metered(onNodes{meters: []deploy.Metering{
		{Machine: "n1", Links: map[string]string{"veth1": "src0"}}, {Machine: "n2", Links: map[string]string{"veth2": "snk0"}},
	}})
	cell := experiment.Cell{Cell: measure.Cell{Family: "ipv4"}, Workload: udprr.Workload{}}
	one := trial{
		timing:  traffic.Timing{Metered: reads(1010)},
		samples: workload.Trial{Sources: []traffic.Sample{{Received: 500}}, Sinks: []traffic.Sample{{Total: 500}}},
	}
	l.pass(cell, one)
	l.pass(cell, one)
	unread := one
	unread.timing.Metered = reads(1010)[:1]
	l.pass(cell, unread) // one of its nodes was not read
	unknown, mixed := cell, cell
	unknown.Workload, mixed.Mix = command.Workload{}, []string{"udp-rr"}
	l.pass(unknown, one)
	l.pass(mixed, one)
	of := func(host, machine, device, container string) measure.Passed {
		return measure.Passed{
			Host: host, Machine: machine, Trials: 2, Left: 1000, Entered: 1000, Across: true, Devices: []measure.Device{
				{Name: device, Container: container, Left: 1000, Entered: 1000, Received: 2020, Sent: 2020},
				{Name: "eth0", Received: 2020, Sent: 2020},
			},
		}
	}
	want := []measure.Passed{of("host1", "n1", "veth1", "src0"), of("host2", "n2", "veth2", "snk0")}
	if diff := cmp.Diff(want, l.passed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	aggregator, err := newAggregator("", measure.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{records: aggregator}
	s.recordPassed(&generation{number: 3, labs: []*lab{nil, l, {}}})
	labs := aggregator.log.Labs
	if len(labs) != 1 || labs[0].Generation != 3 || labs[0].Lab != l.ID || cmp.Diff(want, labs[0].Passed) != "" {
		t.Errorf("records %+v", labs)
	}
	l.metered(nil) // a lab of this machine
	l.pass(cell, one)
	if l.passed != nil {
		t.Errorf("without a monitor: %+v", l.passed)
	}
}

// CPU time and softirqs of the nodes of a lab become metrics of its trials, with ksoftirqd's in that of the threads. Of
// the members of a mix nobody could say for which.
func TestMeteredMetrics(t *testing.T) {
	cell := experiment.Cell{Cell: measure.Cell{Pairs: 1}, Workload: udprr.Workload{}, Trial: time.Second}
	params, err := cell.Workload.Describe().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	cell.Params = params
	mixed := cell
	mixed.Mix = []string{"udp-rr"}
	c := &workloadControl{cells: []experiment.Cell{cell, mixed}}
	on := []deploy.Metering{{Machine: "n1"}, {Machine: "n2"}}
	metrics := func(i int, metered []traffic.Metered, on []deploy.Metering) map[string]float64 {
		got := c.trial(i, workload.Trial{
			Params: params, Length: time.Second, Window: time.Second, Sources: make([]traffic.Sample, 1),
			Sinks: make([]traffic.Sample, 1),
		}, traffic.Timing{Metered: metered}, on)
		some := map[string]float64{}
		for _, name := range []string{traffic.CPUNodes, traffic.CPUNodesSoftirq, traffic.SoftirqRate, "cpu_softirqd"} {
			if x, known := got.result.Metrics[name]; known {
				some[name] = x
			}
		}
		return some
	}
	oneKernel := reads(0)
	for i := range oneKernel {
		oneKernel[i].Clock = "shared"
	}
	hidden := reads(0)
	hidden[0].Softirqd = -1
	for _, tt := range []struct {
		name string
		got  map[string]float64
		want map[string]float64
	}{
		{"two nodes", metrics(0, reads(0), on), map[string]float64{
			"cpu_nodes": 1.5, "cpu_nodes_softirq": 0.5, "softirq_rate": 3000, "cpu_softirqd": 0.2,
		}},
		{"one kernel", metrics(0, oneKernel, on), map[string]float64{
			"cpu_nodes": 0.75, "cpu_nodes_softirq": 0.25, "softirq_rate": 1500, "cpu_softirqd": 0.1,
		}},
		{"one that hides ksoftirqd", metrics(0, hidden, on), map[string]float64{
			"cpu_nodes": 1.5, "cpu_nodes_softirq": 0.5, "softirq_rate": 3000,
		}},
		{"one not read", metrics(0, reads(0)[:1], on), map[string]float64{"cpu_softirqd": 0}},
		{"no monitor", metrics(0, nil, nil), map[string]float64{"cpu_softirqd": 0}},
		{"a mix", metrics(1, reads(0), on), map[string]float64{}},
	} {
		if diff := cmp.Diff(tt.want, tt.got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/measure"
)

// The section about nodes has their CPU time, and the devices that packets pass; nothing without a monitor.
func TestNodes(t *testing.T) {
	run := measure.Run{
		Facts: map[string]any{"node": "n1"},
		Cells: []measure.Cell{
			{ID: "a", Stack: "cni", Place: "cross-host/1", Lab: "cni/cross-host/1"},
			{ID: "b", Stack: "cni", Place: "cross-host/1", Lab: "cni/cross-host/1#2", Twin: true},
			{ID: "c", Stack: "host", Place: "same-host/1", Lab: "host/same-host/1"},
		},
	}
	if _, ok := Read(run, measure.Analysis{}, nil).Nodes(); ok {
		t.Error("without a monitor there is a section")
	}
	device := func(name, container string, n int64) measure.Device {
		return measure.Device{Name: name, Container: container, Left: 1000, Entered: 1000, Received: n, Sent: n}
	}
	dropping := device("vxlan.calico", "", 1100)
	dropping.Dropped = 7
	v := Read(run, measure.Analysis{
		Nodes: []measure.NodeUse{{
			CPU: map[string]float64{"user": 0.5, "softirq": 0.2, "irq": 0.1, "idle": 1, "steal": 0.2}, Others: 0.25,
			Memory: 2e9, Softirqs: 12345,
		}, {Machine: "n2"}},
		Passed: []measure.LabPassed{
			{Lab: "cni/cross-host/1", Hosts: []measure.Passed{
				{Machine: "n1", Left: 1000, Entered: 1000, Across: true, Devices: []measure.Device{
					device("cali1", "src0", 1000), device("eth0", "", 1200), device("eth1", "", 20), dropping,
				}},
				{Machine: "n2", Left: 1000, Entered: 1000, Across: true, Devices: []measure.Device{device("cali2", "snk0", 900)}},
			}},
			{Lab: "cni/cross-host/1#2", Hosts: []measure.Passed{{Machine: "n1", Left: 1}}},
		},
		Heard: []measure.LabHeard{{Lab: "cni/cross-host/1", Frames: []measure.Heard{
			{Machine: "n1", Device: "eth0", Wire: "TCP to port 6443", Frames: 12},
			{Machine: "n1", Device: "eth0", Wire: "UDP to port 4789", Frames: 30, Marked: 28},
			{Machine: "n2", Device: "eth0", Wire: "TCP to port 6443", Frames: 13},
		}}, {Lab: "cni/cross-host/1#2", Frames: []measure.Heard{{Machine: "n1", Device: "eth0"}}}},
	}, nil)
	s, ok := v.Nodes()
	if !ok || len(s.Blocks) != 6 {
		t.Fatalf("%+v", s)
	}
	text := func(t *Table) (rows []string) {
		for _, r := range t.Rows {
			var fields []string
			for _, f := range r {
				fields = append(fields, f.Text)
			}
			rows = append(rows, strings.Join(fields, " | "))
		}
		return rows
	}
	if diff := cmp.Diff([]string{
		"n1 | 0.800 cores | 0.300 cores | 0.200 cores | 0.250 cores | 2.00 Gbyte | 12.3 ksoftirq/s",
		"n2 | 0.000 cores | 0.000 cores | 0.000 cores | 0.000 cores | 0 byte | 0 softirq/s",
	}, text(s.Blocks[1].Table)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"cni/cross-host/1 | n1 | 1.00 k | 1.00 k | cali1 (src0), eth0, vxlan.calico | vxlan.calico: 7",
		" | n2 | 1.00 k | 1.00 k | cannot be told: none has counted as many; not those of 1 pod | ",
	}, text(s.Blocks[3].Table)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"cni/cross-host/1 | n1 | eth0 | UDP to port 4789 | 30 | 28", " | n2 | eth0 | TCP to port 6443 | 13 | 0",
	}, text(s.Blocks[5].Table)); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	if want := "It cannot be told of 1 lab:"; !strings.Contains(s.Blocks[2].Text, want) {
		t.Errorf("%q is not in %q", want, s.Blocks[2].Text)
	}
}

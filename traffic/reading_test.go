package traffic

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is counted between two readings is about devices that were there all the time and have carried something.
func TestSince(t *testing.T) {
	before := Reading{
		Clock: "a", At: 1000, CPU: map[string]float64{"user": 1, "idle": 10}, Softirqs: 100, Softirqd: 5, Memory: 1,
		Devices: []DeviceCount{
			{Name: "eth0", Index: 2, Received: 10, Sent: 20, ReceivedBytes: 1000, SentBytes: 2000, Dropped: 1},
			{Name: "veth1", Index: 3, Received: 1, Sent: 1},
			{Name: "veth2", Index: 4, Received: 1, Sent: 1},
		},
	}
	after := Reading{
		Clock: "a", At: 3000, CPU: map[string]float64{"user": 1.5, "idle": 11, "irq": 0.1}, Softirqs: 150, Softirqd: 15,
		Memory: 7, Devices: []DeviceCount{
			{Name: "eth0", Index: 2, Received: 110, Sent: 23, ReceivedBytes: 11000, SentBytes: 2300, Dropped: 3},
			{Name: "veth1", Index: 3, Received: 1, Sent: 1},
			{Name: "other", Index: 4, Received: 9, Sent: 9},
			{Name: "veth3", Index: 5, Received: 8, Sent: 8},
		},
	}
	want := Reading{
		Clock: "a", At: 2000, CPU: map[string]float64{"user": 0.5, "idle": 1, "irq": 0.1}, Softirqs: 50, Softirqd: 10,
		Memory: 7, Devices: []DeviceCount{
			{Name: "eth0", Index: 2, Received: 100, Sent: 3, ReceivedBytes: 10000, SentBytes: 300, Dropped: 2},
		},
	}
	if diff := cmp.Diff(want, after.Since(before)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all, softirq := want.Busy(); all != 0.6 || softirq != 0.1 {
		t.Errorf("busy for %v, with softirqs for %v, want 0.6 and 0.1", all, softirq)
	}
	after.Softirqd = -1
	if got := after.Since(before).Softirqd; got >= 0 {
		t.Errorf("ksoftirqd, which was not visible at the end, ran for %d", got)
	}
}

// Machines that share a kernel count the same softirqs: one of them is enough.
func TestKernels(t *testing.T) {
	list := []Metered{
		{Machine: "n1", Reading: Reading{Clock: "a"}},
		{Machine: "n2", Reading: Reading{Clock: "a"}},
		{Machine: "n3", Reading: Reading{Clock: "b"}},
		{Machine: "n4"},
		{Machine: "n5"},
	}
	var names []string
	for _, m := range Kernels(list) {
		names = append(names, m.Machine)
	}
	if diff := cmp.Diff([]string{"n1", "n3", "n4", "n5"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

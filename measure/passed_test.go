package measure

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A device carries packets if it has counted at least as many as are known to have passed, in either direction: an
// underlay sends what leaves, and a bridge receives it. For one that leads to a container, they are that container's.
func TestCarries(t *testing.T) {
	p := Passed{Left: 1000, Entered: 10}
	for _, c := range []struct {
		d    Device
		want bool
	}{
		{Device{Name: "eth0", Sent: 1000, Received: 10}, true},
		{Device{Name: "br0", Sent: 10, Received: 1000}, true},
		{Device{Name: "eth1", Sent: 999, Received: 10}, false},
		{Device{Name: "eth2", Sent: 1000, Received: 9}, false},
		{Device{Name: "v0", Container: "src0", Left: 600, Entered: 5, Received: 600, Sent: 5}, true},
		{Device{Name: "v1", Container: "src1", Left: 400, Entered: 5, Received: 399, Sent: 5}, false},
		{Device{Name: "v2", Container: "src2", Left: 400, Entered: 5, Received: 5, Sent: 400}, false}, // the other way round
		{Device{Name: "v3", Container: "src3", Received: 5, Sent: 400}, false},                        // of nothing
	} {
		if got := p.Carries(c.d); got != c.want {
			t.Errorf("%+v: %v, want %v", c.d, got, c.want)
		}
	}
}

// Records of several generations are added up. Devices that lead to one container are one; what hardly moves is not
// recorded, unless it drops packets.
func TestPassedIn(t *testing.T) {
	generation := func(veth string) Passed {
		p := Passed{Host: "host1", Machine: "n1", Trials: 2, Across: true}
		p.Devices = []Device{{Name: veth, Container: "src0"}}
		p.Carry("src0", 1000, 500)
		for range 2 {
			p.Count(Device{Name: "eth0", Received: 300, Sent: 600, ReceivedBytes: 3000, SentBytes: 6000})
			p.Count(Device{Name: veth, Received: 500, Sent: 250})
		}
		p.Count(Device{Name: "lo", Received: 10, Sent: 10})
		p.Count(Device{Name: "dummy0", Sent: 1, Dropped: 2})
		return p.Moved()
	}
	first := LabRecord{Generation: 1, Lab: "a", Metrics: map[string]float64{}, Passed: []Passed{generation("veth1")}}
	second := LabRecord{Generation: 2, Lab: "a", Metrics: map[string]float64{}, Passed: []Passed{generation("veth2")}}
	var text bytes.Buffer
	w := NewWriter(&text)
	for _, l := range []LabRecord{first, {Lab: "b", Metrics: map[string]float64{"setup_time": 1}}, second} {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Sum(); err != nil {
		t.Fatal(err)
	}
	log, problems, err := Read(strings.NewReader(text.String()))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	want := []LabPassed{{Lab: "a", Hosts: []Passed{{
		Host: "host1", Machine: "n1", Trials: 4, Left: 2000, Entered: 1000, Across: true, Devices: []Device{
			{Name: "veth2", Container: "src0", Left: 2000, Entered: 1000, Received: 2000, Sent: 1000},
			{Name: "dummy0", Sent: 2, Dropped: 4},
			{Name: "eth0", Received: 1200, Sent: 2400, ReceivedBytes: 12000, SentBytes: 24000},
		},
	}}}}
	if diff := cmp.Diff(want, PassedIn(log.Labs)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What was heard in several proofs is added up.
func TestHeardIn(t *testing.T) {
	heard := func(when, wire string, marked int) Heard {
		return Heard{Host: "host1", Machine: "n1", When: when, Device: "eth0", Wire: wire, Frames: 10, Marked: marked}
	}
	got := HeardIn([]LabRecord{
		{Lab: "a", Heard: []Heard{heard("before", "UDP", 3), heard("before", "TCP", 0)}},
		{Lab: "b"},
		{Lab: "a", Heard: []Heard{heard("after", "UDP", 4)}},
	})
	sum := heard("", "UDP", 7)
	sum.Frames = 20
	if diff := cmp.Diff([]LabHeard{{Lab: "a", Frames: []Heard{sum, heard("", "TCP", 0)}}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Machines that nobody has read are in no table of nodes.
func TestNodeUses(t *testing.T) {
	blocks := []BlockFacts{
		{Duration: 1, CPU: map[string]float64{"user": 1}, Others: 0.5, Memory: 100, Softirqs: 10, Machines: []MachineLoad{
			{Machine: "n2", CPU: map[string]float64{"user": 2}},
		}},
		{Duration: 3, CPU: map[string]float64{"user": 3}, Memory: 200, Softirqs: 20},
		{Duration: 5, CPU: map[string]float64{"user": 9}},
	}
	want := []NodeUse{{CPU: map[string]float64{"user": 2.5}, Others: 0.125, Memory: 175, Softirqs: 17.5}}
	if diff := cmp.Diff(want, NodeUses(blocks)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := NodeUses(blocks[2:]); got != nil {
		t.Errorf("without a monitor: %+v", got)
	}
}

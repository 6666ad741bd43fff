package study_test

import (
	"strings"
	"testing"

	"github.com/nettoll/nettoll/catalogue"
	"github.com/nettoll/nettoll/control"
	"github.com/nettoll/nettoll/deploy/local"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/internal/linux/thread"
	"github.com/nettoll/nettoll/internal/testnet"
)

// A run whose turns pass by calls to the workers, as between machines, measures to its end. Hosts count as machines
// there: the clocks of two may differ, which trials across hosts record, and one-way times are not measured.
func TestCalled(t *testing.T) {
	testnet.Root(t)
	parts := catalogue.New().Parts()
	const text = "{factors: {network: bridge}, workloads: [tcp-stream, quake3], " +
		"design: {time: 2s}}"
	e, err := experiment.Read("the experiment", []byte(text), nil, parts)
	if err != nil {
		t.Fatal(err)
	}
	parts.Cluster = parts.Kinds
	e.Clusters = []experiment.Cluster{{}} // trials are as long as calls need
	cpus, err := thread.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := experiment.Resolve(e, parts, len(cpus))
	if err != nil {
		t.Fatal(err)
	}
	out, err := control.Run(t.Context(), control.Options{Resolved: resolved, Deployment: &local.Deployment{Called: true}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Dropped) > 0 {
		t.Errorf("dropped %v", out.Dropped)
	}
	good, oneWay := map[string]int{}, map[bool]int{}
	for _, trial := range out.Log.Trials {
		if trial.Failed != "" {
			t.Logf("%s: %s", trial.Cell, trial.Failed) // its windows may have been apart: this machine may be busy
			continue
		}
		good[trial.Cell]++
		across := strings.Contains(trial.Cell, "/"+string(experiment.CrossHost)+"/")
		if _, apart := trial.Metrics["clock_skew"]; !apart {
			t.Errorf("%s: no clock skew of two workers: %v", trial.Cell, trial.Metrics)
		}
		for name := range trial.Metrics {
			if strings.HasPrefix(name, "oneway") {
				oneWay[across]++
			}
		}
	}
	for _, cell := range out.Run.Cells {
		if good[cell.ID] == 0 {
			t.Errorf("%s: no trial counts", cell.ID)
		}
	}
	if oneWay[true] > 0 || oneWay[false] == 0 {
		t.Errorf("one-way times: %d across hosts, %d on one host; want none, and some", oneWay[true], oneWay[false])
	}
}

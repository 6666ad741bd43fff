package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
)

// describe makes run.json.
func describe(ctx context.Context, o Options, cpus []int, w *wake) (measure.Run, error) {
	given, err := json.Marshal(o.Resolved.Experiment)
	if err != nil {
		return measure.Run{}, fmt.Errorf("encode experiment: %w", err)
	}
	d := o.Resolved.Experiment.Design
	versions := maps.Clone(o.Versions)
	if versions == nil {
		versions = map[string]string{}
	}
	if versions["binary"], err = binarySum(); err != nil {
		return measure.Run{}, err
	}
	hosts := 0
	for _, l := range o.Resolved.Labs {
		hosts = max(hosts, l.Hosts)
	}
	machines, err := o.Deployment.Machines(ctx, hosts)
	if err != nil {
		return measure.Run{}, err
	}
	run := measure.Run{
		V: measure.Version, Name: o.Resolved.Experiment.Name, Suite: o.Resolved.Experiment.Suite, Started: time.Now().UTC(),
		Source: o.Resolved.Experiment.Source, Experiment: given,
		Design: measure.Design{
			Precision: d.Precision, Decided: d.Decided, Margin: d.Margin, Spoiled: d.Spoiled, Time: d.Time.Seconds(),
			Generations: d.Generations, Seed: d.Seed,
			TrialSeconds: map[string]float64{},
		},
		Versions: versions, Facts: maps.Clone(machines[0].Facts), Metrics: o.Resolved.Metrics.All(),
	}
	for _, m := range machines[1:] {
		run.Facts["hosts"] = machines[0].Hosts
		run.Machines = append(run.Machines, measure.MachineFacts{Machine: m.Name, Hosts: m.Hosts, Facts: m.Facts})
	}
	for _, c := range o.Resolved.Cells {
		c.Idle = w.of(c)
		of := o.Resolved.Labs[c.Lab]
		c.SharesCPUs = !of.Alone(available(of, len(cpus)))
		run.Cells = append(run.Cells, c.Cell)
		run.Design.TrialSeconds[c.ID] = c.Trial.Seconds()
	}
	for i, affinity := range o.Resolved.Experiment.Factors.Affinities {
		p, err := place(affinity, cpus)
		if err != nil {
			return measure.Run{}, err
		}
		of := ""
		if i > 0 {
			of = "_" + affinity
		}
		run.Facts["cpus_sources"+of], run.Facts["cpus_sinks"+of] = p.sources, p.sinks
	}
	if w.why != "" {
		run.Facts["idle_deep"] = w.why
	}
	if _, run.Standing = o.Deployment.(deploy.Standing); !run.Standing { // else proofs say the MTU of links
		run.Facts["mtu"] = o.Resolved.Experiment.Tune.MTU
	}
	if why := o.Resolved.Experiment.Implied; why != "" {
		run.Facts["baseline"] = why
	}
	if underlay := o.Resolved.Experiment.Underlay; underlay != (network.Medium{}) {
		run.Facts["underlay"] = underlay.String()
	}
	if o.Resolved.Probe != nil {
		said := o.Resolved.Probe.Describe().View(run.Facts)
		run.Probe = &said
	}
	if len(o.Resolved.Omitted) > 0 {
		run.Facts["left_out"] = o.Resolved.Omitted
	}
	return run, nil
}

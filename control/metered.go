package control

import (
	"slices"
	"time"

	"github.com/nettoll/nettoll/deploy"
	"github.com/nettoll/nettoll/experiment"
	"github.com/nettoll/nettoll/measure"
	"github.com/nettoll/nettoll/network"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// metered notes on which machines the hosts of the lab are, if the turn reads them.
func (l *lab) metered(stands deploy.Lab) {
	l.metering, l.passed = nil, nil
	m, ok := stands.(deploy.Metered)
	if !ok {
		return
	}
	if l.metering = m.Meters(); l.metering == nil {
		return
	}
	l.passed = make([]measure.Passed, len(l.metering))
	for h, at := range l.metering {
		l.passed[h].Host, l.passed[h].Machine = network.Host{Index: h + 1}.Name(), at.Machine
		l.passed[h].Across = l.Hosts > 1
		for device, container := range at.Links {
			l.passed[h].Devices = append(l.passed[h].Devices, measure.Device{Name: device, Container: container})
		}
		slices.SortFunc(l.passed[h].Devices, measure.CompareDevices)
	}
}

// meteredOn returns what the machines of a lab have counted in a trial; nil if one of them was not read.
func meteredOn(t traffic.Timing, on []deploy.Metering) []traffic.Metered {
	list := make([]traffic.Metered, len(on))
	for h, at := range on {
		i := slices.IndexFunc(t.Metered, func(m traffic.Metered) bool { return m.Machine == at.Machine })
		if i < 0 {
			return nil
		}
		list[h] = t.Metered[i]
	}
	return list
}

// putMetered adds what kernels have counted during a trial to its metrics. It removes that of ksoftirqd if a kernel
// does not show it.
func putMetered(metrics map[string]float64, kernels []traffic.Metered) {
	if len(kernels) == 0 {
		return
	}
	var busy, softirq, rate float64
	for _, k := range kernels {
		seconds := time.Duration(k.At).Seconds()
		if seconds <= 0 {
			return
		}
		if k.Softirqd < 0 {
			delete(metrics, "cpu_softirqd")
		}
		all, part := k.Busy()
		busy, softirq, rate = busy+all/seconds, softirq+part/seconds, rate+float64(k.Softirqs)/seconds
	}
	metrics[traffic.CPUNodes], metrics[traffic.CPUNodesSoftirq], metrics[traffic.SoftirqRate] = busy, softirq, rate
}

// pass notes what the devices of the hosts have counted in a trial of a cell, if it is known how many packets that has
// carried. Of a mix nobody could say whose they are.
func (l *lab) pass(cell experiment.Cell, t trial) {
	w, counts := cell.Workload.(workload.Carrier)
	on := meteredOn(t.timing, l.metering)
	if !counts || len(on) == 0 || cell.Mix != nil || cell.Alone != "" {
		return
	}
	for h := range l.passed {
		l.passed[h].Trials++
		for _, d := range on[h].Devices {
			l.passed[h].Count(measure.Device{
				Name: d.Name, Received: d.Received, Sent: d.Sent, ReceivedBytes: d.ReceivedBytes, SentBytes: d.SentBytes,
				Dropped: d.Dropped,
			})
		}
	}
	for i := range min(len(t.samples.Sources), len(t.samples.Sinks)) {
		there, back := w.Carried(t.samples, i)
		pair := cell.First + i
		source, sink := &l.passed[l.at[pair].sourceHost-1], &l.passed[l.at[pair].sinkHost-1]
		source.Carry(nameOf(workload.Source, pair), there, back)
		sink.Carry(nameOf(workload.Sink, pair), back, there)
	}
}

// recordPassed records what the devices of hosts have counted in the trials of a generation.
func (s *scheduler) recordPassed(g *generation) {
	for _, l := range g.labs {
		if l == nil {
			continue
		}
		var list []measure.Passed
		for _, p := range l.passed {
			if p.Trials > 0 && p.Left+p.Entered > 0 {
				list = append(list, p.Moved())
			}
		}
		if len(list) > 0 {
			s.records.lab(measure.LabRecord{
				Generation: g.number, Lab: l.ID, Metrics: map[string]float64{}, Passed: list,
			})
		}
	}
}

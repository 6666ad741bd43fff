package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nettoll/nettoll/measure"
)

const (
	// pacedLoad is a workload at a rate in datagrams a second. lateAtMost is how late 99 % of them may leave if source
	// and sink have a CPU each.
	pacedLoad  = "udp-rate(payload=64,mode=single,rate=10000/s)"
	lateAtMost = 20 * time.Microsecond

	pacedVisit = 5 * time.Second
)

// pacing measures how late datagrams with a constant rate leave.
func (b *bench) pacing(ctx context.Context) error {
	var late, rates, cores []float64
	for group := range b.groups {
		b.say("pacing: group %d of %d", group+1, b.groups)
		one, err := newCell(b.parts, pacedLoad, 0, pacedVisit)
		if err != nil {
			return err
		}
		metrics, err := b.alone(ctx, one)
		if err != nil {
			return err
		}
		late, rates, cores = append(late, metrics[departure]), append(rates, metrics["packet_rate_sent"]),
			append(cores, metrics["cpu_source"])
	}
	worst := measure.Median(late)
	b.table.add(row{
		what: "udp-rate at 10,000 packet/s: how late a datagram leaves, 99th percentile", ours: duration(worst),
		goal: "at most " + duration(lateAtMost.Seconds()), met: within(worst, lateAtMost.Seconds()),
	})
	b.table.note("pacing: medians of %d labs, one visit of %v each; %s packet/s sent, the source kept %.2f of a CPU "+
		"busy for it (it sleeps until a datagram is nearly due, then asks the clock).",
		b.groups, pacedVisit, fmt.Sprintf("%.1f", measure.Median(rates)), measure.Median(cores))
	return nil
}

// alone makes one visit of a cell in a lab of its own.
func (b *bench) alone(ctx context.Context, one cell) (map[string]float64, error) {
	l, err := openLab(ctx, b, []cell{one})
	if err != nil {
		return nil, err
	}
	defer l.close()
	return l.visit(ctx, 0)
}

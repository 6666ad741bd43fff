package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/measure"
)

const (
	// crowd is a workload with many connections. They must be established within crowdSetup, and a worker that holds
	// them may use at most crowdMemory.
	crowd       = "connections(connections=10000)"
	crowdSetup  = 3 * time.Second
	crowdMemory = 100e6 // bytes
	crowdVisit  = 2 * time.Second

	// At most a third of all CPU time of a small store may be the generator's own: its source's time outside the
	// kernel.
	store      = "kv(payload=1024)"
	storeVisit = time.Second
	ownShare   = 1.0 / 3

	// own is the metric of that share.
	own = "own"
)

// clients measures the cost of many clients.
func (b *bench) clients(ctx context.Context) error {
	var setups, memories, shares []float64
	for group := range b.groups {
		b.say("clients: group %d of %d", group+1, b.groups)
		setup, memory, err := b.crowd(ctx)
		if err != nil {
			return err
		}
		small, err := newCell(b.parts, store, 0, storeVisit)
		if err != nil {
			return err
		}
		metrics, err := b.alone(ctx, small)
		if err != nil {
			return err
		}
		setups, memories, shares = append(setups, setup), append(memories, memory), append(shares, metrics[own])
	}
	setup, memory, share := measure.Median(setups), measure.Median(memories), measure.Median(shares)
	b.table.add(row{what: "10,000 connections: until all stand", ours: duration(setup), goal: "at most " +
		duration(crowdSetup.Seconds()), met: within(setup, crowdSetup.Seconds())})
	b.table.add(row{
		what: "10,000 connections: private memory of the larger of the two workers", ours: megabytes(memory),
		goal: "at most " + megabytes(crowdMemory), met: within(memory, crowdMemory),
	})
	b.table.add(row{
		what: "kv get, 1 KiB, 50 clients: share of all CPU time that is the generator's own",
		ours: digits(share), goal: "at most " + digits(ownShare), met: within(share, ownShare),
	})
	b.table.note("clients: medians of %d labs, one visit of %v and %v each. The generator's own CPU time is that of the "+
		"source outside the kernel, which counts it in ticks; "+
		"all is that of source, sink and softirqs.", b.groups, crowdVisit, storeVisit)
	return nil
}

// crowd makes one visit with many connections. It returns the time until they were established, and the memory of the
// worker that has more.
func (b *bench) crowd(ctx context.Context) (setup, memory float64, err error) {
	one, err := newCell(b.parts, crowd, 0, crowdVisit)
	if err != nil {
		return 0, 0, err
	}
	l, err := openLab(ctx, b, []cell{one})
	if err != nil {
		return 0, 0, err
	}
	defer l.close()
	metrics, err := l.visit(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	memory, err = largestWorker()
	return metrics["setup_time"], memory, err
}

// largestWorker returns the private memory, in bytes, of the worker that has the most.
func largestWorker() (float64, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	most := 0.0
	for _, name := range files {
		line, err := os.ReadFile(name)
		if args := strings.Split(string(line), "\x00"); err != nil || len(args) < 2 || args[1] != "worker" {
			continue // it may have ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return 0, err
		}
		memory, err := privateMemory(pid)
		if err != nil {
			return 0, err
		}
		most = max(most, memory)
	}
	if most == 0 {
		return 0, errors.New("read memory of workers: there is none")
	}
	return most, nil
}
